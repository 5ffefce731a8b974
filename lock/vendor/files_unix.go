//go:build unix

package vendor

import "syscall"

// nonblock keeps opening from waiting for whoever writes to a FIFO.
const nonblock = syscall.O_NONBLOCK
