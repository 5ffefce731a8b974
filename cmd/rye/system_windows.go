package main

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// notDirectory is what the system says of a file that stands where a directory is needed.
const notDirectory = syscall.ENOTDIR

// ownedByOther is not asked of Windows, where a directory that everybody may write to is the exception.
func ownedByOther(fs.FileInfo) bool { return false }

// understandsANSI switches a console's escape sequences on and reports whether it has them.
func understandsANSI(f *os.File) bool {
	var mode uint32
	h := windows.Handle(f.Fd())
	if windows.GetConsoleMode(h, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}

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
		return false, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}

// syncDirectory does nothing: Windows has no such call, and journals names itself.
func syncDirectory(string) error { return nil }

// othersMayRead is not asked of Windows, whose files have no such mode.
func othersMayRead(fs.FileInfo) bool { return false }
