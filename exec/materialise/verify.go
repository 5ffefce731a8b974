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
)

// A damageError says how a copy differs from its plan.
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
	if err := same(root, ".", []string{scopeName, treeName}, 0o700); err != nil {
		return err
	}
	scope := cas.Entry{Mode: cas.File, Size: int64(len(scopeText)), Digest: cas.Sum([]byte(scopeText))}
	if err := compare(ctx, root, scopeName, scope); err != nil {
		return err
	}
	for _, dir := range p.order {
		if err := same(root, path.Join(treeName, dir), p.dirs[dir], 0o500); err != nil {
			return err
		}
	}
	return p.compareAll(ctx, root)
}

// compareAll compares the files, several at a time.
func (p *plan) compareAll(ctx context.Context, root *os.Root) error {
	return cas.Parallel(ctx, 0, len(p.paths), func(_ context.Context, i int) error {
		return compare(ctx, root, path.Join(treeName, p.paths[i]), p.files[p.paths[i]])
	})
}

// same compares the entries of a directory with sorted names.
func same(root *os.Root, dir string, names []string, m fs.FileMode) error {
	info, err := root.Lstat(dir)
	if err != nil {
		return &damageError{dir, "can't be read", err}
	}
	if !info.IsDir() || !hasMode(info, m) {
		return &damageError{dir, "is now " + info.Mode().String(), nil}
	}
	f, err := root.Open(dir)
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

// compare compares a file with its entry.
func compare(ctx context.Context, root *os.Root, file string, want cas.Entry) error {
	info, err := root.Lstat(file)
	if err != nil {
		return &damageError{file, "can't be read", err}
	}
	if !info.Mode().IsRegular() || !hasMode(info, mode(want.Mode)) || info.Size() != want.Size {
		return &damageError{file, fmt.Sprintf("is now %s with %d bytes", info.Mode(), info.Size()), nil}
	}
	f, err := root.Open(file)
	if err != nil {
		return &damageError{file, "can't be read", err}
	}
	defer f.Close()
	// The file that is read must be the one that was examined.
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		return &damageError{file, "changed while it was read", err}
	}
	err = verified(ctx, io.Discard, f, cas.ID{Kind: cas.Blob, Digest: want.Digest}, want.Size)
	if _, damaged := errors.AsType[*cas.DamagedError](err); damaged {
		return &damageError{file, "has different content", err}
	}
	return err
}

// hasMode reports whether a file has exactly these permissions. Windows has none.
func hasMode(info fs.FileInfo, m fs.FileMode) bool {
	return runtime.GOOS == "windows" || info.Mode()&^fs.ModeDir == m
}
