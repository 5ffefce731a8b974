//go:build !unix

package proc

import (
	"errors"
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// KeepFiles does nothing: on this system programs inherit only the files passed to them.
func KeepFiles() {}

func byDescriptor(*os.File) (string, func(), error) { return "", nil, errors.ErrUnsupported }

// A tree is only the process itself: its descendants are unknown on this system.
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
