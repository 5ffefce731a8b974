package proc

import (
	"os"
	"os/exec"
)

// Detach starts a program that outlives this process: in a session of its own, which no terminal and no signal to ours
// reaches. It gets files as its standard streams, nil for none, and this process's environment unless it has its own.
// gone is called with how it ended, if this process is still there then.
func Detach(c Command, in, out, complaints *os.File, gone func(error)) (*os.Process, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: c.Env, Dir: c.Dir,
		SysProcAttr: detached()}
	// A nil *os.File is no nil io.Reader.
	if in != nil {
		cmd.Stdin = in
	}
	if out != nil {
		cmd.Stdout = out
	}
	if complaints != nil {
		cmd.Stderr = complaints
	}
	KeepFiles()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { gone(cmd.Wait()) }()
	return cmd.Process, nil
}
