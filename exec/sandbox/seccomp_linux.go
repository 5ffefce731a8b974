package sandbox

import (
	"slices"

	"golang.org/x/sys/unix"
)

// What the rules of a filter answer.
const (
	allow = unix.SECCOMP_RET_ALLOW
	kill  = unix.SECCOMP_RET_KILL_PROCESS
)

func fail(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// newSpaces are the flags of clone that make namespaces.
const newSpaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// denied are calls that no program needs that should stay where it is put: other processes' memory, mounts and
// namespaces, keys, the kernel's own doors, and io_uring, which makes calls that no filter sees.
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

// changers change what a path or an open file is, though it can't be opened for writing. Landlock doesn't see them; where
// nothing is mounted read-only they are refused.
var changers = []uint32{
	unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHMOD, unix.SYS_FCHOWNAT, unix.SYS_FCHOWN, unix.SYS_SETXATTR, unix.SYS_LSETXATTR,
	unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTRAT,
	unix.SYS_FILE_SETATTR,
}

// shared are means to leave something for others, or to reach what they have, that only a namespace keeps apart.
var shared = []uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
	unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
}

// A mode is where a call has the mode of a file that it makes or changes, and its flags if the mode counts with some
// of them alone.
type mode struct{ call, mode, flags uint32 }

const noFlags = 99

var modes = []mode{
	{unix.SYS_FCHMOD, 1, noFlags}, {unix.SYS_FCHMODAT, 2, noFlags}, {unix.SYS_FCHMODAT2, 2, noFlags}, {unix.SYS_MKNODAT, 2, noFlags},
	{unix.SYS_OPENAT, 3, 2},
}

const (
	// setID are the bits that give a program the rights of its file's owner: outside of the sandbox those of
	// the user are more than the ones that the file was made with.
	setID = 0o6000
	// makes are the flags with which opening makes a file; the second is that of files without a name.
	makes = unix.O_CREAT | 0o20000000
)

// A policy is what a filter depends on.
type policy struct {
	inet     bool // IPv4 and IPv6: streams
	datagram bool // and datagrams
	mounts   bool // what isn't to be changed is mounted read-only
	truncate bool // Landlock sees truncate
}

// Offsets into struct seccomp_data, on machines with the low half first.
const (
	atNumber = 0
	atArch   = 4
)

func atArg(n uint32) uint32 { return 16 + 8*n }

// An assembler writes programs of the classic BPF. A rule ends in a return, or goes on behind itself.
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

// when runs then if the loaded word compares so with k.
func (a *assembler) when(compare uint16, k uint32, then func()) {
	at := len(a.code)
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_JMP | compare | unix.BPF_K, K: k})
	then()
	a.code[at].Jf = uint8(len(a.code) - at - 1)
}

// unless runs then if the loaded word isn't k.
func (a *assembler) unless(k uint32, then func()) {
	at := len(a.code)
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k})
	then()
	a.code[at].Jt = uint8(len(a.code) - at - 1)
}

