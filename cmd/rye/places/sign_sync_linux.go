package places

import (
	"os"

	"golang.org/x/sys/unix"
)

// HasBarrier says that syncSystem waits for everything that was written.
const HasBarrier = true

// SyncSystem waits until all that was written to the file system of a directory is on disk.
func SyncSystem(r *os.Root) error {
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
