package seccomp

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The return values of a filter.
const (
	allow = unix.SECCOMP_RET_ALLOW
	kill  = unix.SECCOMP_RET_KILL_PROCESS
)

func fail(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// newNamespaces are the flags of clone that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// denied lists calls that no confined program needs: other processes' memory, mounts, namespaces, keys, the kernel's
// administration, and io_uring.
var denied = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_PROCESS_MADVISE,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_TREE_ATTR, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT, unix.SYS_LISTNS,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
	unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
	unix.SYS_LSM_SET_SELF_ATTR,
}

// changers lists calls that change the mode, owner or attributes of files that a program can't open for writing.
// Landlock doesn't control them, so they are denied unless read-only mounts protect those files.
var changers = []uint32{
	unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHMOD, unix.SYS_FCHOWNAT, unix.SYS_FCHOWN, unix.SYS_SETXATTR,
	unix.SYS_LSETXATTR,
	unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTRAT,
	unix.SYS_FILE_SETATTR,
}

// shared lists the IPC calls that reach other programs, unless the program has its own IPC namespace.
var shared = []uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV,
	unix.SYS_MSGCTL,
	unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
}

// A mode names the argument of a call that is a file's mode, and the argument with the flags on which the mode
// depends.
type mode struct{ call, mode, flags uint32 }

const noFlags = 99

var modes = []mode{
	{unix.SYS_FCHMOD, 1, noFlags}, {unix.SYS_FCHMODAT, 2, noFlags}, {unix.SYS_FCHMODAT2, 2, noFlags},
	{unix.SYS_MKNODAT, 2, noFlags},
	{unix.SYS_OPENAT, 3, 2},
}

const (
	// setID are the setuid and setgid bits. Executed outside the sandbox, a file with them would have all of the
	// user's rights.
	setID = 0o6000
	// makes are the flags that create a file: O_CREAT, and the bit of O_TMPFILE.
	makes = unix.O_CREAT | 0o20000000
)

// A Policy configures a filter.
type Policy struct {
	Inet     bool // stream sockets of IPv4 and IPv6
	Datagram bool // also datagram sockets
	Mounts   bool // read-only mounts protect the files that must not change
	Truncate bool // Landlock controls truncate
}

// Offsets into struct seccomp_data on little-endian machines.
const (
	atNumber = 0
	atArch   = 4
)

func atArg(n uint32) uint32 { return 16 + 8*n }

// An assembler writes classic BPF. A rule either returns or falls through to the next one.
type assembler struct{ code []unix.SockFilter }

func (a *assembler) load(at uint32) {
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at})
}

func (a *assembler) mask(bits uint32) {
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: bits})
}

func (a *assembler) ret(answer uint32) {
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: answer})
}

// when adds a comparison of the loaded word with k, and the code to run if it holds.
func (a *assembler) when(compare uint16, k uint32, then func()) {
	at := len(a.code)
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_JMP | compare | unix.BPF_K, K: k})
	then()
	a.code[at].Jf = uint8(len(a.code) - at - 1)
}

// unless adds the code to run if the loaded word isn't k.
func (a *assembler) unless(k uint32, then func()) {
	at := len(a.code)
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k})
	then()
	a.code[at].Jt = uint8(len(a.code) - at - 1)
}

