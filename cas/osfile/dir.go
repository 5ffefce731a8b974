package osfile

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// A Dir confines writes to a directory and its descendants. It follows no symbolic link in it, not even one that
// replaces a directory while it is open.
type Dir struct {
	Root *os.Root
	dir  string
	mode fs.FileMode // of new directories
}

// OpenDir opens a directory to write in. The caller closes it.
func OpenDir(dir string, mode fs.FileMode) (*Dir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Dir{root, dir, mode}, nil
}

func (d *Dir) Close() { d.Root.Close() }

// Where returns the user's path of a name below the directory.
func (d *Dir) Where(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// Folder opens a directory below d, and creates it if it is missing and mayMake is true. The caller closes it.
func (d *Dir) Folder(name string, mayMake bool) (*os.Root, error) {
	root, err := d.Root.OpenRoot(".")
	if err != nil || name == "." {
		return root, err
	}
	at := ""
	for segment := range strings.SplitSeq(name, "/") {
		at = path.Join(at, segment)
		next, err := d.enter(root, segment, at, mayMake)
		root.Close()
		if err != nil {
			return nil, err
		}
		root = next
	}
	return root, nil
}

// enter opens a directory. It tries again if another process replaces the directory meanwhile.
func (d *Dir) enter(r *os.Root, segment, at string, mayMake bool) (next *os.Root, err error) {
	for range 100 {
		if next, err = d.enterNow(r, segment, at, mayMake); err != errReplaced {
			return next, err
		}
	}
	return nil, fault.New(fault.Conflict, "%q was replaced meanwhile", d.Where(at))
}

var errReplaced = errors.New("it was replaced meanwhile")

func (d *Dir) enterNow(root *os.Root, segment, at string, mayMake bool) (*os.Root, error) {
	before, err := root.Lstat(segment)
	if mayMake && errors.Is(err, fs.ErrNotExist) {
		if err := root.Mkdir(segment, d.mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, d.About(at, err)
		}
		before, err = root.Lstat(segment)
	}
	if err != nil {
		return nil, d.About(at, err)
	}
	if !before.IsDir() {
		return nil, d.notDir(at, before)
	}
	next, err := root.OpenRoot(segment)
	if err != nil {
		return nil, d.About(at, err)
	}
	if after, err := next.Stat("."); err != nil || !os.SameFile(before, after) {
		next.Close()
		return nil, errReplaced
	}
	return next, nil
}

// notDir returns the error about a file or link where a directory is needed.
func (d *Dir) notDir(at string, fi fs.FileInfo) error {
	if fi.Mode()&fs.ModeSymlink != 0 {
		return fault.New(fault.Denied, "%q is a symbolic link; rye does not write through links", d.Where(at)).
			On("reason", "link").On("path", d.Where(at)).Try("ls -l " + fault.Quote(d.Where(at)))
	}
	return &fs.PathError{Op: "open", Path: d.Where(at), Err: NotDirectory}
}

// About puts the user's path of a name into an error.
func (d *Dir) About(name string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: PlainOp(pe.Op), Path: d.Where(name), Err: pe.Err}
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: PlainOp(le.Op), Path: d.Where(name), Err: le.Err}
	}
	return err
}

// PlainOp returns the common word for an operation, because os.Root names the system call.
func PlainOp(op string) string {
	switch op {
	case "openat", "mkdirat", "renameat", "linkat", "statat", "lstatat", "chmodat":
		return strings.TrimSuffix(op, "at")
	case "unlinkat", "removeat":
		return "remove"
	}
	return op
}

// Read reads a regular file; it returns nil for a missing one. It refuses a link, because a write would replace the
// link.
func (d *Dir) Read(name string, most int64) ([]byte, error) {
	root, err := d.Folder(path.Dir(name), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	fi, err := root.Lstat(path.Base(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, d.About(name, err)
	case !fi.Mode().IsRegular():
		return nil, fault.New(fault.Denied, "%q is not a regular file", d.Where(name)).On("reason", "special").
			On("path", d.Where(name))
	case fi.Size() > most:
		return nil, fault.New(fault.Limit, "%q has more than %d bytes", d.Where(name), most)
	}
	b, err := root.ReadFile(path.Base(name))
	return b, d.About(name, err)
}

// Write creates or replaces a file, atomically and durably. With exclusive, an existing file is fs.ErrExist.
func (d *Dir) Write(name string, mode fs.FileMode, exclusive bool, b []byte) error {
	return d.WriteTo(name, mode, exclusive, BytesOf(b))
}

// WriteTo is Write for content that isn't in memory. It may call write several times.
func (d *Dir) WriteTo(name string, mode fs.FileMode, exclusive bool, write func(io.Writer) error) error {
	dir := path.Dir(name)
	// Another process may remove the directory while it is empty.
	err := fs.ErrNotExist
	for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < 100; tries++ {
		var r *os.Root
		if r, err = d.Folder(dir, true); err != nil {
			continue
		}
		err = In{Root: r, Lazy: true}.Write(path.Base(name), 0o600, exclusive, func(f *os.File) error {
			return cmp.Or(write(f), f.Chmod(mode), f.Sync())
		})
		r.Close()
	}
	if err != nil {
		return d.About(name, err)
	}
	if err := SyncDirectory(d.Where(dir)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // another process has removed it meanwhile
}

// Remove removes a file, then every empty directory above it, except the first segment of the name. A missing file is
// no error.
func (d *Dir) Remove(name string) error {
	dir := path.Dir(name)
	r, err := d.Folder(dir, false)
	if err == nil {
		err = d.About(name, r.Remove(path.Base(name)))
		r.Close()
	}
	if err == nil {
		err = SyncDirectory(d.Where(dir))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for ; strings.Contains(dir, "/"); dir = path.Dir(dir) {
		above, err := d.Folder(path.Dir(dir), false)
		if err != nil {
			return nil
		}
		err = above.Remove(path.Base(dir))
		above.Close()
		if err != nil {
			return nil // it isn't empty
		}
	}
	return nil
}
