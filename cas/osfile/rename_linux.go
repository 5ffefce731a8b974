package osfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// hasRename reports whether renameNew may work.
const hasRename = true

// renameNew moves a file or a directory from one open directory to another, and replaces nothing: one step in place of
// a link and a removal. Both names are without separators. File systems that can't do it give errors.ErrUnsupported.
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
