package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// KeepFiles sees to it that no file from 3 on gets to a program. Go opens its own so; this is about those that were
// inherited.
func KeepFiles() {
	if unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	names, _ := os.ReadDir("/proc/self/fd") // a kernel before 5.11
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

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
func Below(pid int) []int {
	var list []int
	for at := -1; at < len(list); at++ {
		if at >= 0 {
			pid = list[at]
		}
		tasks := fmt.Sprintf("/proc/%d/task", pid)
		names, _ := os.ReadDir(tasks)
		for _, n := range names {
			kids, _ := os.ReadFile(tasks + "/" + n.Name() + "/children")
			for _, kid := range strings.Fields(string(kids)) {
				if k, err := strconv.Atoi(kid); err == nil {
					list = append(list, k)
				}
			}
		}
	}
	return list
}

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
