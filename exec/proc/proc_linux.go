package proc

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/sandbox/stage"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// KeepFiles sees to it that no file from 3 on gets to a program. Go opens its own so; this is about those that were
// inherited.
func KeepFiles() { stage.KeepFiles() }

// byDescriptor returns a path that is an open file, in the child as here.
func byDescriptor(f *os.File) (string, func(), error) {
	// Below stand what the child gets as its own.
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 64)
	if err != nil {
		return "", nil, &os.PathError{Op: "dup", Path: f.Name(), Err: err}
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), func() { unix.Close(fd) }, nil
}

// A tree is a process and what it started.
type tree struct{ *os.Process }

// wait waits for the process, calls over when it has ended, kills what is left, and reaps. Until then the system
// can't reuse the number of the process, which is also its group's.
func (t *tree) wait(reap func() error, over func()) error {
	for unix.Waitid(unix.P_PID, t.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	over()
	t.kill()
	return reap()
}

func (t *tree) kill() {
	below := Below(t.Pid)
	_ = unix.Kill(-t.Pid, unix.SIGKILL)
	_ = unix.Kill(t.Pid, unix.SIGKILL) // before it has made its session it is in no group of its own
	for _, pid := range below {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// Below lists the processes below one in the tree, parents first, as far as they hold still.
func Below(pid int) []int { return stage.Below(pid) }

func exitOf(s *os.ProcessState) *Exit {
	e := &Exit{Code: s.ExitCode(), CPU: s.UserTime() + s.SystemTime()}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		e.Signal = SignalName(int(w.Signal()))
	}
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		e.MaxRSS = u.Maxrss << 10
	}
	return e
}

// SignalName returns the name of a signal, as in SIGKILL.
func SignalName(number int) string {
	if name := unix.SignalName(syscall.Signal(number)); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(number)
}
