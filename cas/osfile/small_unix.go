//go:build unix

package osfile

import (
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// readSmall reads a file of at most most bytes; a larger one is ErrLarge. It avoids os.File, which asks the system
// for each file whether it can be polled: every call of rye reads policies.
func readSmall(path string, most int64) (b []byte, regular bool, err error) {
	// The check is on the open file, which can't be replaced. Without O_NONBLOCK, a pipe would wait for a writer.
	b, mode, err := readAt(unix.AT_FDCWD, path, nil, 0, most)
	return b, mode.IsRegular(), err
}

// ReadEntry reads a small regular file in an open directory, and follows no link. It returns the bytes, in the
// memory of into if they fit, and the permissions. For another type of file it returns only the type, without
// opening the file. If another process replaces the file at this moment, ReadEntry reads the new one.
func ReadEntry(dir *os.File, name string, into []byte, most int64) (data []byte, mode fs.FileMode, err error) {
	fd := int(dir.Fd())
	for range 100 {
		var st unix.Stat_t
		if err := again(func() error { return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
			return nil, 0, &fs.PathError{Op: "lstat", Path: name, Err: err}
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
		case unix.S_IFLNK:
			return nil, fs.ModeSymlink, nil
		case unix.S_IFDIR:
			return nil, fs.ModeDir, nil
		default:
			return nil, fs.ModeIrregular, nil
		}
		if data, mode, err = readAt(fd, name, into, unix.O_NOFOLLOW, most); err == nil && mode.IsRegular() ||
			err != nil && !isLink(err) {
			return data, mode, err
		}
	}
	return nil, fs.ModeIrregular, nil
}

func isLink(err error) bool {
	pe, ok := err.(*fs.PathError)
	return ok && (pe.Err == unix.ELOOP || pe.Err == unix.EMLINK) // EMLINK on FreeBSD
}

// readAt opens a file and reads it. The mode that it returns has the permissions and whether the file is regular.
func readAt(dir int, path string, into []byte, flags int, most int64) (data []byte, mode fs.FileMode, err error) {
	bad := func(op string, err error) ([]byte, fs.FileMode, error) {
		return nil, 0, &fs.PathError{Op: op, Path: path, Err: err}
	}
	fd := -1
	if err := again(func() (err error) {
		fd, err = unix.Openat(dir, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
		return err
	}); err != nil {
		return bad("open", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return bad("stat", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fs.ModeIrregular, nil
	}
	mode = fs.FileMode(st.Mode).Perm()
	if st.Size > most {
		return nil, mode, ErrLarge
	}
	data = slices.Grow(into[:0], int(st.Size)+1)
	for {
		n := 0
		room := data[len(data):min(int64(cap(data)), most+1)]
		if err := again(func() (err error) {
			n, err = unix.Read(fd, room)
			return err
		}); err != nil {
			return bad("read", err)
		}
		switch data = data[:len(data)+n]; {
		case int64(len(data)) > most:
			return nil, mode, ErrLarge
		case n == 0 || n < len(room) && int64(len(data)) == st.Size: // the whole file, shorter than the buffer
			return data, mode, nil
		case len(data) == cap(data): // the file grew meanwhile
			data = append(data, 0)[:len(data)]
		}
	}
}

func again(do func() error) error {
	for {
		if err := do(); err != unix.EINTR {
			return err
		}
	}
}
