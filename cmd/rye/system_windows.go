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

// othersMayRead is not asked of Windows, whose files have no such mode.
func othersMayRead(fs.FileInfo) bool { return false }
