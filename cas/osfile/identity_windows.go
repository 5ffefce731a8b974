package osfile

import "os"

// Identity returns zeros: what names a file here isn't looked at.
func Identity(path string) (device, inode uint64, err error) {
	_, err = os.Stat(path)
	return 0, 0, err
}
