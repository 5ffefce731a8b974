package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

func foreign(*assembler) {}

var deniedHere, changersHere []uint32

var modesHere []mode