// Filter assembles a filter. It compares 32 bits, because the kernel uses no more of the arguments that it checks.
func Filter(policy Policy) []unix.SockFilter {
	assembler := &assembler{}
	eperm, eacces, enosys := fail(unix.EPERM), fail(unix.EACCES), fail(unix.ENOSYS)
	assembler.load(atArch)
	assembler.unless(auditArch, func() { assembler.ret(kill) })
	assembler.load(atNumber)
	foreign(assembler)
	// A call newer than this list could do anything. Programs handle missing calls.
	assembler.when(unix.BPF_JGT, lastCall, func() { assembler.ret(enosys) })
	// The flags are behind a pointer. The C library falls back to clone.
	assembler.when(unix.BPF_JEQ, unix.SYS_CLONE3, func() { assembler.ret(enosys) })
	assembler.when(unix.BPF_JEQ, unix.SYS_CLONE, func() {
		assembler.load(atArg(0))
		assembler.when(unix.BPF_JSET, newNamespaces, func() { assembler.ret(eperm) })
		assembler.ret(allow)
	})
	assembler.when(unix.BPF_JEQ, unix.SYS_SOCKET, func() {
		if policy.Inet {
			assembler.load(atArg(1))
			assembler.mask(0xf)
			assembler.when(unix.BPF_JEQ, unix.SOCK_STREAM, func() { families(assembler) })
			if policy.Datagram {
				assembler.when(unix.BPF_JEQ, unix.SOCK_DGRAM, func() { families(assembler) })
			}
		}
		assembler.ret(eacces)
	})
	// A datagram socket of a pair can be reconnected to any path, so only streams are allowed.
	assembler.when(unix.BPF_JEQ, unix.SYS_SOCKETPAIR, func() {
		assembler.load(atArg(0))
		assembler.unless(unix.AF_UNIX, func() { assembler.ret(eacces) })
		assembler.load(atArg(1))
		assembler.mask(0xf)
		assembler.when(unix.BPF_JEQ, unix.SOCK_DGRAM, func() { assembler.ret(eacces) })
		assembler.when(unix.BPF_JEQ, unix.SOCK_RAW, func() { assembler.ret(eacces) })
		assembler.ret(allow)
	})
	// The first ones type into the terminal that started rye, or take it over.
	assembler.when(unix.BPF_JEQ, unix.SYS_IOCTL, func() {
		assembler.load(atArg(1))
		for _, c := range append([]uint32{unix.TIOCSTI, tioclinux, unix.TIOCSETD, unix.TIOCSCTTY}, namers...) {
			assembler.when(unix.BPF_JEQ, c, func() { assembler.ret(eperm) })
		}
		assembler.ret(allow)
	})
	for _, m := range slices.Concat(modes, modesHere) {
		assembler.when(unix.BPF_JEQ, m.call, func() {
			check := func() {
				assembler.load(atArg(m.mode))
				assembler.when(unix.BPF_JSET, setID, func() { assembler.ret(eperm) })
			}
			if m.flags == noFlags {
				check()
			} else {
				assembler.load(atArg(m.flags))
				assembler.when(unix.BPF_JSET, makes, check)
			}
			assembler.load(atNumber)
		})
	}
	// The mode is behind a pointer. Programs fall back to openat.
	assembler.when(unix.BPF_JEQ, unix.SYS_OPENAT2, func() { assembler.ret(enosys) })
	// A program that changed the limits of its second stage would outlive it.
	assembler.when(unix.BPF_JEQ, unix.SYS_PRLIMIT64, func() {
		assembler.load(atArg(0))
		assembler.unless(0, func() { assembler.ret(eperm) })
		assembler.ret(allow)
	})
	// Programs may query the personality, and set the default one.
	assembler.when(unix.BPF_JEQ, unix.SYS_PERSONALITY, func() {
		assembler.load(atArg(0))
		for _, as := range []uint32{0, 0xffffffff} {
			assembler.when(unix.BPF_JEQ, as, func() { assembler.ret(allow) })
		}
		assembler.ret(eperm)
	})
	calls := slices.Concat(denied, deniedHere)
	if !policy.Mounts {
		calls = slices.Concat(calls, changers, changersHere, shared)
		// Without a path it changes an open file.
		assembler.when(unix.BPF_JEQ, unix.SYS_UTIMENSAT, func() {
			assembler.load(atArg(1))
			assembler.unless(0, func() { assembler.ret(eperm) })
			assembler.load(atArg(1) + 4)
			assembler.unless(0, func() { assembler.ret(eperm) })
			assembler.ret(allow)
		})
	}
	if !policy.Truncate {
		calls = append(calls, unix.SYS_TRUNCATE)
	}
	for _, c := range calls {
		assembler.when(unix.BPF_JEQ, c, func() { assembler.ret(eperm) })
	}
	assembler.ret(allow)
	return assembler.code
}

// families allows internet sockets.
func families(a *assembler) {
	a.load(atArg(0))
	for _, f := range []uint32{unix.AF_INET, unix.AF_INET6} {
		a.when(unix.BPF_JEQ, f, func() { a.ret(allow) })
	}
	a.ret(fail(unix.EACCES))
}

// namers lists the ioctls with which a directory that is open for reading gets a name or loses one: subvolumes and
// snapshots of btrfs, reflinks of ocfs2. Landlock doesn't control them.
var namers = []uint32{0x50009401, 0x5000940e, 0x5000940f, 0x50009417, 0x50009418, 0x5000943f, 0x40186f04}

// tioclinux pastes into a console.
const tioclinux = 0x541c

// lastCall is the highest system call number that this package classifies.
const lastCall = unix.SYS_RSEQ_SLICE_YIELD

// Works returns an error if the kernel can't run such filters. It asks whether the kernel has the action kill.
func Works() error {
	const getActionAvail = 2
	answer := uint32(kill)
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, getActionAvail, 0, uintptr(unsafe.Pointer(&answer))); e != 0 {
		return e
	}
	return nil
}
