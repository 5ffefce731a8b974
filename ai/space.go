package ai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/cas/osfile"
)

// A Level orders spaces: an item of a higher one stands in front of those with its id in lower ones, and a link of
// a chain never comes from a higher one than the link before it.
type Level uint8

// The levels, from low to high.
const (
	System Level = iota
	User
	Project
)

// String returns "system", "user" or "project".
func (l Level) String() string { return [...]string{"system", "user", "project"}[l] }

// A Space is one tree of items. It is not changed once a View has it.
type Space struct {
	Label string // "project", "user", "system:rye/std", "system:acme/web"
	Level Level
	// FS holds what is in the directory .ai: "tools/…", "config/…". It may be read by many goroutines. What it says
	// about a file by ReadDir or Lstat must not follow links.
	FS      fs.FS
	Dir     string // where that is on disk, for messages; "" if it isn't
	Builtin bool   // read from the binary, which vouches for it
	// Requires are the labels of the system spaces that items here may use besides their own and the builtin ones.
	// It counts for system spaces alone.
	Requires []string
	// Exec says whether a file may be executed where FS doesn't know, as embed.FS and Windows don't; nil: its mode
	// says so.
	Exec func(name string, info fs.FileInfo) bool

	root *os.Root
}

// OpenDir opens the directory .ai on disk. Whatever is read through it is below it, also when somebody else puts
// symbolic links in its place meanwhile. That of a project is in the project: a link that leads out of it is an
// *OutsideError. One that isn't there is fs.ErrNotExist. The caller closes it.
func OpenDir(dir, label string, level Level) (*Space, error) {
	if level == Project {
		if err := Inside(dir); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Space{Label: label, Level: level, FS: dirFS{root}, Dir: dir, root: root}, nil
}

// An OutsideError says that the directory .ai of a project is a link to somewhere else: whoever made the project
// would decide which of the user's files are taken for its items.
type OutsideError struct{ Dir string }

func (e *OutsideError) Error() string {
	return fmt.Sprintf("%+q is a symbolic link that leads out of the project", e.Dir)
}

// Inside returns an *OutsideError for a directory that is a link to somewhere that isn't below where it stands.
func Inside(dir string) error {
	to, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil // it isn't there, or what opens it says why
	}
	above, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return &OutsideError{dir}
	}
	if rel, err := filepath.Rel(above, to); err != nil || !filepath.IsLocal(rel) {
		return &OutsideError{dir}
	}
	return nil
}

// Below opens a directory of a space on disk by itself: who reads many files there goes the way to it once. The caller
// closes it, and the space may be closed before.
func (s *Space) Below(dir string) (*Space, error) {
	d, ok := s.FS.(dirFS)
	if !ok || !validName(dir) || dir == "." {
		return nil, pathError("open", dir, fs.ErrInvalid)
	}
	root, _, err := d.in(dir)
	if err != nil {
		return nil, pathError("open", dir, err)
	}
	return &Space{Label: s.Label, Level: s.Level, FS: dirFS{root}, Dir: filepath.Join(s.Dir, filepath.FromSlash(dir)), root: root}, nil
}

// Close closes a space that OpenDir or Below opened.
func (s *Space) Close() error {
	if s.root == nil {
		return nil
	}
	return s.root.Close()
}

var (
	errLink    = errors.New("is a symbolic link, and such is never an item")
	errSpecial = errors.New("is no regular file")
	errNoDir   = errors.New("is no directory")
	errSwapped = errors.New("was replaced while it was opened")
	errLarge   = fmt.Errorf("is larger than the %d MiB that an item may have", parse.MaxFile>>20)
)

// A dirFS is a directory on disk in which no symbolic link is followed: os.Root keeps to what is below it, and here
// every segment of a name is looked at before and after it is opened, because os.Root follows links that stay inside.
type dirFS struct{ root *os.Root }

// in opens a directory, which the caller closes by done.
func (d dirFS) in(dir string) (r *os.Root, done func() error, err error) {
	r, done = d.root, func() error { return nil }
	if dir == "." {
		return r, done, nil
	}
	for name := range strings.SplitSeq(dir, "/") {
		next, err := enter(r, name)
		done()
		if err != nil {
			return nil, nil, err
		}
		r, done = next, next.Close
	}
	return r, done, nil
}

func enter(r *os.Root, name string) (*os.Root, error) {
	before, err := r.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, notDir(before.Mode())
	}
	next, err := r.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if after, err := next.Stat("."); err != nil || !os.SameFile(before, after) {
		next.Close()
		return nil, errSwapped
	}
	return next, nil
}

func notDir(m fs.FileMode) error {
	if m&fs.ModeSymlink != 0 {
		return errLink
	}
	return errNoDir
}

