package sandbox

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A launch is what happens between a fork and the program, prepared. Restrictions must bind the program from its first
// instruction and never the stage, so they can be set neither before the fork nor later.
type launch struct {
	path       *byte
	argv, envv []*byte
	dir        *byte // nil: the current one
	program    int   // an open file to execute; -1: path
	cgroups    []int // open lists of processes
	limits     []limit
	powerless  bool // drop all capabilities
	restrict   bool // no new privileges, ruleset and filter
	ruleset    int
	filter     unix.SockFprog

	calls  []call
	report int       // the pipe for an error; the start of the program closes it
	failed [2]uint32 // the index of the call, and errno

	// What the calls point to.
	zero   [4]uint64 // a signal's default action, an empty set of signals
	digit  [2]byte   // "0", and behind it the empty string
	header unix.CapUserHeader
	none   [2]unix.CapUserData
}

type limit struct {
	resource int
	unix.Rlimit
}

// A call is a system call.
type call struct {
	step   string
	number uintptr
	args   [6]uintptr
	want   uintptr // the result, if check is exactly
	check  int
}

const (
	noError = iota
	anything
	exactly
)

// list makes the list of calls between the fork and the program.
func (l *launch) list() {
	add := func(step string, check int, number uintptr, args ...uintptr) {
		c := call{step: step, number: number, check: check}
		copy(c.args[:], args)
		l.calls = append(l.calls, c)
	}
	at := func(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }
	zero := uintptr(unsafe.Pointer(&l.zero))
	l.digit[0] = '0'
	l.header.Version = unix.LINUX_CAPABILITY_VERSION_3

	for signal := range uintptr(64) {
		add("", anything, unix.SYS_RT_SIGACTION, signal+1, zero, 0, 8)
	}
	add("", anything, unix.SYS_UMASK, 0o022)
	add("make a session", noError, unix.SYS_SETSID)
	for _, fd := range l.cgroups {
		add("join a control group", noError, unix.SYS_WRITE, uintptr(fd), at(&l.digit[0]), 1)
	}
	add("follow this process to its end", noError, unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	add("follow this process to its end", exactly, unix.SYS_GETPPID)
	l.calls[len(l.calls)-1].want = uintptr(os.Getpid())
	if l.dir != nil {
		add("enter the directory", noError, unix.SYS_CHDIR, at(l.dir))
	}
	for i := range l.limits {
		add("limit resources", noError, unix.SYS_PRLIMIT64, 0, uintptr(l.limits[i].resource), uintptr(unsafe.Pointer(&l.limits[i].Rlimit)))
	}
	if l.restrict {
		add("give up new privileges", noError, unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	}
	if l.powerless {
		const step = "give up capabilities"
		// Where this process may not shrink the bounding set, as root in many containers, no_new_privs has the same effect.
		for c := uintptr(0); hasCapabilities(unix.CAP_SETPCAP); c++ {
			if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err != nil {
				break // that was the last one
			}
			add(step, noError, unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c)
		}
		add(step, noError, unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
		add(step, noError, unix.SYS_CAPSET, uintptr(unsafe.Pointer(&l.header)), uintptr(unsafe.Pointer(&l.none)))
	}
	if l.restrict {
		add("enter landlock", noError, unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(l.ruleset))
		add("enter seccomp", noError, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&l.filter)))
	}
	add("", anything, unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, zero, 0, 8)
	argv, envv := uintptr(unsafe.Pointer(&l.argv[0])), uintptr(unsafe.Pointer(&l.envv[0]))
	if l.program >= 0 {
		add("execute", noError, unix.SYS_EXECVEAT, uintptr(l.program), at(&l.digit[1]), argv, envv, unix.AT_EMPTY_PATH)
	} else {
		add("execute", noError, unix.SYS_EXECVE, at(l.path), argv, envv)
	}
}

// run forks, and returns when the program runs or has failed to. It must be called on a locked thread; the program is killed
// when that thread ends.
func (l *launch) run() (pid int, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer read.Close()
	l.report = int(write.Fd())
	l.list()

	// No signal handler of Go may run in the child, and nothing may enter its scheduler.
	var all, before uint64
	all = ^all
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&before)), 8, 0, 0)
	child, errno := l.fork()
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&before)), 0, 8, 0, 0)
	runtime.KeepAlive(l)
	write.Close()
	if errno != 0 {
		return 0, os.NewSyscallError("fork", errno)
	}
	var failed [8]byte
	if n, _ := read.Read(failed[:]); n == len(failed) {
		_, _ = unix.Wait4(int(child), nil, 0, nil)
		f := *(*[2]uint32)(unsafe.Pointer(&failed))
		return 0, os.NewSyscallError(l.calls[f[0]].step, unix.Errno(f[1]))
	}
	return int(child), nil
}

// fork returns only in the parent. The child is one thread of a runtime that had several: it takes no lock, allocates nothing,
// grows no stack, and only makes the calls of the list.
//
//go:norace
//go:nosplit
//go:noinline
//go:nocheckptr
func (l *launch) fork() (pid uintptr, errno unix.Errno) {
	var i int
	var c *call
	pid, _, errno = unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	for i = 0; i < len(l.calls); i++ {
		c = &l.calls[i]
		pid, _, errno = unix.RawSyscall6(c.number, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		if c.check == exactly && pid != c.want {
			errno = unix.ESRCH
		}
		if c.check != anything && errno != 0 {
			break
		}
	}
	l.failed[0], l.failed[1] = uint32(i), uint32(errno)
	unix.RawSyscall(unix.SYS_WRITE, uintptr(l.report), uintptr(unsafe.Pointer(&l.failed)), 8)
	for {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

// texts returns strings as execve takes them.
func texts(list [][]byte) []*byte {
	pointers := make([]*byte, 0, len(list)+1)
	for _, s := range list {
		pointers = append(pointers, text(s))
	}
	return append(pointers, nil)
}

func text(s []byte) *byte { return &append(s[:len(s):len(s)], 0)[0] }
