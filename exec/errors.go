package exec

import (
	"fmt"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
)

// A PrimitiveError says that a chain ends in a primitive that this program hasn't got.
type PrimitiveError struct {
	Ref       model.Ref // of the tool
	Primitive string    // its id
}

func (e *PrimitiveError) Error() string {
	return fmt.Sprintf("%q is run by the primitive %q, which this rye doesn't have", e.Ref, e.Primitive)
}

// A LoneError says that what is to be run is a primitive, which does what tools say and is none itself.
type LoneError struct{ Ref model.Ref }

func (e *LoneError) Error() string {
	return fmt.Sprintf("%q is a primitive: it does what a tool says, and is none itself", e.Ref)
}

// A PureError says that a tool whose result may depend on anything is to make something that depends on its inputs alone.
type PureError struct{ Ref model.Ref }

func (e *PureError) Error() string {
	return fmt.Sprintf("%q isn't pure, and what a build makes depends on nothing but its inputs", e.Ref)
}

// An UnlistedError says that nobody vouches for other files of a tool.
type UnlistedError struct {
	Ref   model.Ref
	Files []string
}

func (e *UnlistedError) Error() string {
	return fmt.Sprintf("%q is signed in the first format (v1), which says nothing of %q beside it, and no admitted manifest lists that", e.Ref, e.Files[0])
}

// An InputError says what is wrong with the parameters of a call.
type InputError struct {
	Ref model.Ref
	Err error
}

func (e *InputError) Error() string { return fmt.Sprintf("the parameters of %q: %v", e.Ref, e.Err) }

// Unwrap returns what is wrong.
func (e *InputError) Unwrap() error { return e.Err }

// A ConfigError says that what the files of a chain say can't be done.
type ConfigError struct {
	Ref model.Ref
	Err error
}

func (e *ConfigError) Error() string { return fmt.Sprintf("the configuration of %q: %v", e.Ref, e.Err) }

// Unwrap returns what is wrong.
func (e *ConfigError) Unwrap() error { return e.Err }

// A FilesError says that a file or directory of the project that a call was granted can't be given to it.
type FilesError struct {
	Ref  model.Ref
	Path string
	Err  error
}

func (e *FilesError) Error() string {
	return fmt.Sprintf("%q may use %q, and can't: %v", e.Ref, e.Path, e.Err)
}

// Unwrap returns what is wrong.
func (e *FilesError) Unwrap() error { return e.Err }

// A ToolchainError says that a program isn't the one that is pinned, or that none is.
type ToolchainError struct {
	Ref         model.Ref
	Name, Path  string
	Want, Found cas.Digest // Want is zero where the lock says nothing
}

func (e *ToolchainError) Error() string {
	if e.Want.IsZero() {
		return fmt.Sprintf("%q needs the program %q, %s, which the lock doesn't pin", e.Ref, e.Name, e.Path)
	}
	return fmt.Sprintf("%q needs the program %q, and %s isn't the one that the lock pins", e.Ref, e.Name, e.Path)
}

// An AuditError says that a call can't be written down, and so wasn't made; or that the end of one that was made can't be.
type AuditError struct {
	Ref model.Ref
	Ran bool
	Err error
}

func (e *AuditError) Error() string {
	if e.Ran {
		return fmt.Sprintf("%q was run, but that can't be written to the end into the audit log: %v", e.Ref, e.Err)
	}
	return fmt.Sprintf("%q was not run, because that can't be written into the audit log: %v", e.Ref, e.Err)
}

// Unwrap returns what is wrong with the log.
func (e *AuditError) Unwrap() error { return e.Err }
