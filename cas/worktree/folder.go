package worktree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/statcache"
)

// A folder is an open directory. It looks names up in the directory that was opened, even if that was moved since, and
// follows no symbolic links. Its methods are safe for concurrent use.
type folder interface {
	// list appends the directory's names to into, unsorted, in memory of b.
	list(b *listBuffer, into []name) ([]name, error)
	// stat returns the stamp of a name without opening the file.
	stat(name string) (statcache.Stamp, error)
	// open opens a regular file for reading, and never waits for another process. For another type of file it returns
	// a *KindError.
	open(name string) (io.ReadCloser, statcache.Stamp, error)
	// sub opens a directory.
	sub(name string) (folder, folderInfo, error)
	close() error
}

// A folderInfo is what the cache needs to know of a directory.
type folderInfo struct {
	dev    uint64
	stamps bool // its file stamps are from this machine and show changes
}

// unknownMode is the type of an entry if the file system's listings have no types.
const unknownMode = fs.ModeType

// A name is an entry of a directory. Only the type bits of its mode are set.
type name struct {
	name string
	mode fs.FileMode
}

// A rootFolder is a folder on top of os.Root, which every system has.
type rootFolder struct{ r *os.Root }

func openRoot(path string) (folder, folderInfo, error) {
	r, err := os.OpenRoot(path)
	if err != nil {
		return nil, folderInfo{}, err
	}
	return rootInfo(r)
}

func rootInfo(r *os.Root) (folder, folderInfo, error) {
	fi, err := r.Stat(".")
	if err != nil {
		r.Close()
		return nil, folderInfo{}, err
	}
	return rootFolder{r}, folderInfo{dev: statcache.StampOf(fi).Dev, stamps: ownStamps(r)}, nil
}

func ownStamps(r *os.Root) bool {
	d, err := r.Open(".")
	if err != nil {
		return false
	}
	defer d.Close()
	return statcache.OwnStamps(d.Fd())
}

func (f rootFolder) list(_ *listBuffer, into []name) ([]name, error) {
	d, err := f.r.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for {
		es, err := d.ReadDir(1024)
		for _, e := range es {
			into = append(into, name{e.Name(), e.Type()})
		}
		if err == io.EOF {
			return into, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (f rootFolder) stat(name string) (statcache.Stamp, error) {
	fi, err := f.r.Lstat(name)
	if err != nil {
		return statcache.Stamp{}, err
	}
	return statcache.StampOf(fi), nil
}

// open checks the type before and after it opens the file, because os.Root follows links that stay inside the root.
func (f rootFolder) open(name string) (io.ReadCloser, statcache.Stamp, error) {
	before, err := f.r.Lstat(name)
	if err != nil {
		return nil, statcache.Stamp{}, err
	}
	if !before.Mode().IsRegular() {
		return nil, statcache.Stamp{}, describe(before.Mode())
	}
	file, err := f.r.OpenFile(name, os.O_RDONLY|osfile.Nonblock, 0)
	if err != nil {
		return nil, statcache.Stamp{}, escaped(err)
	}
	fi, err := file.Stat()
	if err == nil && !os.SameFile(before, fi) {
		err = errSwapped
	}
	if err == nil && !fi.Mode().IsRegular() {
		err = describe(fi.Mode())
	}
	if err != nil {
		file.Close()
		return nil, statcache.Stamp{}, err
	}
	return file, statcache.StampOf(fi), nil
}

// escaped returns errSwapped if os.Root, not the system, has refused to open a file: a link out of the root has
// replaced it.
func escaped(err error) error {
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return err
	}
	return errSwapped
}

func (f rootFolder) sub(name string) (folder, folderInfo, error) {
	before, err := f.r.Lstat(name)
	if err != nil {
		return nil, folderInfo{}, err
	}
	if !before.IsDir() {
		return nil, folderInfo{}, describe(before.Mode())
	}
	root, err := f.r.OpenRoot(name)
	if err != nil {
		return nil, folderInfo{}, escaped(err)
	}
	fi, err := root.Stat(".")
	if err == nil && !os.SameFile(before, fi) {
		err = errSwapped
	}
	if err != nil {
		root.Close()
		return nil, folderInfo{}, err
	}
	return rootInfo(root)
}

func (f rootFolder) close() error { return f.r.Close() }

// absOf returns the absolute path of a directory of an import, for the cache's keys.
func absOf(root, rel string) string { return filepath.Join(root, filepath.FromSlash(rel)) }
