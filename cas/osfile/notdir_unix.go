//go:build unix

package osfile

import (
	"syscall"
)

// NotDirectory is the system's error for a file in the place of a directory.
const NotDirectory = syscall.ENOTDIR
