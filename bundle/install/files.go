package install

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas/osfile"
)

// files are the files of a user's directory, below which everything stays, links or not.
type files struct {
	root *os.Root
	hook func(op, name string) error
}

// Close closes the directory.
func (f *files) Close() error { return f.root.Close() }

func (f *files) do(op, name string) error {
	if f.hook == nil {
		return nil
	}
	return f.hook(op, name)
}

func (f *files) readFile(name string) ([]byte, error) {
	r, err := f.root.OpenFile(name, os.O_RDONLY|osfile.Nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if info, err := r.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, &ManifestError{name, errors.New("not a regular file")})
	}
	return readAll(r, bundle.MaxManifest)
}

// unfinished is the name of what is being written, under the lock: what a process that died left there the next one
// writes over.
const unfinished = ".rye-tmp-manifest"

// write makes a file, or replaces it, whole and durable.
func (f *files) write(name string, b []byte) error {
	tmp := path.Join(bundlesDir, unfinished)
	err := f.create(tmp, b)
	if err == nil {
		err = f.do("rename", name)
	}
	if err == nil {
		err = f.root.Rename(tmp, name)
	}
	if err != nil {
		return err
	}
	return f.syncDirectory(path.Dir(name))
}

func (f *files) create(name string, b []byte) error {
	if err := f.do("create", name); err != nil {
		return err
	}
	w, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|osfile.Nonblock, 0o644)
	if err != nil {
		return err
	}
	if err = f.do("write", name); err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = f.do("sync", name)
	}
	if err == nil {
		err = w.Sync()
	}
	return errors.Join(err, w.Close())
}

func (f *files) remove(name string) error {
	if err := f.do("remove", name); err != nil {
		return err
	}
	if err := f.root.Remove(name); err != nil {
		return err
	}
	return f.syncDirectory(path.Dir(name))
}

// prune removes directories of a bundle that are empty now. Those that aren't stay.
func (f *files) prune(dir string) {
	for dir = dir + "/" + historyDir; dir != bundlesDir; dir = path.Dir(dir) {
		if f.do("remove", dir) != nil || f.root.Remove(dir) != nil && !f.missing(dir) {
			return
		}
	}
}

func (f *files) missing(name string) bool {
	_, err := f.root.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// makeDirectory makes a directory and those above it, so that they last.
func (f *files) makeDirectory(dir string) error {
	if info, err := f.root.Stat(dir); err == nil && info.IsDir() || dir == "." {
		return nil
	}
	if err := f.makeDirectory(path.Dir(dir)); err != nil {
		return err
	}
	if err := f.do("mkdir", dir); err != nil {
		return err
	}
	if err := f.root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.syncDirectory(path.Dir(dir))
}

// syncDirectory makes the names in a directory durable.
func (f *files) syncDirectory(dir string) error {
	if err := f.do("syncdir", dir); err != nil {
		return err
	}
	return osfile.SyncDirectoryIn(f.root, dir)
}

// history returns the names of previous manifests in the directory of a bundle, sorted.
func (f *files) history(dir string) (names []string, err error) {
	d, err := f.root.Open(dir + "/" + historyDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	for _, e := range entries {
		if isHistory(e.Name()) && !e.IsDir() {
			names = append(names, historyDir+"/"+e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// locked calls change while no other process changes the space.
func (s *Space) locked(ctx context.Context, change func(*files) error) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	f, err := s.files()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.makeDirectory(bundlesDir); err != nil {
		return err
	}
	lock, err := f.root.OpenFile(bundlesDir+"/.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := osfile.Lock(ctx, lock, osfile.Exclusive, cmp.Or(s.Wait, 30*time.Second)); err != nil {
		return err
	}
	defer lock.Close()
	return change(f)
}
