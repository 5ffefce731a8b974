package journal

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks an open file for this process alone, without waiting.
func tryLock(f *os.File) (bool, error) {
	// A byte far behind any content, so that the file can be read while it is locked.
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY | windows.LOCKFILE_EXCLUSIVE_LOCK)
	switch err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &at); err {
	case nil:
		return true, nil
	case windows.ERROR_LOCK_VIOLATION, windows.ERROR_IO_PENDING:
		return false, nil
	default:
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}

// syncDirectory does nothing: Windows has no such call, and journals names itself.
func syncDirectory(string) error { return nil }
