// Package spool is a directory of downloads that outlive the process that began them. An interrupted pull leaves its
// layers there, whole or in part, and the next pull continues with them. A file is named by the SHA-256 that it should
// have: the pull that uses it hashes it.
package spool

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/cas/osfile"
)

const (
	// waits bounds how long a pull waits for another one, which may be large and slow.
	waits = 24 * time.Hour
	// keeps is how long a layer waits for the pull that goes on with it.
	keeps = 7 * 24 * time.Hour

	lockFile = "lock"
	prefix   = "sha256:"
)

// A Spool is used by one process at a time.
type Spool struct {
	dir  string
	turn *os.File
}

// Take creates the directory if it is missing, waits for other processes, and removes layers older than a week.
func Take(ctx context.Context, dir string) (*Spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s, err := take(ctx, dir, waits)
	if err != nil {
		return nil, err
	}
	old := time.Now().Add(-keeps)
	_ = s.remove(func(fi fs.FileInfo) bool { return fi.ModTime().Before(old) }) // the next one removes it
	return s, nil
}

func take(ctx context.Context, dir string, most time.Duration) (*Spool, error) {
	turn, err := osfile.OpenLocked(ctx, filepath.Join(dir, lockFile), osfile.Exclusive, most)
	return &Spool{dir, turn}, err
}

// Release lets other processes use the directory.
func (s *Spool) Release() { s.turn.Close() }

// Path returns the path of a layer. The digest is "sha256:" and 64 hexadecimal digits.
func (s *Spool) Path(digest string) string {
	return filepath.Join(s.dir, strings.TrimPrefix(digest, prefix))
}

// Clear removes all layers of a directory, if it exists. It fails while a pull uses the directory.
func Clear(ctx context.Context, dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, err := take(ctx, dir, time.Second)
	if err != nil {
		return err
	}
	defer s.Release()
	return s.remove(func(fs.FileInfo) bool { return true })
}

func (s *Spool) remove(which func(fs.FileInfo) bool) (err error) {
	for _, fi := range layers(s.dir) {
		if which(fi) {
			err = errors.Join(err, os.Remove(filepath.Join(s.dir, fi.Name())))
		}
	}
	return err
}

func layers(dir string) (list []fs.FileInfo) {
	all, _ := os.ReadDir(dir)
	for _, e := range all {
		if fi, err := e.Info(); err == nil && format.ValidDigest(prefix+e.Name()) {
			list = append(list, fi)
		}
	}
	return list
}

// Size counts the layers of a directory, and their bytes.
func Size(_ context.Context, dir string) (n, bytes int64) {
	for _, fi := range layers(dir) {
		n, bytes = n+1, bytes+fi.Size()
	}
	return n, bytes
}
