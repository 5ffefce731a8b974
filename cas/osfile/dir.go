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

// A Dir confines writing to a directory and what is below it: no symbolic link in it is followed, not even one that
// replaces a directory while it is open.
type Dir struct {
	Root *os.Root
	dir  string
	mode fs.FileMode // of directories that are made
}

// OpenDir opens a directory to write in.
func OpenDir(dir string, mode fs.FileMode) (*Dir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Dir{root, dir, mode}, nil
}

func (d *Dir) Close() { d.Root.Close() }

// Where is a name below the directory as people find it.
func (d *Dir) Where(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// Folder opens a directory below, which the caller closes, and makes it where it isn't there, if it may.
func (d *Dir) Folder(name string, mayMake bool) (*os.Root, error) {
	r, err := d.Root.OpenRoot(".")
	if err != nil || name == "." {
		return r, err
	}
	at := ""
	for segment := range strings.SplitSeq(name, "/") {
		at = path.Join(at, segment)
		next, err := d.enter(r, segment, at, mayMake)
		r.Close()
		if err != nil {
			return nil, err
		}
		r = next
	}
	return r, nil
}

// enter opens a directory. One that others take away and make again meanwhile is looked at anew.
func (d *Dir) enter(r *os.Root, segment, at string, mayMake bool) (next *os.Root, err error) {
	for range 100 {
		if next, err = d.enterNow(r, segment, at, mayMake); err != errReplaced {
			return next, err
		}
	}
	return nil, fault.New(fault.Conflict, "%q was replaced meanwhile", d.Where(at))
}

var errReplaced = errors.New("it was replaced meanwhile")

func (d *Dir) enterNow(r *os.Root, segment, at string, mayMake bool) (*os.Root, error) {
	before, err := r.Lstat(segment)
	if mayMake && errors.Is(err, fs.ErrNotExist) {
		if err := r.Mkdir(segment, d.mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, d.About(at, err)
		}
		before, err = r.Lstat(segment)
	}
	if err != nil {
		return nil, d.About(at, err)
	}
	if !before.IsDir() {
		return nil, d.notDir(at, before)
	}
	next, err := r.OpenRoot(segment)
	if err != nil {
		return nil, d.About(at, err)
	}
	if after, err := next.Stat("."); err != nil || !os.SameFile(before, after) {
		next.Close()
		return nil, errReplaced
	}
	return next, nil
}

// notDir says that something else stands where a directory is needed.
func (d *Dir) notDir(at string, fi fs.FileInfo) error {
	if fi.Mode()&fs.ModeSymlink != 0 {
		return fault.New(fault.Denied, "%q is a symbolic link, and nothing is written through one", d.Where(at)).
			On("reason", "link").On("path", d.Where(at)).Try("ls -l " + fault.Quote(d.Where(at)))
	}
	return &fs.PathError{Op: "open", Path: d.Where(at), Err: NotDirectory}
}

// About makes an error one about a name as people find it.
func (d *Dir) About(name string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: PlainOp(pe.Op), Path: d.Where(name), Err: pe.Err}
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: PlainOp(le.Op), Path: d.Where(name), Err: le.Err}
	}
	return err
}

// PlainOp names what was done to a file by a word that people know: os.Root names the call of the system.
func PlainOp(op string) string {
	switch op {
	case "openat", "mkdirat", "renameat", "linkat", "statat", "lstatat", "chmodat":
		return strings.TrimSuffix(op, "at")
	case "unlinkat", "removeat":
		return "remove"
	}
	return op
}

// Read reads a regular file, nil if there is none. A link is refused: what would be written is the link.
func (d *Dir) Read(name string, most int64) ([]byte, error) {
	r, err := d.Folder(path.Dir(name), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	fi, err := r.Lstat(path.Base(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, d.About(name, err)
	case !fi.Mode().IsRegular():
		return nil, fault.New(fault.Denied, "%q is no regular file", d.Where(name)).On("reason", "special").
			On("path", d.Where(name))
	case fi.Size() > most:
		return nil, fault.New(fault.Limit, "%q has more than %d bytes", d.Where(name), most)
	}
	b, err := r.ReadFile(path.Base(name))
	return b, d.About(name, err)
}

// Write makes a file, or replaces it, whole and durable, as writeFile does. With exclusive a file that is there is
// fs.ErrExist.
func (d *Dir) Write(name string, mode fs.FileMode, exclusive bool, b []byte) error {
	return d.WriteTo(name, mode, exclusive, BytesOf(b))
}

// WriteTo is Write for what isn't in memory. It may be asked for several times.
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
	return nil // another process has removed it since
}

// Remove removes a file, then every directory above it that is empty, except the first segment of the name. A file
// that is already gone is no error.
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
			return nil // there is something else in it
		}
	}
	return nil
}
