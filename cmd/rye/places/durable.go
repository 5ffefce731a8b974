package places

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// WriteFile makes a file with a content, or replaces it, whole and durable: a reader finds the old one or the new
// one. With exclusive a file that is there is fs.ErrExist.
func WriteFile(path string, mode fs.FileMode, exclusive bool, write func(io.Writer) error) (err error) {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to // what a link stands for is replaced, not the link
	}
	f, err := os.CreateTemp(filepath.Dir(path), Unfinished+"*")
	if bad, ok := errors.AsType[*fs.PathError](err); ok {
		bad.Path = path // the one that somebody named
	}
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = write(f)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if exclusive {
		err = os.Link(f.Name(), path) // which never replaces
	} else {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return osfile.SyncDirectory(filepath.Dir(path))
}

// unfinished begins the names of files that are being written, which no tree takes in, and unfinishedAge is when one
// was left by a process that died.
const (
	Unfinished    = ".rye-tmp-write-"
	UnfinishedAge = time.Hour
)

// Sweep removes what processes that died have left in a small directory of our own. Failing is no error: the next one
// tries again.
func Sweep(dir string, now time.Time) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), Unfinished) || !e.Type().IsRegular() {
			continue
		}
		if fi, err := e.Info(); err == nil && now.Sub(fi.ModTime()) > UnfinishedAge {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// BytesOf is a content that is in memory.
func BytesOf(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// OpenRegular opens a file for reading, which must be a regular one: others never end, or wait for somebody.
func OpenRegular(path string) (*os.File, error) {
	// What is opened is looked at, not what was there before. Without O_NONBLOCK a pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|osfile.Nonblock, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fault.Error{Code: fault.Files, Text: fmt.Sprintf("%q is no regular file", path)}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReadSmall reads a regular file that should not be larger than most bytes.
func ReadSmall(path string, most int64) ([]byte, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	large := &fault.Error{Code: fault.Limit, Text: fmt.Sprintf("%q has more than %d bytes", path, most)}
	var buf bytes.Buffer
	if fi, err := f.Stat(); err == nil {
		if fi.Size() > most {
			return nil, large
		}
		buf.Grow(int(fi.Size()) + bytes.MinRead)
	}
	_, err = buf.ReadFrom(io.LimitReader(f, most+1)) // it may grow meanwhile
	b := buf.Bytes()
	if err == nil && int64(len(b)) > most {
		err = large
	}
	return b, err
}

// ReadIfThere is readSmall of a file that may be missing, which is fs.ErrNotExist. A link that leads nowhere isn't
// missing: what the file would have said, nobody can tell.
func ReadIfThere(what, path string, most int64) ([]byte, error) {
	for range 1000 {
		b, err := ReadSmall(path, most)
		if !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
		fi, gone := os.Lstat(path)
		if gone != nil {
			return nil, err
		}
		if fi.Mode()&fs.ModeSymlink == 0 {
			continue // it was made meanwhile
		}
		if _, nowhere := os.Stat(path); errors.Is(nowhere, fs.ErrNotExist) {
			return nil, &fault.Error{Code: fault.Config, Text: fmt.Sprintf("%s %q is a symbolic link that leads nowhere", what, path),
				Hint: []string{"ls -l " + fault.Quote(path)}, Details: map[string]any{"path": path}}
		}
	}
	return nil, &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("%s %q is made and removed again all the time", what, path), Details: map[string]any{"path": path}}
}

// LockWait bounds how long one process waits for another.
const LockWait = 30 * time.Second

// lockFile holds a lock on the file at path, which it makes, until unlock is called or the process ends.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := osfile.OpenLocked(ctx, path, osfile.Exclusive, LockWait)
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// ToWrite is the path of a file that is to be written, in a directory that is there. Where a link leads that lies in a
// project, whoever wrote the project has chosen.
func ToWrite(a *cli.App, name string) (string, error) {
	s := a.Absolute(cli.Setting{Value: name})
	if s.Err != nil {
		return "", s.Err
	}
	if err := RefuseLinks(a, s.Value); err != nil {
		return "", err
	}
	if fi, err := os.Stat(s.Value); err == nil && fi.IsDir() {
		return "", &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is a directory, and -o names a file", name)}
	}
	return s.Value, NoPlace(name, s.Value)
}

// NoPlace says that the directory is missing in which a file is to be written; nil if it is there.
func NoPlace(name, path string) error {
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return &fault.Error{Code: fault.Files, Exit: fault.ExitMissing, Text: fmt.Sprintf("there is no directory %q", filepath.Dir(name)),
			Hint: []string{"mkdir -p " + fault.Quote(filepath.Dir(name))}, Err: err}
	}
	return nil
}
