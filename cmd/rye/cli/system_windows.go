package cli

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// understandsANSI enables a console's escape sequences and reports whether it supports them.
func understandsANSI(f *os.File) bool {
	var mode uint32
	h := windows.Handle(f.Fd())
	if windows.GetConsoleMode(h, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}

// OthersMayRead is always false on Windows, whose files have no such mode.
func OthersMayRead(fs.FileInfo) bool { return false }
