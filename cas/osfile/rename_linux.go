package osfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// hasRename reports whether renameNew is supported.
const hasRename = true

// renameNew moves a file or a directory from one open directory to another, and replaces nothing: one step instead of
// a link and a removal. Both names have no separators. It returns errors.ErrUnsupported if the file system can't do
// it.
func renameNew(in *os.File, from string, out *os.File, to string) error {
	for {
		switch err := unix.Renameat2(int(in.Fd()), from, int(out.Fd()), to, unix.RENAME_NOREPLACE); err {
		case nil:
			return nil
		case unix.EINTR:
		case unix.EINVAL, unix.ENOSYS:
			return errors.ErrUnsupported
		default:
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
		}
	}
}
