//go:build unix

package osfile

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Flags for os.OpenFile. A flag is 0 on systems without it.
const (
	NoFollow = unix.O_NOFOLLOW // refuses a link as the last element, with syscall.ELOOP
	Nonblock = unix.O_NONBLOCK // doesn't wait for the other end of a FIFO
)

func (m Mode) flag() int {
	if m == Exclusive {
		return unix.LOCK_EX
	}
	return unix.LOCK_SH
}

func tryLock(f *os.File, how Mode) (bool, error) {
	switch err := flock(f.Fd(), how.flag()|unix.LOCK_NB); err {
	case nil:
		return true, nil
	case unix.EWOULDBLOCK:
		return false, nil
	default:
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}

func flock(fd uintptr, how int) error {
	for {
		if err := unix.Flock(int(fd), how); err != unix.EINTR {
			return err
		}
	}
}

// wait sleeps in the system until file is locked or ctx has ended. The sleep can't be interrupted, so it uses a
// duplicate of the descriptor: both refer to one open file and so to one lock. A caller that gives up leaves the
// sleeper behind, which releases the lock as soon as it gets it.
func wait(ctx context.Context, file *os.File, how Mode) error {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "lock", Path: file.Name(), Err: err}
	}
	slept := make(chan error) // unbuffered: the receiver of a value owns the lock
	go func() {
		err := flock(uintptr(fd), how.flag())
		select {
		case slept <- err:
		case <-ctx.Done():
			flock(uintptr(fd), unix.LOCK_UN)
		}
		unix.Close(fd)
	}()
	select {
	case err = <-slept:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err != nil {
		return &os.PathError{Op: "lock", Path: file.Name(), Err: err}
	}
	return nil
}

func syncNames(open func(string) (*os.File, error), path string) error {
	d, err := open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
