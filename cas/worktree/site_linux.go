package worktree

import (
	"io/fs"
	"os"

	"github.com/rye-build/rye/cas"
	"golang.org/x/sys/unix"
)

// An fdTarget is a target on top of the system calls that take a directory's descriptor.
type fdTarget int

func openTarget(in *os.Root, name string) (target, error) {
	d, err := in.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return openMade(int(d.Fd()), name)
}

// openMade opens a directory that was just created. It refuses a link in its place, or a directory of another user.
func openMade(in int, name string) (target, error) {
	fd, err := openat(in, name, openDirFlags|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err = retry(func() error { return unix.Fstat(fd, &st) })
	if err == nil && int(st.Uid) != os.Geteuid() {
		err = changed(name, errSwapped)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return fdTarget(fd), nil
}

func (t fdTarget) mkdir(name string) (target, error) {
	if err := retry(func() error { return unix.Mkdirat(int(t), name, 0o777) }); err != nil {
		return nil, err
	}
	return openMade(int(t), name)
}

func (t fdTarget) open(name string, m cas.Mode, flags int) (fd int, err error) {
	flags |= unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	for {
		fd, err = unix.Openat(int(t), name, flags, uint32(permOf(m)))
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func (t fdTarget) create(name string, m cas.Mode) (*os.File, error) {
	fd, err := t.open(name, m, unix.O_RDWR)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (t fdTarget) write(name string, m cas.Mode, b []byte) error {
	fd, err := t.open(name, m, unix.O_WRONLY)
	if err != nil {
		return err
	}
	for len(b) > 0 && err == nil {
		var n int
		if n, err = unix.Write(fd, b); err == unix.EINTR {
			n, err = 0, nil
		}
		b = b[max(n, 0):]
	}
	if cerr := unix.Close(fd); err == nil && cerr != unix.EINTR { // EINTR closes it too
		err = cerr
	}
	return err
}

func (t fdTarget) close() error { return unix.Close(int(t)) }

// exchange swaps the tree and the directory at its destination, in one step if the file system can.
func (s *site) exchange() error {
	t, ok := s.target.(fdTarget)
	if !ok {
		return s.swap()
	}
	d, err := s.parent.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	err = unix.Renameat2(int(t), rootName, int(d.Fd()), s.base, unix.RENAME_EXCHANGE)
	if err == unix.EINVAL || err == unix.ENOSYS {
		return s.swap()
	}
	if err != nil {
		return &fs.PathError{Op: "rename", Path: s.dst, Err: err}
	}
	return nil
}
