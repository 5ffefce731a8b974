package osfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas/fault"
)

// IsDir reports whether path is a directory. A file of another type is an error.
func IsDir(path string) (bool, error) {
	switch fi, err := os.Stat(path); {
	case os.IsNotExist(err):
		return false, nil
	case err != nil:
		return false, err
	case !fi.IsDir():
		return false, &fs.PathError{Op: "open", Path: path, Err: NotDirectory}
	}
	return true, nil
}

// NeedDir returns an error unless path is a directory.
func NeedDir(path string) error {
	switch ok, err := IsDir(path); {
	case errors.Is(err, NotDirectory):
		return fault.New(fault.Files, "%q is not a directory", path).On("path", path).From(err).Missing()
	case err != nil:
		return err
	case !ok:
		return fault.New(fault.Files, "no directory %q", path).On("path",
			path).From(fs.ErrNotExist).Missing().Try(fault.Command("mkdir -p", path))
	}
	return nil
}

// Unlinked resolves the symbolic links of a path as far as it exists.
func Unlinked(path string) string {
	for dir, rest := path, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
	}
}
