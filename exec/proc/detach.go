package proc

import (
	"os"
	"os/exec"
)

// Detach starts a program that outlives this process: in a session of its own, out of reach of the terminal and of
// signals to this process. It gets files as its standard streams, nil for none, and this process's environment unless
// Env is set. Detach calls gone with the program's end, if this process still exists then.
func Detach(c Command, in, out, complaints *os.File, gone func(error)) (*os.Process, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: c.Env, Dir: c.Dir,
		SysProcAttr: detached()}
	// A nil *os.File would be a non-nil io.Reader.
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
