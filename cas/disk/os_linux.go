package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes f's bytes and its length durable.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
