package osfile

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/rye-build/rye/cas/fault"
)

// An UnsafeError is the reason not to trust a private file or directory.
type UnsafeError struct {
	Path, Text string
	By         string // link, kind, owner or mode
}

func (e *UnsafeError) Error() string { return fmt.Sprintf("%q %s", e.Path, e.Text) }

// Fault returns the error as people and programs see it.
func (e *UnsafeError) Fault() *fault.Error {
	return fault.New(fault.Denied, "%v", e).From(e).On("path", e.Path).Try(fault.Command("chmod go=", e.Path),
		fault.Command("ls -ld", e.Path))
}

// CheckPrivateDir returns an *UnsafeError unless path is a directory that this user owns and no other user may read or
// write. Windows protects a user's directories by access control lists, which CheckPrivateDir doesn't read.
func CheckPrivateDir(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return checkPrivate(path, info, info.IsDir(), "directory", 0o077)
}

// OpenPrivate opens a regular file that this user owns and no other user may write, or read if secret is true. Any
// other file is an *UnsafeError.
func OpenPrivate(path string, secret bool) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, checkPrivate(path, info, true, "", 0)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|NoFollow|Nonblock, 0)
	if err != nil {
		return nil, err
	}
	forbidden := fs.FileMode(0o022)
	if secret {
		forbidden = 0o077
	}
	info, err := file.Stat()
	if err == nil {
		err = checkPrivate(path, info, info.Mode().IsRegular(), "regular file", forbidden)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func checkPrivate(path string, info fs.FileInfo, right bool, kind string, forbidden fs.FileMode) error {
	owner, known := ownerOf(info)
	unsafeError := &UnsafeError{Path: path}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		unsafeError.By, unsafeError.Text = "link", "is a symbolic link"
	case !right:
		unsafeError.By, unsafeError.Text = "kind", "is not a "+kind
	case known && owner != os.Geteuid():
		unsafeError.By, unsafeError.Text = "owner", fmt.Sprintf("belongs to user %d, expected %d", owner, os.Geteuid())
	case known && mode.Perm()&forbidden != 0:
		unsafeError.By, unsafeError.Text = "mode", fmt.Sprintf(
			"has mode %#o, which gives others access: expected %#o", mode.Perm(),
			mode.Perm()&^forbidden)
	default:
		return nil
	}
	return unsafeError
}
