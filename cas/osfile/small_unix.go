//go:build unix

package osfile

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// readSmall reads a file to its end, or to one byte more than most. It goes without os.File, which asks the system of each file
// whether it can be waited for: policies are read at every call.
func readSmall(path string, most int64) (b []byte, regular bool, err error) {
	// What is opened is looked at, not what was there before. Without O_NONBLOCK a pipe would wait for a writer.
	return readAt(unix.AT_FDCWD, path, 0, most)
}

// ReadEntry reads a small regular file that stands in an open directory, and follows no link. Of anything else it returns the
// type, without opening it. A file that is put in the place of another at this moment is read.
func ReadEntry(dir *os.File, name string, most int64) (b []byte, is fs.FileMode, err error) {
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
		regular := false
		if b, regular, err = readAt(fd, name, unix.O_NOFOLLOW, most); regular || err != nil && !isLink(err) {
			return b, 0, err
		}
	}
	return nil, fs.ModeIrregular, nil
}

func isLink(err error) bool {
	pe, ok := err.(*fs.PathError)
	return ok && (pe.Err == unix.ELOOP || pe.Err == unix.EMLINK) // which is what FreeBSD says
}

// readAt opens a file and reads it.
func readAt(dir int, path string, flags int, most int64) (b []byte, regular bool, err error) {
	bad := func(op string, err error) ([]byte, bool, error) {
		return nil, false, &fs.PathError{Op: op, Path: path, Err: err}
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
		return nil, false, nil
	}
	if st.Size > most {
		return nil, true, ErrLarge
	}
	b = make([]byte, 0, st.Size+1)
	for {
		n := 0
		room := b[len(b):min(int64(cap(b)), most+1)]
		if err := again(func() (err error) {
			n, err = unix.Read(fd, room)
			return err
		}); err != nil {
			return bad("read", err)
		}
		switch b = b[:len(b)+n]; {
		case int64(len(b)) > most:
			return nil, true, ErrLarge
		case n == 0:
			return b, true, nil
		case len(b) == cap(b): // it grew meanwhile
			b = append(b, 0)[:len(b)]
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
