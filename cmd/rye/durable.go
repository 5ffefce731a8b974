package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// writeFile makes a file with a content, or replaces it, whole and durable: a reader finds the old one or the new
// one. With exclusive a file that is there is fs.ErrExist.
func writeFile(path string, mode fs.FileMode, exclusive bool, write func(io.Writer) error) (err error) {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to // what a link stands for is replaced, not the link
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".rye-*")
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
	return syncDirectory(filepath.Dir(path))
}

// bytesOf is a content that is in memory.
func bytesOf(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// readSmall reads a regular file that should not be larger than most bytes.
func readSmall(path string, most int64) ([]byte, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, &fault{code: codeFiles, message: fmt.Sprintf("%q is no regular file", path)}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = &fault{code: "LIMIT_EXCEEDED", message: fmt.Sprintf("%q has more than %d bytes", path, most)}
	}
	return b, err
}

// lockWait bounds how long one process waits for another.
const lockWait = 30 * time.Second

// lockFile holds a lock on the file at path, which it makes, until unlock is called or the process ends.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		ok, err := tryLock(f)
		switch {
		case err != nil:
			f.Close()
			return nil, err
		case ok:
			return func() { f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			f.Close()
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, &fault{code: "BUSY", message: fmt.Sprintf("another process holds %q", path)}
			}
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
