package materialise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
)

// A damageError describes how a copy differs from its plan.
type damageError struct {
	Path string // in the copy
	Msg  string
	Err  error // may be nil
}

func (e *damageError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the copy of the pinned files: %+q %s: %v", e.Path, e.Msg, e.Err)
	}
	return fmt.Sprintf("the copy of the pinned files: %+q %s", e.Path, e.Msg)
}

// Unwrap returns the cause, if there is one.
func (e *damageError) Unwrap() error { return e.Err }

// verify compares everything in a copy with the plan.
func (p *plan) verify(ctx context.Context, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return &damageError{"", "can't be opened", err}
	}
	defer root.Close()
	if err := directory(root, ".", 0o700); err != nil {
		return err
	}
	if err := same(root, ".", []string{scopeName, treeName}); err != nil {
		return err
	}
	scope := cas.Entry{Mode: cas.File, Size: int64(len(scopeText)), Digest: cas.Sum([]byte(scopeText))}
	if err := compare(ctx, root, scopeName, scope); err != nil {
		return err
	}
	if err := directory(root, treeName, 0o500); err != nil {
		return err
	}
	if p.bytes <= severalFrom {
		return p.inside(ctx, root, treeName, "", true)
	}
	return cas.Parallel(ctx, 0, len(p.order), func(ctx context.Context, i int) error {
		return p.inside(ctx, root, path.Join(treeName, p.order[i]), p.order[i], false)
	})
}

// severalFrom is the number of bytes above which several processors verify a copy.
const severalFrom = 1 << 20

// inside compares a directory with the plan, and with all set also everything below it. It opens the directory by its
// name in the parent: opening each path from the root would reopen all directories above.
func (p *plan) inside(ctx context.Context, above *os.Root, name, dir string, all bool) error {
	at := path.Join(treeName, dir)
	root, err := above.OpenRoot(name)
	if err != nil {
		return &damageError{at, "can't be read", err}
	}
	defer root.Close()
	if err := p.entries(ctx, root, dir); err != nil {
		if damage, ok := errors.AsType[*damageError](err); ok {
			damage.Path = path.Join(at, damage.Path)
		}
		return err
	}
	for _, name := range p.dirs[dir] {
		if sub := path.Join(dir, name); all && p.dirs[sub] != nil {
			if err := p.inside(ctx, root, name, sub, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries compares the content of a directory with the plan.
func (p *plan) entries(ctx context.Context, d *os.Root, dir string) error {
	err := same(d, ".", p.dirs[dir])
	for i := 0; i < len(p.dirs[dir]) && err == nil; i++ {
		name := p.dirs[dir][i]
		if e, file := p.files[path.Join(dir, name)]; file {
			err = compare(ctx, d, name, e)
		} else {
			err = directory(d, name, 0o500)
		}
	}
	return err
}

// directory reports damage unless an entry is a directory with a mode.
func directory(root *os.Root, name string, m fs.FileMode) error {
	info, err := root.Lstat(name)
	if err != nil {
		return &damageError{name, "can't be read", err}
	}
	if !info.IsDir() || !hasMode(info, m) {
		return &damageError{name, "is now " + info.Mode().String(), nil}
	}
	return nil
}

// same compares the entries of a directory with sorted names.
func same(root *os.Root, dir string, names []string) error {
	f, err := openIn(root, dir)
	if err != nil {
		return &damageError{dir, "can't be read", err}
	}
	defer f.Close()
	found, err := f.Readdirnames(len(names) + 1)
	if err != nil && err != io.EOF {
		return &damageError{dir, "can't be read", err}
	}
	slices.Sort(found)
	if !slices.Equal(found, names) {
		return &damageError{dir, "has missing or additional entries", nil}
	}
	return nil
}

// openIn opens a file or a directory. Nonblock, which has no effect on them, saves Go four system calls.
func openIn(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|osfile.Nonblock, 0)
}

// compare compares a file with its entry.
func compare(ctx context.Context, root *os.Root, file string, want cas.Entry) error {
	info, err := root.Lstat(file)
	if err != nil {
		return &damageError{file, "can't be read", err}
	}
	if !info.Mode().IsRegular() || !hasMode(info, mode(want.Mode)) || info.Size() != want.Size {
		return &damageError{file, fmt.Sprintf("is now %s with %d bytes", info.Mode(), info.Size()), nil}
	}
	f, err := openIn(root, file)
	if err != nil {
		return &damageError{file, "can't be read", err}
	}
	defer f.Close()
	// The opened file must be the examined one.
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		return &damageError{file, "changed while it was read", err}
	}
	err = verified(ctx, io.Discard, f, cas.ID{Kind: cas.Blob, Digest: want.Digest}, want.Size)
	if _, damaged := errors.AsType[*cas.DamagedError](err); damaged {
		return &damageError{file, "has different content", err}
	}
	return err
}

// hasMode reports whether a file has exactly these permissions. On Windows it is always true.
func hasMode(info fs.FileInfo, m fs.FileMode) bool {
	return runtime.GOOS == "windows" || info.Mode()&^fs.ModeDir == m
}
