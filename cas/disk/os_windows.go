package disk

import (
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// openRead opens a file for reading.
func openRead(path string) (*os.File, error) { return os.Open(path) }

// syncDirectory does nothing: Windows has no such call, and journals names itself.
func syncDirectory(string) error { return nil }

// mapFile reads n bytes of f from off. A mapping would keep the file from being replaced.
func mapFile(f *os.File, off int64, n int) ([]byte, func(), error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(f, off, int64(n)), b); err != nil {
		return nil, nil, err
	}
	return b, func() {}, nil
}

// tryLock takes a lock on an open file, shared or exclusive, without waiting. The system drops it when the
// process ends, however it ends.
func tryLock(f *os.File, exclusive bool) (bool, error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	// A byte far behind any content, so that the file can be read while it is locked.
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	switch err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &at); err {
	case nil:
		return true, nil
	case windows.ERROR_LOCK_VIOLATION, windows.ERROR_IO_PENDING:
		return false, nil
	default:
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}
