package osfile

import (
	"syscall"
)

// NotDirectory is what the system says of a file that stands where a directory is needed.
const NotDirectory = syscall.ENOTDIR
