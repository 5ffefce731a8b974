package stage

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// A launch is the prepared sequence of system calls between the fork and the program. The restrictions must bind the
// program from its first instruction and never the stage, so they can be set neither before the fork nor later.
type launch struct {
	path       *byte
	argv, envv []*byte
	dir        *byte // nil: the current one
	stdin      int   // -1: that of the stage, which is empty
	stdout     int
	stderr     int
	program    int   // an open file to execute; -1: path
	cgroups    []int // open lists of processes
	limits     []Rlimit
	powerless  bool // drop all capabilities
	restrict   bool // no new privileges, ruleset and filter
	ruleset    int
	filter     program

	calls  []call
	report int       // the pipe for an error; the start of the program closes it
	failed [2]uint32 // the index of the call, and errno

	// Data that the calls point to.
	zero   [4]uint64 // a signal's default action, an empty set of signals
	digit  [2]byte   // "0", followed by an empty string
	header capabilities
	none   [6]uint32 // capabilities: effective, permitted and inheritable of two sets
}

// A program is a filter as seccomp takes it.
type program struct {
	count uint16
	code  *byte
}

// A capabilities is the header of capget and capset.
type capabilities struct {
	version uint32
	pid     int32
}

// mayDrop reports whether this process may shrink its bounding set of capabilities.
func mayDrop() bool {
	header, data := capabilities{version: capabilityVersion3}, [6]uint32{}
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&header)),
		uintptr(unsafe.Pointer(&data)), 0)
	return errno == 0 && data[0]&(1<<capSetpcap) != 0
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

// list fills calls.
func (l *launch) list() {
	add := func(step string, check int, number uintptr, args ...uintptr) {
		c := call{step: step, number: number, check: check}
		copy(c.args[:], args)
		l.calls = append(l.calls, c)
	}
	at := func(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }
	zero := uintptr(unsafe.Pointer(&l.zero))
	l.digit[0] = '0'
	l.header.version = capabilityVersion3

	for signal := range uintptr(64) {
		add("", anything, syscall.SYS_RT_SIGACTION, signal+1, zero, 0, 8)
	}
	add("", anything, syscall.SYS_UMASK, 0o022)
	add("make a session", noError, syscall.SYS_SETSID)
	for to, fd := range []int{l.stdin, l.stdout, l.stderr} {
		if fd >= 0 {
			add("pass standard files", noError, syscall.SYS_DUP3, uintptr(fd), uintptr(to), 0)
		}
	}
	for _, fd := range l.cgroups {
		add("join a control group", noError, syscall.SYS_WRITE, uintptr(fd), at(&l.digit[0]), 1)
	}
	add("follow this process to its end", noError, syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG,
		uintptr(syscall.SIGKILL))
	add("follow this process to its end", exactly, syscall.SYS_GETPPID)
	l.calls[len(l.calls)-1].want = uintptr(os.Getpid())
	if l.dir != nil {
		add("enter the directory", noError, syscall.SYS_CHDIR, at(l.dir))
	}
	for i := range l.limits {
		add("limit resources", noError, syscall.SYS_PRLIMIT64, 0, uintptr(l.limits[i].Resource),
			uintptr(unsafe.Pointer(&l.limits[i].Most)))
	}
	if l.restrict {
		add("give up new privileges", noError, syscall.SYS_PRCTL, prSetNoNewPrivs, 1)
	}
	if l.powerless {
		const step = "give up capabilities"
		// Where this process may not shrink the bounding set, as root in many containers, no_new_privs has the same
		// effect.
		for c, may := uintptr(0), mayDrop(); may; c++ {
			if prctl(prCapbsetRead, c) != nil {
				break // that was the last one
			}
			add(step, noError, syscall.SYS_PRCTL, prCapbsetDrop, c)
		}
		add(step, noError, syscall.SYS_PRCTL, prCapAmbient, prCapAmbientClearAll)
		add(step, noError, syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&l.header)), uintptr(unsafe.Pointer(&l.none)))
	}
	if l.restrict {
		add("enter landlock", noError, sysLandlockRestrictSelf, uintptr(l.ruleset))
		add("enter seccomp", noError, sysSeccomp, seccompFilter, 0, uintptr(unsafe.Pointer(&l.filter)))
	}
	add("", anything, syscall.SYS_RT_SIGPROCMASK, sigSetmask, zero, 0, 8)
	argv, envv := uintptr(unsafe.Pointer(&l.argv[0])), uintptr(unsafe.Pointer(&l.envv[0]))
	if l.program >= 0 {
		add("execute", noError, sysExecveat, uintptr(l.program), at(&l.digit[1]), argv, envv, atEmptyPath)
	} else {
		add("execute", noError, syscall.SYS_EXECVE, at(l.path), argv, envv)
	}
}

// run forks, and returns when the program runs or has failed to start. The caller must have locked its thread; the
// kernel kills the program when that thread ends.
func (l *launch) run() (pid int, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer read.Close()
	l.report = int(write.Fd())
	l.list()

	// No signal handler of Go may run in the child, since it would enter Go's scheduler.
	var all, before uint64
	all = ^all
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetmask, uintptr(unsafe.Pointer(&all)),
		uintptr(unsafe.Pointer(&before)), 8, 0, 0)
	child, errno := l.fork()
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetmask, uintptr(unsafe.Pointer(&before)), 0, 8, 0, 0)
	runtime.KeepAlive(l)
	write.Close()
	if errno != 0 {
		return 0, os.NewSyscallError("fork", errno)
	}
	var failed [8]byte
	if n, _ := read.Read(failed[:]); n == len(failed) {
		_, _ = syscall.Wait4(int(child), nil, 0, nil)
		f := *(*[2]uint32)(unsafe.Pointer(&failed))
		return 0, os.NewSyscallError(l.calls[f[0]].step, syscall.Errno(f[1]))
	}
	return int(child), nil
}

// fork returns only in the parent. The child is one thread of a runtime that had several: it takes no lock, allocates
// nothing, grows no stack, and only makes the calls in the list.
//
//go:norace
//go:nosplit
//go:noinline
//go:nocheckptr
func (l *launch) fork() (pid uintptr, errno syscall.Errno) {
	var i int
	var call *call
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	for i = 0; i < len(l.calls); i++ {
		call = &l.calls[i]
		pid, _, errno = syscall.RawSyscall6(call.number, call.args[0], call.args[1], call.args[2], call.args[3],
			call.args[4], call.args[5])
		if call.check == exactly && pid != call.want {
			errno = syscall.ESRCH
		}
		if call.check != anything && errno != 0 {
			break
		}
	}
	l.failed[0], l.failed[1] = uint32(i), uint32(errno)
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(l.report), uintptr(unsafe.Pointer(&l.failed)), 8)
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 253, 0, 0)
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
