//go:build unix && !linux

package proc

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// KeepFiles keeps every file from 3 on out of programs.
func KeepFiles() {
	names, _ := os.ReadDir("/dev/fd")
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

func byDescriptor(*os.File) (string, func(), error) { return "", nil, errors.ErrUnsupported }

// A tree is a process and its process group.
type tree struct{ *os.Process }

// wait waits for the process and its output, calls over, and kills the remaining group.
func (t *tree) wait(reap func() error, over func()) error {
	err := reap()
	over()
	t.kill()
	return err
}

func (t *tree) kill() { _ = unix.Kill(-t.Pid, unix.SIGKILL) }

func exitOf(s *os.ProcessState) *Exit {
	e := &Exit{Code: s.ExitCode(), CPU: s.UserTime() + s.SystemTime()}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		e.Signal = unix.SignalName(w.Signal())
	}
	return e
}
