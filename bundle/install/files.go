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

// files are the files of a user's directory. No link leads out of it.
type files struct{ osfile.In }

func (f *files) readFile(name string) ([]byte, error) {
	r, err := f.Root.OpenFile(name, os.O_RDONLY|osfile.Nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if info, err := r.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, &ManifestError{name, errors.New("not a regular file")})
	}
	return readAll(r, bundle.MaxManifest)
}

// write creates or replaces a file atomically and durably.
func (f *files) write(name string, b []byte) error {
	f.Sweep(path.Dir(name), time.Now())
	return f.Write(name, 0o644, false, func(w *os.File) error {
		_, err := w.Write(b)
		return err
	})
}

func (f *files) remove(name string) error {
	if err := f.Remove(name); err != nil {
		return err
	}
	return f.SyncDirectory(path.Dir(name))
}

// prune removes empty directories of a bundle.
func (f *files) prune(dir string) {
	for dir = dir + "/" + historyDir; dir != bundlesDir; dir = path.Dir(dir) {
		if f.Remove(dir) != nil && !f.missing(dir) {
			return
		}
	}
}

func (f *files) missing(name string) bool {
	_, err := f.Root.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// makeDirectory creates a directory and those above it durably.
func (f *files) makeDirectory(dir string) error {
	if info, err := f.Root.Stat(dir); err == nil && info.IsDir() || dir == "." {
		return nil
	}
	if err := f.makeDirectory(path.Dir(dir)); err != nil {
		return err
	}
	if err := f.Hook.Do("mkdir", dir); err != nil {
		return err
	}
	if err := f.Root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.SyncDirectory(path.Dir(dir))
}

// history returns the sorted names of previous manifests in the directory of a bundle.
func (f *files) history(dir string) (names []string, err error) {
	d, err := f.Root.Open(dir + "/" + historyDir)
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
	files, err := s.files()
	if err != nil {
		return err
	}
	defer files.Root.Close()
	if err := files.makeDirectory(bundlesDir); err != nil {
		return err
	}
	lock, err := files.Root.OpenFile(bundlesDir+"/.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := osfile.Lock(ctx, lock, osfile.Exclusive, cmp.Or(s.Wait, 30*time.Second)); err != nil {
		return err
	}
	defer lock.Close()
	return change(files)
}
