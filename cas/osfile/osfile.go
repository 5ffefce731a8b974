// Package osfile adds to package os: locks that end with the process, files that are written whole and durably,
// writing confined to a directory, and reading without following a link or blocking on a pipe.
//
// How a file goes through here: WriteFile, In.Write and Dir.Write write and sync a file with a temporary name,
// rename it, and sync the directory (SyncDirectory); Sweep removes the temporary files of dead processes. A Batch
// does the same for many files. Batch.Folder opens the directory of a destination, or Build starts a missing
// directory in a hidden one (site). Folder.Stage writes the files, and Commit syncs them, renames the built
// directories (moveWholes) and the other files (moveAll), and drops the rest.
//
// # Locks
//
// A lock belongs to an open file. It is advisory: it excludes only callers that have opened the file separately, in
// this process or another, and ask for a lock too. It ends when the file is closed. The system closes the file when
// the process ends, for whatever reason. Many callers can hold a Shared lock at once, but only one can hold an
// Exclusive lock.
//
// Waiting for a lock sleeps in the system and costs one thread. Linux wakes waiters one at a time, the oldest
// first, but a new caller may still get the lock at the moment of its release. On Windows waiting polls, because
// the system would not let the file be closed during a blocking wait.
package osfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// A Mode is shared or exclusive.
type Mode bool

// The modes of a lock.
const (
	Shared    Mode = false // many holders
	Exclusive Mode = true  // one holder
)

// Busy returns the error about a path that another process holds. wait is how long this process has waited, or
// zero.
func Busy(path string, wait time.Duration) *fault.Error {
	e := fault.New(fault.Busy, "%q is in use", path).On("path", path)
	if wait > 0 {
		e.Text += fmt.Sprintf(": waited %s", wait)
	}
	return e
}

// TryLock locks an open file if the lock is free.
func TryLock(f *os.File, how Mode) (bool, error) { return tryLock(f, how) }

// Lock locks an open file. It waits for at most the time most, then returns Busy. If ctx ends first, it returns
// ctx's cause. On every error it closes the file, so that a lock granted too late is released.
func Lock(ctx context.Context, file *os.File, how Mode, most time.Duration) error {
	ok, err := tryLock(file, how)
	if ok {
		return nil
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		bounded, cancel := context.WithTimeoutCause(ctx, most, Busy(file.Name(), most))
		defer cancel()
		err = wait(bounded, file, how)
	}
	if err != nil {
		file.Close()
	}
	return err
}

// OpenLocked opens the file at path, creating it if it is missing, and locks it as Lock does. The lock is on the file
// that path names: if the file was removed or replaced meanwhile, OpenLocked starts again. Closing the file releases
// the lock.
func OpenLocked(ctx context.Context, path string, how Mode, most time.Duration) (*os.File, error) {
	for end := time.Now().Add(most); ; {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|Nonblock, 0o600)
		if err != nil {
			return nil, err
		}
		if err := Lock(ctx, file, how, most); err != nil {
			return nil, err
		}
		same, err := StandsAt(file, path)
		if same {
			return file, nil
		}
		file.Close()
		switch {
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case time.Now().After(end):
			return nil, Busy(path, most)
		}
	}
}

// StandsAt reports whether path still names an open file.
func StandsAt(f *os.File, path string) (bool, error) {
	held, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(held, now), err
}

// SyncDirectory makes the names in a directory durable. It does nothing on systems that can't sync directories.
func SyncDirectory(path string) error { return syncNames(os.Open, path) }

// SyncDirectoryIn is SyncDirectory for a directory below root.
func SyncDirectoryIn(root *os.Root, path string) error { return syncNames(root.Open, path) }
