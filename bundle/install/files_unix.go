//go:build unix

package install

import (
	"os"

	"golang.org/x/sys/unix"
)

// nonblock keeps opening from waiting for whoever writes to a FIFO.
const nonblock = unix.O_NONBLOCK

// tryLock locks an open file for this process alone, without waiting.
func tryLock(f *os.File) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
			return true, nil
		case unix.EWOULDBLOCK:
			return false, nil
		case unix.EINTR:
		default:
			return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}
