//go:build unix

package osfile

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// readSmall reads a file to its end, or to one byte more than most. It goes without os.File, which asks the system of each file
// whether it can be waited for: policies are read at every call.
func readSmall(path string, most int64) (b []byte, regular bool, err error) {
	bad := func(op string, err error) ([]byte, bool, error) {
		return nil, false, &fs.PathError{Op: op, Path: path, Err: err}
	}
	again := func(do func() error) error {
		for {
			if err := do(); err != unix.EINTR {
				return err
			}
		}
	}
	// What is opened is looked at, not what was there before. Without O_NONBLOCK a pipe would wait for a writer.
	fd := -1
	if err := again(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
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
		return nil, true, errLarge
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
		if b = b[:len(b)+n]; n == 0 || int64(len(b)) > most {
			return b, true, nil
		}
		if len(b) == cap(b) { // it grew meanwhile
			b = append(b, 0)[:len(b)]
		}
	}
}
