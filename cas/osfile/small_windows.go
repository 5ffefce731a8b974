package osfile

import (
	"io"
	"os"
)

// readSmall reads a file to its end, or one byte more than most. A file that is larger at first is ErrLarge.
func readSmall(path string, most int64) (b []byte, regular bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return nil, false, err
	}
	if fi.Size() > most {
		return nil, true, ErrLarge
	}
	b, err = io.ReadAll(io.LimitReader(f, most+1)) // the file may grow meanwhile
	return b, true, err
}
