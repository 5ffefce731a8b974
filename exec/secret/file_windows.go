package secret

import (
	"os"

	"golang.org/x/sys/windows"
)

// checkDir has nothing to say: Windows guards a user's directories by other means than modes.
func checkDir(path string) error {
	_, err := os.Lstat(path)
	return err
}

func openOwn(path string) (*os.File, error) { return os.Open(path) }

// tryLock locks an open file for this process alone, without waiting.
func tryLock(f *os.File) (bool, error) {
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

// syncDir does nothing: Windows has no such call.
func syncDir(string) error { return nil }
