package ai

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/manifest/policy"
)

// ErrAsset is about a file that is no item: it doesn't carry the mark of the kind in whose directory it stands.
var ErrAsset = errors.New("carries no mark of its kind, so it is an asset and no item")

// ErrGone is about a file that was removed after it was found. It is ErrAsset: there is no item.
var ErrGone error = goneError{}

type goneError struct{}

func (goneError) Error() string { return "was removed meanwhile" }

func (goneError) Is(target error) bool { return target == ErrAsset }

// An ItemError says what is wrong with a file in a space. Err tells which error it is.
type ItemError struct {
	Ref   model.Ref // zero where the file's name is no item's
	Space *Space
	Path  string
	Err   error
}

// Error names the file, and quotes what comes from outside in ASCII.
func (e *ItemError) Error() string {
	var pe *fs.PathError
	if errors.As(e.Err, &pe) {
		return fmt.Sprintf("%+q: %v", e.Space.where(e.Path), pe.Err) // which is about the same path
	}
	return fmt.Sprintf("%+q: %v", e.Space.where(e.Path), e.Err)
}

// Unwrap returns what is wrong.
func (e *ItemError) Unwrap() error { return e.Err }

// A NotFoundError says that no space has an item. It is fs.ErrNotExist.
type NotFoundError struct {
	Ref    model.Ref
	Near   []string // refs that are almost the same
	Above  string   // the label of a higher space that has it, and is out of reach for whoever asks
	Assets []string // the places of files that would be it if they carried the mark of their kind, or were no JSON or TOML
}

func (e *NotFoundError) Error() string {
	s := fmt.Sprintf("there is no %q", e.Ref)
	if e.Above != "" {
		s += fmt.Sprintf(" in reach: it is in the space %q, which stands above", e.Above)
	}
	if len(e.Assets) > 0 {
		why := ErrAsset.Error()
		if ext := path.Ext(e.Assets[0]); slices.Contains(neverItems[:], ext) {
			why = "is an asset: files with " + ext + " are never items"
		}
		s += fmt.Sprintf(": %+q %s", e.Assets[0], why)
	}
	if len(e.Near) > 0 {
		s += "; did you mean " + strings.Join(e.Near, ", ") + "?"
	}
	return s
}

// Unwrap makes it fs.ErrNotExist.
func (e *NotFoundError) Unwrap() error { return fs.ErrNotExist }

// An AmbiguousError says that several files of one rank have one id. It is AMBIGUOUS.
type AmbiguousError struct {
	Ref    model.Ref
	Places []string // at least two and at most eight, as people find them
	More   int      // files besides
}

func (e *AmbiguousError) Error() string {
	s := fmt.Sprintf("%q is ambiguous: it is %+q", e.Ref, e.Places)
	if e.More > 0 {
		s += fmt.Sprintf(" and %d more", e.More)
	}
	return s
}

// maxPlaces bounds what an AmbiguousError names: each of the files is told of with all the others.
const maxPlaces = 8

// A NotAdmittedError says that an item may be as it should, and policy doesn't let it be used.
type NotAdmittedError struct {
	Ref      model.Ref
	Place    string
	Decision policy.Decision
}

func (e *NotAdmittedError) Error() string { return fmt.Sprintf("%q %s", e.Ref, e.Decision.Reason()) }

func ambiguous(files []File) *AmbiguousError {
	named := min(len(files), maxPlaces)
	e := &AmbiguousError{Ref: files[0].Ref, More: len(files) - named}
	for _, f := range files[:named] {
		e.Places = append(e.Places, f.Space.where(f.Path))
	}
	return e
}

// A ShadowError says that an item stands in front of a protected one, and the root policy doesn't let it. It is
// POLICY_DENIED.
type ShadowError struct {
	Ref   model.Ref
	Place string   // of the item in front
	Space string   // its space's label
	Over  []string // the labels of the spaces with the items that it hides
}

func (e *ShadowError) Error() string {
	return fmt.Sprintf("%+q in the space %q takes the place of %q in %q, which \"override:\" in the root policy must allow",
		e.Place, e.Space, e.Ref, strings.Join(e.Over, ", "))
}

// A Code is the word for an error in every answer of rye.
type Code string

// The codes of chains.
const (
	ToolNotFound     Code = "TOOL_NOT_FOUND"
	ExecutorNotFound Code = "EXECUTOR_NOT_FOUND"
	Circular         Code = "CIRCULAR_DEPENDENCY"
	TooDeep          Code = "CHAIN_TOO_DEEP"
	VersionMismatch  Code = "VERSION_MISMATCH"
	Invalid          Code = "VALIDATION_FAILED"
	Ambiguous        Code = "AMBIGUOUS"         // Err is an *AmbiguousError
	Denied           Code = "POLICY_DENIED"     // Err is a *ShadowError
	Unreadable       Code = "FILE_SYSTEM_ERROR" // Err says what stands where the link would be
)

// A ChainError says why a tool has no chain. Err is what finding a link said, where that is the reason.
type ChainError struct {
	Code   Code
	Ref    model.Ref // of the tool
	Path   []string  // the refs of the chain as far as it went; the last is the one that is missing or comes again
	Issues []Issue   // all of them, with Invalid and VersionMismatch
	Err    error
}

// An Issue is one rule that two neighbours of a chain break, or one link by itself.
type Issue struct {
	Code    Code
	Link    model.Ref // nearer to the tool
	Message string
}

func (e *ChainError) Error() string {
	path := strings.Join(e.Path, " → ")
	switch {
	case e.Code == Circular:
		return "the chain comes back to where it was: " + path
	case e.Code == TooDeep:
		return fmt.Sprintf("the chain is longer than %d links: %s", MaxChain, path)
	case len(e.Issues) > 0:
		all := make([]string, len(e.Issues))
		for i, issue := range e.Issues {
			all[i] = issue.Message
		}
		return fmt.Sprintf("the chain of %q doesn't fit together: %s", e.Ref, strings.Join(all, "; "))
	case len(e.Path) > 1:
		return fmt.Sprintf("the executor %q of %q: %v", e.Path[len(e.Path)-1], e.Path[len(e.Path)-2], e.Err)
	}
	return e.Err.Error()
}

// Unwrap returns what finding a link said.
func (e *ChainError) Unwrap() error { return e.Err }
