//go:build !unix

package proc

import (
	"errors"
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// KeepFiles has nothing to do here: a program gets the files that it is given.
func KeepFiles() {}

func byDescriptor(*os.File) (string, func(), error) { return "", nil, errors.ErrUnsupported }

// A tree is a process; what it started isn't known here.
type tree struct{ *os.Process }

func (t *tree) wait(reap func() error, over func()) error {
	err := reap()
	over()
	return err
}

func (t *tree) kill() { _ = t.Kill() }

func exitOf(s *os.ProcessState) *Exit {
	return &Exit{Code: s.ExitCode(), CPU: s.UserTime() + s.SystemTime()}
}