func pathError(op, name string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err // which is about a part of the name
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// validName is fs.ValidPath on systems where a backslash is a separator as well.
func validName(name string) bool { return fs.ValidPath(name) && !strings.Contains(name, `\`) }

// ReadDir implements fs.ReadDirFS.
func (d dirFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if !validName(name) {
		return nil, pathError("readdir", name, fs.ErrInvalid)
	}
	r, done, err := d.in(name)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	defer done()
	entries, err := fs.ReadDir(r.FS(), ".")
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	return entries, nil
}

// Lstat and ReadLink implement fs.ReadLinkFS.
func (d dirFS) Lstat(name string) (fs.FileInfo, error) {
	if !validName(name) {
		return nil, pathError("lstat", name, fs.ErrInvalid)
	}
	r, done, err := d.in(path.Dir(name))
	if err != nil {
		return nil, pathError("lstat", name, err)
	}
	defer done()
	info, err := r.Lstat(path.Base(name))
	if err != nil {
		return nil, pathError("lstat", name, err)
	}
	return info, nil
}

// ReadLink reads no link: none is followed here.
func (d dirFS) ReadLink(name string) (string, error) { return "", pathError("readlink", name, errLink) }

// Open opens regular files and directories, and nothing else: opening a FIFO waits for whoever writes to it.
func (d dirFS) Open(name string) (fs.File, error) {
	if !validName(name) {
		return nil, pathError("open", name, fs.ErrInvalid)
	}
	r, done, err := d.in(path.Dir(name))
	if err != nil {
		return nil, pathError("open", name, err)
	}
	defer done()
	f, err := openIn(r, path.Base(name))
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return f, nil
}

// openIn opens what stands at a name. Another process may put a new file there at any time, as rye sign does: then that one.
func openIn(r *os.Root, name string) (f *os.File, err error) {
	for range 100 {
		if f, err = openNow(r, name); err != errSwapped {
			break
		}
	}
	return f, err
}

func openNow(r *os.Root, name string) (*os.File, error) {
	before, err := r.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case before.Mode()&fs.ModeSymlink != 0:
		return nil, errLink
	case !before.Mode().IsRegular() && !before.IsDir():
		return nil, errSpecial
	}
	f, err := r.OpenFile(name, os.O_RDONLY|osfile.Nonblock, 0)
	if err != nil {
		return nil, err
	}
	if after, err := f.Stat(); err != nil || !os.SameFile(before, after) {
		f.Close()
		return nil, errSwapped
	}
	return f, nil
}

// folder opens a directory of the space to look at its entries one by one. It is fs.ErrNotExist if it isn't there,
// and no part of its name is a link.
func (s *Space) folder(dir string) (lstat func(name string) (fs.FileInfo, error), done func() error, err error) {
	if d, ok := s.FS.(dirFS); ok {
		r, done, err := d.in(dir)
		if err != nil {
			return nil, nil, err
		}
		return r.Lstat, done, nil
	}
	for i := range len(dir) + 1 {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		info, err := fs.Lstat(s.FS, dir[:i])
		if err != nil {
			return nil, nil, err
		}
		if !info.IsDir() {
			return nil, nil, notDir(info.Mode())
		}
	}
	return func(name string) (fs.FileInfo, error) { return fs.Lstat(s.FS, path.Join(dir, name)) }, func() error { return nil }, nil
}

// read reads a file whole, if it is one and not larger than an item may be.
func (s *Space) read(name string) ([]byte, error) {
	if _, ok := s.FS.(dirFS); !ok {
		if info, err := fs.Lstat(s.FS, name); err != nil {
			return nil, err
		} else if info.Mode()&fs.ModeSymlink != 0 {
			return nil, errLink
		}
	}
	f, err := s.FS.Open(name)
	if _, disk := s.FS.(dirFS); disk && errors.Is(err, fs.ErrNotExist) {
		return nil, ErrGone // what is missing elsewhere is missing
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errSpecial
	case info.Size() > parse.MaxFile:
		return nil, errLarge
	}
	var b bytes.Buffer
	b.Grow(int(info.Size()) + bytes.MinRead)
	// A file may have grown since it was opened.
	if _, err := b.ReadFrom(io.LimitReader(f, parse.MaxFile+1)); err != nil {
		return nil, err
	}
	if b.Len() > parse.MaxFile {
		return nil, errLarge
	}
	return b.Bytes(), nil
}

// where names a place for messages: the path on disk, or the space's label and the path in it.
func (s *Space) where(name string) string {
	if s.Dir != "" {
		return path.Join(s.Dir, name)
	}
	return s.Label + "/" + name
}
