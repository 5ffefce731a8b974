//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// away starts a command in a session of its own.
func away(c *exec.Cmd) error {
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c.Start()
}
