package proc

import "syscall"

// CreateProcess flags that detach a process from its console and the console's group.
const (
	detachedProcess = 0x00000008
	newProcessGroup = 0x00000200
)

func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{HideWindow: true, CreationFlags: detachedProcess | newProcessGroup}
}
