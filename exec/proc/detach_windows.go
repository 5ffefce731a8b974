package proc

import "syscall"

// The flags of CreateProcess that take a process off its console and its console's group.
const (
	detachedProcess = 0x00000008
	newProcessGroup = 0x00000200
)

func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{HideWindow: true, CreationFlags: detachedProcess | newProcessGroup}
}