// filter assembles a filter. Its comparisons see 32 bits: of the arguments that are looked at the kernel takes no more.
func filter(p policy) []unix.SockFilter {
	a := &assembler{}
	eperm, eacces, enosys := fail(unix.EPERM), fail(unix.EACCES), fail(unix.ENOSYS)
	a.load(atArch)
	a.unless(auditArch, func() { a.ret(kill) })
	a.load(atNumber)
	foreign(a)
	// A call that is newer than this list could do anything; programs ask for what they don't find.
	a.when(unix.BPF_JGT, lastCall, func() { a.ret(enosys) })
	// Its flags are behind a pointer. The C library takes clone instead.
	a.when(unix.BPF_JEQ, unix.SYS_CLONE3, func() { a.ret(enosys) })
	a.when(unix.BPF_JEQ, unix.SYS_CLONE, func() {
		a.load(atArg(0))
		a.when(unix.BPF_JSET, newSpaces, func() { a.ret(eperm) })
		a.ret(allow)
	})
	a.when(unix.BPF_JEQ, unix.SYS_SOCKET, func() {
		if p.inet {
			a.load(atArg(1))
			a.mask(0xf)
			a.when(unix.BPF_JEQ, unix.SOCK_STREAM, func() { families(a) })
			if p.datagram {
				a.when(unix.BPF_JEQ, unix.SOCK_DGRAM, func() { families(a) })
			}
		}
		a.ret(eacces)
	})
	// A pair of datagram sockets can be turned to any path: only those that stay a pair.
	a.when(unix.BPF_JEQ, unix.SYS_SOCKETPAIR, func() {
		a.load(atArg(0))
		a.unless(unix.AF_UNIX, func() { a.ret(eacces) })
		a.load(atArg(1))
		a.mask(0xf)
		a.when(unix.BPF_JEQ, unix.SOCK_DGRAM, func() { a.ret(eacces) })
		a.when(unix.BPF_JEQ, unix.SOCK_RAW, func() { a.ret(eacces) })
		a.ret(allow)
	})
	// Typing into the terminal that rye was started from, and the like.
	a.when(unix.BPF_JEQ, unix.SYS_IOCTL, func() {
		a.load(atArg(1))
		for _, c := range []uint32{unix.TIOCSTI, tioclinux, unix.TIOCSETD, unix.TIOCSCTTY} {
			a.when(unix.BPF_JEQ, c, func() { a.ret(eperm) })
		}
		a.ret(allow)
	})
	for _, m := range slices.Concat(modes, modesHere) {
		a.when(unix.BPF_JEQ, m.call, func() {
			check := func() {
				a.load(atArg(m.mode))
				a.when(unix.BPF_JSET, setID, func() { a.ret(eperm) })
			}
			if m.flags == noFlags {
				check()
			} else {
				a.load(atArg(m.flags))
				a.when(unix.BPF_JSET, makes, check)
			}
			a.load(atNumber)
		})
	}
	// Its mode is behind a pointer. Programs take openat instead.
	a.when(unix.BPF_JEQ, unix.SYS_OPENAT2, func() { a.ret(enosys) })
	// The limits of other processes: a program that raised those of this stage would outlive it.
	a.when(unix.BPF_JEQ, unix.SYS_PRLIMIT64, func() {
		a.load(atArg(0))
		a.unless(0, func() { a.ret(eperm) })
		a.ret(allow)
	})
	// Asking is allowed, and to be as one is.
	a.when(unix.BPF_JEQ, unix.SYS_PERSONALITY, func() {
		a.load(atArg(0))
		for _, as := range []uint32{0, 0xffffffff} {
			a.when(unix.BPF_JEQ, as, func() { a.ret(allow) })
		}
		a.ret(eperm)
	})
	calls := slices.Concat(denied, deniedHere)
	if !p.mounts {
		calls = slices.Concat(calls, changers, changersHere, shared)
		// With no path it is about an open file.
		a.when(unix.BPF_JEQ, unix.SYS_UTIMENSAT, func() {
			a.load(atArg(1))
			a.unless(0, func() { a.ret(eperm) })
			a.load(atArg(1) + 4)
			a.unless(0, func() { a.ret(eperm) })
			a.ret(allow)
		})
	}
	if !p.truncate {
		calls = append(calls, unix.SYS_TRUNCATE)
	}
	for _, c := range calls {
		a.when(unix.BPF_JEQ, c, func() { a.ret(eperm) })
	}
	a.ret(allow)
	return a.code
}

// families lets those of the internet through.
func families(a *assembler) {
	a.load(atArg(0))
	for _, f := range []uint32{unix.AF_INET, unix.AF_INET6} {
		a.when(unix.BPF_JEQ, f, func() { a.ret(allow) })
	}
	a.ret(fail(unix.EACCES))
}

// tioclinux pastes into a console.
const tioclinux = 0x541c

// lastCall is the highest number that this list knows.
const lastCall = unix.SYS_RSEQ_SLICE_YIELD
