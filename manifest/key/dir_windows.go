package key

import (
	"io/fs"
	"os"
)

// checkDir looks for a directory. Who may enter is for its access control list, which isn't read.
func checkDir(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = unsafeFile(path, byKind, "is not a directory")
	}
	return err
}

// openOwn opens a regular file.
func openOwn(path string, _ bool) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeType != 0 {
		return nil, unsafeFile(path, byKind, "is not a regular file")
	}
	return os.Open(path)
}
