package install

import (
	"os"

	"golang.org/x/sys/windows"
)

// nonblock is nothing here: there are no FIFOs among files.
const nonblock = 0

// tryLock locks an open file for this process alone, without waiting.
func tryLock(f *os.File) (bool, error) {
	var at windows.Overlapped
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
