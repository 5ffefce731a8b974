//go:build unix

package nofollow

import (
	"io/fs"
	"os"

	"github.com/rye-build/rye/cas/osfile"
)

// file returns the directory as a file, which stays open; nil where it can't be opened.
func (f *folder) file() *os.File {
	if !f.kept {
		return nil
	}
	f.once.Do(func() { f.self, _ = f.Root.Open(".") })
	return f.self
}

// readEntry reads a file with as few questions to the system as it takes.
func readEntry(dir *os.File, name string, most int64) ([]byte, error) {
	switch b, is, err := osfile.ReadEntry(dir, name, most); {
	case err != nil:
		return nil, err
	case is == fs.ModeSymlink:
		return nil, ErrLink
	case is != 0:
		return nil, ErrSpecial
	default:
		return b, nil
	}
}
