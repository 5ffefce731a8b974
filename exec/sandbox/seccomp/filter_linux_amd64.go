package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// foreign kills programs that use x32, which has other numbers for the same calls.
func foreign(a *assembler) {
	a.when(unix.BPF_JGE, 0x40000000, func() { a.ret(kill) })
}

var deniedHere = []uint32{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS__SYSCTL,
	unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
}

var changersHere = []uint32{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES,
	unix.SYS_FUTIMESAT}

var modesHere = []mode{
	{unix.SYS_CHMOD, 1, noFlags}, {unix.SYS_CREAT, 1, noFlags}, {unix.SYS_MKNOD, 1, noFlags}, {unix.SYS_OPEN, 2, 1},
}
