// Package nofollow is a file system on disk without symbolic links: it reads a directory without following any, even
// if another process creates some meanwhile.
//
// os.Root stays below its directory, but follows links that stay inside. So each segment of a name is checked before
// and after it is opened.
//
// # How a read goes through here
//
// Open makes an FS. ReadSmall calls in, which takes the directory from the holder or walks to it, opening and
// checking each segment. readIn then opens the file with openIn, or reads it relative to the kept directory with
// readEntry. With Note, a Seen records the stat of each entry on the way.
package nofollow

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/osfile"
)

// The errors of entries that are neither regular files nor directories, and of directories that aren't.
var (
	ErrLink    = errors.New("is a symbolic link, which is never an item")
	ErrSpecial = errors.New("is not a regular file")
	ErrNoDir   = errors.New("is not a directory")

	errSwapped = errors.New("was replaced while it was opened")
)

// An FS is a directory on disk. It implements fs.ReadDirFS and fs.ReadLinkFS.
type FS struct {
	root   *folder
	seen   *Seen // nil: nothing is recorded
	dir    string
	holder holder
}

// Open opens a directory, which the caller closes.
func Open(dir string) (*FS, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &FS{root: &folder{Root: root, kept: true}}, nil
}

// Below opens a directory below d as an FS, which saves resolving its path for each file. d may be closed first.
func (d *FS) Below(dir string) (*FS, error) {
	if !validName(dir) || dir == "." {
		return nil, pathError("open", dir, fs.ErrInvalid)
	}
	root, _, err := d.walk(dir)
	if err != nil {
		return nil, pathError("open", dir, err)
	}
	root.kept = true
	return &FS{root: root, seen: d.seen, dir: d.at(dir)}, nil
}

// Close closes the directory.
func (d *FS) Close() error { return d.root.Close() }

// Folder opens a directory to look at its entries one by one, until done.
func (d *FS) Folder(dir string) (lstat func(name string) (fs.FileInfo, error), done func() error, err error) {
	r, done, err := d.in(dir)
	if err != nil {
		return nil, nil, err
	}
	return func(name string) (fs.FileInfo, error) { return d.lstat(r, dir, name) }, done, nil
}

// lstat returns the info of an entry of an open directory.
func (d *FS) lstat(r *folder, dir, name string) (fs.FileInfo, error) {
	info, err := r.Lstat(name)
	if d.seen != nil {
		d.seen.note(filepath.Join(d.at(dir), name), info, err)
	}
	return info, err
}

// at returns the path of a name on disk.
func (d *FS) at(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// in opens a directory, which the caller closes by done.
func (d *FS) in(dir string) (r *folder, done func() error, err error) {
	if dir == "." {
		return d.root, func() error { return nil }, nil
	}
	if r, done = d.holder.take(dir); r != nil {
		return r, done, nil
	}
	if r, done, err = d.walk(dir); err == nil {
		r, done = d.holder.keep(dir, r)
	}
	return r, done, err
}

// walk opens a directory below d, through no link.
func (d *FS) walk(dir string) (*folder, func() error, error) {
	above := path.Dir(dir)
	r, done, err := d.in(above)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	next, err := d.enter(r, above, path.Base(dir))
	if err != nil {
		return nil, nil, err
	}
	return next, next.Close, nil
}

func (d *FS) enter(r *folder, above, name string) (*folder, error) {
	before, err := d.lstat(r, above, name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, NotDir(before.Mode())
	}
	next, err := r.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if after, err := next.Stat("."); err != nil || !os.SameFile(before, after) {
		next.Close()
		return nil, errSwapped
	}
	return &folder{Root: next}, nil
}

// NotDir returns the error for an entry that isn't a directory.
func NotDir(m fs.FileMode) error {
	if m&fs.ModeSymlink != 0 {
		return ErrLink
	}
	return ErrNoDir
}

func pathError(op, name string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err // it is about a part of the name
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// validName is fs.ValidPath, and excludes backslashes where they are separators.
func validName(name string) bool { return fs.ValidPath(name) && !strings.Contains(name, `\`) }

// ReadDir implements fs.ReadDirFS.
func (d *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if !validName(name) {
		return nil, pathError("readdir", name, fs.ErrInvalid)
	}
	r, done, err := d.in(name)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	defer done()
	if d.seen != nil {
		info, err := r.Stat(".")
		d.seen.listed(d.at(name), info, err)
	}
	entries, err := fs.ReadDir(r.FS(), ".")
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	return entries, nil
}

// Lstat and ReadLink implement fs.ReadLinkFS.
func (d *FS) Lstat(name string) (fs.FileInfo, error) {
	if !validName(name) {
		return nil, pathError("lstat", name, fs.ErrInvalid)
	}
	r, done, err := d.in(path.Dir(name))
	if err != nil {
		return nil, pathError("lstat", name, err)
	}
	defer done()
	info, err := d.lstat(r, path.Dir(name), path.Base(name))
	if err != nil {
		return nil, pathError("lstat", name, err)
	}
	return info, nil
}

// ReadLink always fails: links are never followed here.
func (d *FS) ReadLink(name string) (string, error) { return "", pathError("readlink", name, ErrLink) }

// Open opens only regular files and directories: opening a FIFO would wait for a writer.
func (d *FS) Open(name string) (fs.File, error) {
	if !validName(name) {
		return nil, pathError("open", name, fs.ErrInvalid)
	}
	r, done, err := d.in(path.Dir(name))
	if err != nil {
		return nil, pathError("open", name, err)
	}
	defer done()
	f, info, err := d.openIn(r, name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &File{f, info}, nil
}

// A File is an open file with the info from its opening, which Stat returns.
type File struct {
	*os.File
	info fs.FileInfo
}

func (f *File) Stat() (fs.FileInfo, error) { return f.info, nil }

// openIn opens the entry of a name. Another process may replace it at any time, as rye sign does; then it opens the
// new one.
func (d *FS) openIn(r *folder, name string) (f *os.File, info fs.FileInfo, err error) {
	for range 100 {
		if f, info, err = d.openNow(r, name); err != errSwapped {
			break
		}
	}
	return f, info, err
}

func (d *FS) openNow(folder *folder, at string) (*os.File, fs.FileInfo, error) {
	name := path.Base(at)
	before, err := d.lstat(folder, path.Dir(at), name)
	if err == nil && before.IsDir() && d.seen != nil {
		d.seen.listed(d.at(at), before, nil)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case before.Mode()&fs.ModeSymlink != 0:
		return nil, nil, ErrLink
	case !before.Mode().IsRegular() && !before.IsDir():
		return nil, nil, ErrSpecial
	}
	f, err := folder.OpenFile(name, os.O_RDONLY|osfile.Nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	after, err := f.Stat()
	if err != nil || !os.SameFile(before, after) {
		f.Close()
		return nil, nil, errSwapped
	}
	return f, after, nil
}
