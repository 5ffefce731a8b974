package osfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// hasBarrier reports whether syncSystem makes every earlier write to a file system durable.
const hasBarrier = true

// syncSystem waits until the file system of a directory has written everything to disk.
func syncSystem(r *os.Root) error {
	d, err := r.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		if err = unix.Syncfs(int(d.Fd())); err != unix.EINTR {
			return os.NewSyscallError("syncfs", err)
		}
	}
}
