package cli

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// OwnedByOther is not asked of Windows, where a directory that everybody may write to is the exception.
func OwnedByOther(fs.FileInfo) bool { return false }

// understandsANSI switches a console's escape sequences on and reports whether it has them.
func understandsANSI(f *os.File) bool {
	var mode uint32
	h := windows.Handle(f.Fd())
	if windows.GetConsoleMode(h, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}

// OthersMayRead is not asked of Windows, whose files have no such mode.
func OthersMayRead(fs.FileInfo) bool { return false }
