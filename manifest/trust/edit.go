package trust

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// An Edit changes a policy file.
type Edit struct {
	Change  func(*policy.Side) (*policy.Policy, error)
	Approve func(Change) error // sees the change before it is written, and may refuse it
	Commit  func() error       // runs when only the disk can stop the new policy; optional
}

// A Change is the result of an Edit.
type Change struct {
	Policy   string          `json:"policy"` // the file
	ID       string          `json:"id"`     // of the policy as it is now
	Changes  []policy.Change `json:"changes"`
	Unsigned bool            `json:"-"` // the policy was signed, and no longer is
}

// Apply changes the policy at path. It fails with CONFLICT if another process changes it meanwhile, and writes nothing
// if the edit changes nothing.
func (e Edit) Apply(ctx context.Context, path, origin string, now time.Time) (change Change, err error) {
	au, err := Read(path, origin)
	if err != nil {
		return change, err
	}
	after, err := e.Change(&au.Side)
	if _, ok := errors.AsType[*yamltree.Error](err); ok {
		// The policy in the file is valid: the new one isn't.
		f := fault.Of(err)
		f.Code, f.Text, f.Details = fault.Validation, "the policy would be invalid: "+f.Text, nil
		return change, f
	}
	if err != nil {
		return change, err
	}
	change = Change{Policy: path, ID: after.ID().String(),
		Changes: append([]policy.Change{}, policy.Diff(au.Side.Policy, after)...)}
	if len(change.Changes) == 0 {
		change.ID = au.Side.Policy.ID().String()
	}
	if err := e.Approve(change); err != nil {
		return Change{}, err
	}
	if len(change.Changes) == 0 {
		return change, nil
	}
	file := after.Format()
	change.Unsigned = bytes.Contains(au.File, []byte("# rye:signed:")) &&
		!bytes.Contains(file, []byte("# rye:signed:"))
	return change, e.write(ctx, au, file, now)
}

// write replaces the policy in the file.
func (e Edit) write(ctx context.Context, au *Authority, file []byte, now time.Time) error {
	if err := os.MkdirAll(filepath.Dir(au.Path), 0o700); err != nil {
		return err
	}
	unlock, err := LockPolicy(ctx, au.Path)
	if err != nil {
		return err
	}
	defer unlock()
	osfile.Sweep(filepath.Dir(au.Path), now)
	conflict := fault.New(fault.Conflict, "another process changed %q meanwhile", au.Path)
	found, err := Read(au.Path, au.Origin)
	if conflict.Err = err; err != nil || !bytes.Equal(found.File, au.File) || (found.File == nil) != (au.File == nil) {
		return conflict
	}
	mode := os.FileMode(0o600)
	if fi, err := os.Stat(au.Path); err == nil {
		mode = fi.Mode().Perm()
	}
	// A missing file can't be locked: of two processes that create it, the second finds the first one's.
	err = osfile.WriteFile(au.Path, mode, au.File == nil, func(w io.Writer) error {
		if _, err := w.Write(file); err != nil || e.Commit == nil {
			return err
		}
		return e.Commit()
	})
	if conflict.Err = err; errors.Is(err, fs.ErrExist) {
		return conflict
	}
	return err
}
