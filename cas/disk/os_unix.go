//go:build unix

package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps n bytes of f from off, a multiple of the page size. They stay valid when f is closed.
func mapFile(f *os.File, off int64, n int) ([]byte, func(), error) {
	if n == 0 {
		return nil, func() {}, nil
	}
	b, err := unix.Mmap(int(f.Fd()), off, n, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return b, func() { unix.Munmap(b) }, nil
}
