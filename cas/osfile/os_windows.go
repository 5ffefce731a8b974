package osfile

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// Flags for os.OpenFile. A flag is 0 on systems without it.
const (
	NoFollow = 0
	Nonblock = 0
)

func tryLock(file *os.File, how Mode) (bool, error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if how == Exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	// A byte far behind any content, so that the file can be read while it is locked.
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	switch err := windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, 1, 0, &at); err {
	case nil:
		return true, nil
	case windows.ERROR_LOCK_VIOLATION, windows.ERROR_IO_PENDING:
		return false, nil
	default:
		return false, &os.PathError{Op: "lock", Path: file.Name(), Err: err}
	}
}

func wait(ctx context.Context, f *os.File, how Mode) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if ok, err := tryLock(f, how); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func syncNames(func(string) (*os.File, error), string) error { return nil }
