package osfile

import (
	"io"
	"os"
)

// readSmall reads a file to its end, or one byte more than most. A file that is larger at first is ErrLarge.
func readSmall(path string, most int64) (data []byte, regular bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	fi, err := file.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return nil, false, err
	}
	if fi.Size() > most {
		return nil, true, ErrLarge
	}
	data, err = io.ReadAll(io.LimitReader(file, most+1)) // the file may grow meanwhile
	return data, true, err
}
