//go:build unix

package osfile

import (
	"os"
	"syscall"
)

// Identity returns the device and inode of a file, which identify it under every name.
func Identity(path string) (device, inode uint64, err error) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		device, inode = uint64(st.Dev), uint64(st.Ino) //nolint:unconvert // their types differ between systems
	}
	return device, inode, nil
}
