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

// KeepFiles keeps every file from 3 on out of programs. Go already opens its files that way; this covers inherited
// ones.
func KeepFiles() { stage.KeepFiles() }

// byDescriptor returns a path to an open file that is valid here and in the child.
func byDescriptor(f *os.File) (string, func(), error) {
	// The lower numbers are for the child's own files.
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 64)
	if err != nil {
		return "", nil, &os.PathError{Op: "dup", Path: f.Name(), Err: err}
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), func() { unix.Close(fd) }, nil
}

// A tree is a process and its descendants.
type tree struct{ *os.Process }

// wait waits for the process, calls over, kills the remaining tree, and reaps. Until it reaps, the system can't reuse
// the number of the process, which is also its group's.
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
	_ = unix.Kill(t.Pid, unix.SIGKILL) // it may not have created its session yet
	for _, pid := range below {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// Below lists the descendants of a process, parents first. Processes that start meanwhile may be missing.
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

// SignalName returns the name of a signal, such as SIGKILL.
func SignalName(number int) string {
	if name := unix.SignalName(syscall.Signal(number)); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(number)
}
