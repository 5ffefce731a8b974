package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// drop asks the system to forget what it has in memory of a file.
func drop(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
