package sink

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks an open file, until it is closed, without waiting. What is locked is a byte behind all that it will have:
// others may read it.
func tryLock(f *os.File) (bool, error) {
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	switch err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_FAIL_IMMEDIATELY|windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &at); err {
	case nil:
		return true, nil
	case windows.ERROR_LOCK_VIOLATION, windows.ERROR_IO_PENDING:
		return false, nil
	default:
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}
