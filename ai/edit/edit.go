// Package edit creates, renames, copies and removes items of a space, each with the other files of its tool.
//
// It overwrites nothing. A new item is written after the files that it needs, and an old one is removed before them,
// so an interruption never leaves an incomplete item.
//
// # How a change goes through here
//
// CheckFree refuses an id that is taken, and CheckSignable a tool whose executors are missing. To create an item, a
// caller takes a Text from TextOf, TextFrom or Template, makes a Draft of it, and calls Editor.Write, which signs and
// writes. PlanMove plans a rename (Following finds the tree, renamed changes the fields that repeat the id), and Move
// carries it out; PlanCopy and Copy do the same for a copy. Remove removes the item and then its tree.
package edit

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest/sign"
)

// An Editor changes the items of its View's spaces. It is for one command.
type Editor struct {
	*ai.View
	Admit *ai.Admitter
	Name  func(s *ai.Space, path string) string // returns the name of a file for messages
	Now   func() time.Time
}

// A Signer returns the bytes of an item with its signature.
type Signer func(ctx context.Context, it *ai.Item) ([]byte, error)

// OpenDir opens the directory .ai of a space for writing, and creates it if missing. It refuses a project's .ai that
// links out of the project: otherwise the project's author would decide where the user writes.
func OpenDir(dir string, level ai.Level) (*osfile.Dir, error) {
	mode := fs.FileMode(0o777)
	if level == ai.User {
		mode = 0o700
	} else if err := ai.Inside(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return nil, err
	}
	return osfile.OpenDir(dir, mode)
}

// Mode returns the mode of a new file.
func Mode(executable bool) fs.FileMode {
	if executable {
		return 0o755
	}
	return 0o644
}

// Draft returns the item that a file with these bytes would be.
func Draft(f ai.File, b []byte) *ai.Item {
	it := &ai.Item{File: f, Bytes: b, Raw: cas.Sum(b), Model: f.Kind.Read(f.Ref, f.Path, b)}
	if it.Signed, it.Broken = sign.ReadBytes(b, f.Kind.Style(f.Path)); it.Broken == nil {
		it.Stripped = it.Signed.Stripped
	}
	return it
}

// Write signs a new item, unless by is nil, and writes it. It never replaces a file.
func (e *Editor) Write(ctx context.Context, it *ai.Item, by Signer, mode fs.FileMode) error {
	folder, err := OpenDir(it.Space.Dir, it.Space.Level)
	if err != nil {
		return err
	}
	defer folder.Close()
	// Signing reads the other files of the item, so open the directory first to detect that it isn't writable.
	r, err := folder.Folder(path.Dir(it.Path), true)
	if err != nil {
		return err
	}
	r.Close()
	osfile.Sweep(folder.Where(path.Dir(it.Path)), e.Now())
	if by != nil {
		b, err := by(ctx, it)
		if err != nil {
			return err
		}
		*it = *Draft(it.File, b)
	}
	err = folder.Write(it.Path, mode, true, it.Bytes)
	if errors.Is(err, fs.ErrExist) {
		place := e.Name(it.Space, it.Path)
		return fault.New(fault.Validation, "%q exists already", place).From(err).
			Because("another process may have just made it: nothing was overwritten").
			On("reason", "exists").On("ref", it.Ref.String()).On("file", place)
	}
	return err
}

// Remove removes an item, then the files that go with it.
func (e *Editor) Remove(ctx context.Context, it *ai.Item, with Following) error {
	folder, err := OpenDir(it.Space.Dir, it.Space.Level)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Remove(it.Path); err != nil {
		return err
	}
	for _, p := range with.Paths() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := folder.Remove(p); err != nil {
			return err
		}
	}
	return nil
}

// treeFile reads a file of an item's tree, whose digest must be want.
func treeFile(s *ai.Space, name string, want cas.Digest) ([]byte, error) {
	b, err := fs.ReadFile(s.FS, name)
	if err != nil {
		return nil, err
	}
	if cas.Sum(b) != want {
		return nil, fault.New(fault.Conflict, "%q changed while it was read", name)
	}
	return b, nil
}

// sameBytes reports whether a file exists with these bytes; one with other bytes is an error.
func sameBytes(folder *osfile.Dir, name string, b []byte) (bool, error) {
	old, err := folder.Read(name, int64(len(b)))
	switch {
	case err != nil && fault.CodeOf(err) != fault.Limit:
		return false, err
	case err == nil && old == nil:
		return false, nil
	case err == nil && bytes.Equal(old, b):
		return true, nil
	}
	return false, fault.New(fault.Validation, "%q exists already, with other bytes",
		folder.Where(name)).From(fs.ErrExist).
		On("reason", "exists").On("file", folder.Where(name))
}

// CheckWritable refuses an item of a space that is read-only.
func CheckWritable(it *ai.Item) error {
	if it.Space.Dir != "" {
		return nil
	}
	hint := "rye load " + fault.Quote(it.Ref.String()) + " --to project"
	if ai.Protected(it.ID) { // a copy would be refused too
		hint = "rye show " + fault.Quote(it.Ref.String())
	}
	return fault.New(fault.Denied, "%s is in the space %q, which is read-only", it.Ref, it.Space.Label).Try(hint).
		On("reason", "read-only").On("ref", it.Ref.String()).On("space", it.Space.Label)
}

// CheckSignable refuses a tool whose executors can't be found: they decide which other files its signature covers.
func (e *Editor) CheckSignable(ctx context.Context, it *ai.Item) error {
	if it.Model.Tool == nil {
		return nil
	}
	_, err := ai.WalkFrom(ctx, e, it)
	if c, ok := errors.AsType[*ai.ChainError](err); ok &&
		(c.Code == fault.Validation || c.Code == fault.VersionMismatch) {
		return nil // the chain exists; rye check reports its problems
	}
	return err
}

// fileOf names the place of an item in a space.
func fileOf(k *model.Kind, ref model.Ref, s *ai.Space, p string) ai.File {
	return ai.File{Ref: ref, Kind: k, Space: s, Path: p}
}
