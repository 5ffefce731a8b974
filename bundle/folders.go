package bundle

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"sync"

	"github.com/rye-build/rye/ai"
)

// openFolders caches open directories of a space. A manifest's files are sorted, so a file is mostly in the directory
// of the one before: keeping some directories open saves resolving and checking its path each time. It is safe for
// concurrent use.
type openFolders struct {
	space *ai.Space

	mu     sync.Mutex
	open   map[string]*folder
	recent []string // paths of the open directories, in the order of opening
}

// foldersOf returns an empty cache for a space.
func foldersOf(space *ai.Space) *openFolders { return &openFolders{space: space} }

type folder struct {
	space *ai.Space
	users int
	left  bool // removed from open: the last user closes it
}

// maxFolders is how many directories stay open.
const maxFolders = 16

// At calls use with the directory of a file, and the file's name there.
func (o *openFolders) At(name string, use func(dir fs.FS, base string) error) error {
	dir := path.Dir(name)
	if dir == "." {
		return use(o.space.FS, name)
	}
	f, err := o.enter(dir)
	if err == nil {
		err = use(f.space.FS, path.Base(name))
		o.leave(f)
	}
	if bad, ok := errors.AsType[*fs.PathError](err); ok {
		err = &fs.PathError{Op: bad.Op, Path: name, Err: bad.Err}
	}
	return err
}

func (o *openFolders) enter(dir string) (*folder, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	opened := o.open[dir]
	if opened == nil {
		space, err := o.space.Below(dir)
		if err != nil {
			return nil, err
		}
		if len(o.recent) == maxFolders {
			o.forget(o.recent[0])
			o.recent = slices.Delete(o.recent, 0, 1)
		}
		if o.open == nil {
			o.open = make(map[string]*folder, maxFolders)
		}
		opened = &folder{space: space}
		o.open[dir], o.recent = opened, append(o.recent, dir)
	}
	opened.users++
	return opened, nil
}

func (o *openFolders) leave(f *folder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.users--; f.users == 0 && f.left {
		f.space.Close()
	}
}

// forget closes a directory once it is unused.
func (o *openFolders) forget(dir string) {
	f := o.open[dir]
	delete(o.open, dir)
	if f.left = true; f.users == 0 {
		f.space.Close()
	}
}

// Close closes all unused directories.
func (o *openFolders) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, dir := range o.recent {
		o.forget(dir)
	}
	o.recent = nil
}

// Read reads a file and its mode into a buffer of the caller. A larger file must be opened instead.
func (o *openFolders) Read(name string, into []byte) (data []byte, mode fs.FileMode, err error) {
	err = o.At(name, func(dir fs.FS, base string) error {
		whole, ok := dir.(interface {
			ReadInto(name string, into []byte, most int64) ([]byte, fs.FileMode, error)
		})
		if !ok {
			return errors.ErrUnsupported
		}
		data, mode, err = whole.ReadInto(base, into, int64(len(into))-1)
		return err
	})
	return data, mode, err
}

// Names lists a directory, without a stat of each file where the system allows it.
func (o *openFolders) Names(dir string) (names []string, err error) {
	if fast, ok := o.space.FS.(interface {
		Names(string) ([]string, error)
	}); ok {
		return fast.Names(dir)
	}
	entries, err := fs.ReadDir(o.space.FS, dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}
