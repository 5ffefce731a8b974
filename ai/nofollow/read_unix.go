//go:build unix

package nofollow

import (
	"io/fs"
	"os"

	"github.com/rye-build/rye/cas/osfile"
)

// file returns the directory as an open file, which stays open; nil if it can't be opened.
func (f *folder) file() *os.File {
	if !f.kept {
		return nil
	}
	f.once.Do(func() { f.self, _ = f.Root.Open(".") })
	return f.self
}

// readEntry reads a file with as few system calls as possible.
func readEntry(dir *os.File, name string, into []byte, most int64) ([]byte, fs.FileMode, error) {
	switch b, mode, err := osfile.ReadEntry(dir, name, into, most); {
	case err != nil:
		return nil, 0, err
	case mode == fs.ModeSymlink:
		return nil, 0, ErrLink
	case !mode.IsRegular():
		return nil, 0, ErrSpecial
	default:
		return b, mode, nil
	}
}
