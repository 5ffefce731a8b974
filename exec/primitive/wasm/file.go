package wasm

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"
)

// An opener opens one file, and opens it again when a listing restarts.
type opener func() (fs.File, error)

// Open implements fs.FS.
func (o opener) Open(string) (fs.File, error) { return o() }

// A file is a regular file of the machine that a module has opened.
type file struct {
	experimentalsys.File
	real *os.File
}

func opened(f *os.File, err error) (experimentalsys.File, experimentalsys.Errno) {
	if err != nil {
		return nil, errno(err)
	}
	adapted, no := (&sysfs.AdaptFS{FS: opener(func() (fs.File, error) { return f, nil })}).OpenFile("file", 0, 0)
	return &file{adapted, f}, no
}

// Truncate implements experimentalsys.File.
func (f *file) Truncate(size int64) experimentalsys.Errno {
	if size < 0 {
		return experimentalsys.EINVAL
	}
	return errno(f.real.Truncate(size))
}

// Sync implements experimentalsys.File.
func (f *file) Sync() experimentalsys.Errno { return errno(f.real.Sync()) }

// Datasync implements experimentalsys.File.
func (f *file) Datasync() experimentalsys.Errno { return f.Sync() }

// A folder is a directory that a module has opened: one of the machine, or a virtual one above the granted paths.
type folder struct {
	info fs.FileInfo
	left []fs.DirEntry
}

// Stat implements fs.File.
func (d *folder) Stat() (fs.FileInfo, error) { return d.info, nil }

// Read implements fs.File.
func (*folder) Read([]byte) (int, error) { return 0, experimentalsys.EISDIR }

// Close implements fs.File.
func (*folder) Close() error { return nil }

// ReadDir implements fs.ReadDirFile.
func (d *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 || n > len(d.left) {
		n = len(d.left)
	}
	some := d.left[:n]
	d.left = d.left[n:]
	return some, nil
}

// A leading is a virtual directory above the granted paths, or an entry in one.
type leading struct {
	name string
	mode fs.FileMode
}

func (l leading) Name() string               { return l.name }
func (l leading) Size() int64                { return 0 }
func (l leading) Mode() fs.FileMode          { return l.mode | 0o555 }
func (l leading) ModTime() time.Time         { return time.Unix(0, 0) }
func (l leading) IsDir() bool                { return l.mode.IsDir() }
func (l leading) Sys() any                   { return nil }
func (l leading) Type() fs.FileMode          { return l.mode }
func (l leading) Info() (fs.FileInfo, error) { return l, nil }

// folder opens a directory for a module.
func (v *view) folder(name string) (experimentalsys.File, experimentalsys.Errno) {
	d, err := v.list(name)
	if err != nil {
		return nil, errno(err)
	}
	first := true
	return (&sysfs.AdaptFS{FS: opener(func() (fs.File, error) {
		if first {
			first = false
			return d, nil
		}
		return v.list(name)
	})}).OpenFile("folder", 0, 0)
}

// list reads a directory: the machine's entries, if it exists and may be read, and those that lead to granted paths.
func (v *view) list(name string) (*folder, error) {
	folder := &folder{info: leading{path.Base(name), fs.ModeDir}}
	known := map[string]fs.DirEntry{}
	at, no := v.find(name)
	switch {
	case no == 0:
		defer at.done()
		if err := v.read(folder, at, known); err != nil {
			return nil, err
		}
	case !v.above(name):
		return nil, no
	}
	for name, mode := range v.below(name) {
		if known[name] == nil {
			known[name] = leading{name, mode}
		}
	}
	for at, r := range v.rules {
		if r.mode == denied && path.Dir(at) == name {
			delete(known, path.Base(at))
		}
	}
	folder.left = slices.SortedFunc(maps.Values(known), func(a, b fs.DirEntry) int {
		return strings.Compare(a.Name(), b.Name())
	})
	return folder, nil
}

// read reads a directory of the machine.
func (v *view) read(folder *folder, at place, known map[string]fs.DirEntry) error {
	dir, err := at.dir, error(nil)
	switch {
	case dir == nil:
		return experimentalsys.ENOTDIR
	case at.name != ".":
		if dir, err = v.enter(at.dir, at.name); err != nil {
			return err
		}
		defer dir.Close()
	}
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	if folder.info, err = f.Stat(); err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	for _, e := range entries {
		known[e.Name()] = e
	}
	return err
}
