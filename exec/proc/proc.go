package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// A Command is a program to start.
type Command struct {
	Path           string    // absolute
	Args           []string  // the arguments after the program's own name
	Env            []string  // NAME=VALUE; the whole environment
	Dir            string    // absolute; "" for the current directory
	Stdin          io.Reader // nil: empty
	Stdout, Stderr io.Writer // nil: discarded
	Program        *os.File  // the file to execute instead of the one at Path (Linux)

	// For rye's own programs.
	Extra   []*os.File                      // the files 3, 4, …
	Attr    func(*syscall.SysProcAttr)      // changes the attributes before the start
	Started func(process *os.Process) error // called once the program runs; an error kills it
}

// An Exit is the end of a program, and its usage, including that of the children it waited for.
type Exit struct {
	Code   int    // exit status; -1 after a signal
	Signal string // such as SIGKILL
	Wall   time.Duration
	CPU    time.Duration
	MaxRSS int64 // bytes
}

// BadArgument returns the error for an argument or variable that can't be passed to a program. what is such as
// "argument 3".
func BadArgument(what, reason string) error {
	return fault.New(fault.Validation, "%s %s", what, reason).On("argument", what)
}

// The limits of the systems: Linux takes 128 KiB for a string, and a quarter of the stack for all strings together.
const (
	MaxArgument = 128<<10 - 1
	MaxTotal    = 2<<20 - 64<<10
)

// lastOutput is how long Run waits for the end of the output after the program ended. Until then an escaped process
// may hold the pipe, or a process that was forked elsewhere and hasn't executed its program yet.
const lastOutput = 30 * time.Second

// Check returns an error if a part of the command can't be passed on.
func (c *Command) Check() error {
	total := 0
	one := func(s, format string, values ...any) error {
		reason := ""
		switch total += len(s) + 9; {
		case strings.IndexByte(s, 0) >= 0:
			reason = "contains a NUL byte"
		case len(s) > MaxArgument:
			reason = fmt.Sprintf("has %d bytes, more than the limit of %d", len(s), MaxArgument)
		case total > MaxTotal:
			reason = fmt.Sprintf("is too long: arguments and variables together exceed %d bytes", MaxTotal)
		default:
			return nil
		}
		return BadArgument(fmt.Sprintf(format, values...), reason)
	}
	if !filepath.IsAbs(c.Path) {
		return BadArgument(fmt.Sprintf("the program %q", c.Path), "is not an absolute path")
	}
	if c.Dir != "" && !filepath.IsAbs(c.Dir) {
		return BadArgument(fmt.Sprintf("the directory %q", c.Dir), "is not an absolute path")
	}
	if err := errors.Join(one(c.Path, "the program's path"), one(c.Dir, "the directory")); err != nil {
		return err
	}
	for i, a := range c.Args {
		if err := one(a, "argument %d", i+1); err != nil {
			return err
		}
	}
	for i, v := range c.Env {
		name, _, found := strings.Cut(v, "=")
		if !found || name == "" {
			return BadArgument(fmt.Sprintf("variable %d", i+1), "is not NAME=VALUE")
		}
		if err := one(v, "variable %.100q", name); err != nil {
			return err
		}
	}
	if c.Program == nil {
		return nil
	}
	var magic [2]byte
	if n, _ := c.Program.ReadAt(magic[:], 0); string(magic[:n]) == "#!" {
		return BadArgument(fmt.Sprintf("the program %q", c.Path), "is a script: start its interpreter")
	}
	return nil
}

// Run runs a program to its end. An exit status other than 0, or a signal, is no error. If the context ends first,
// Run returns the context's cause, and the Exit too.
func Run(ctx context.Context, command Command) (*Exit, error) {
	if err := command.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	cmd := &exec.Cmd{
		Path: command.Path, Args: append([]string{command.Path}, command.Args...), Env: command.Env, Dir: command.Dir,
		Stdin: command.Stdin, Stdout: command.Stdout, Stderr: command.Stderr, ExtraFiles: command.Extra,
		WaitDelay: lastOutput,
	}
	if cmd.Env == nil {
		cmd.Env = []string{} // os/exec takes nil for this process's environment
	}
	if command.Program != nil {
		path, done, err := byDescriptor(command.Program)
		if err != nil {
			return nil, err
		}
		defer done()
		cmd.Path = path
	}
	cmd.SysProcAttr = attributes()
	if command.Attr != nil {
		command.Attr(cmd.SysProcAttr)
	}
	// The kernel kills the program when the thread that started it ends, so the thread must last as long as the
	// program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	KeepFiles()
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	tree := &tree{cmd.Process}
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ctx.Done():
			tree.kill()
		case <-over:
		}
	}()
	var refused error
	if command.Started != nil {
		if refused = command.Started(cmd.Process); refused != nil {
			tree.kill()
		}
	}
	err := tree.wait(cmd.Wait, func() {
		close(over)
		<-watched
	})
	if cmd.ProcessState == nil {
		return nil, err
	}
	exit := exitOf(cmd.ProcessState)
	exit.Wall = time.Since(start)
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		err = nil
	}
	switch {
	case refused != nil:
		return exit, refused
	case ctx.Err() != nil:
		return exit, context.Cause(ctx)
	}
	return exit, err
}

// maxAnswer bounds the output that an Asker reads.
const maxAnswer = 1 << 20

// An Asker runs programs of the host and returns their output.
type Asker struct{}

// Run returns a program's output, at most 1 MiB. The error of a failed program contains the beginning of its standard
// error.
func (Asker) Run(ctx context.Context, path string, args, env []string) ([]byte, error) {
	out, complaint := &Head{Room: maxAnswer}, &Head{Room: 500}
	exit, err := Run(ctx, Command{Path: path, Args: args, Env: env, Dir: filepath.Dir(path), Stdout: out,
		Stderr: complaint})
	switch {
	case err != nil:
		return nil, err
	case out.More:
		return nil, fmt.Errorf("%s prints more than %d bytes", path, maxAnswer)
	case exit.Signal != "":
		return nil, fmt.Errorf("%s was ended by %s", path, exit.Signal)
	case exit.Code != 0:
		return nil, fmt.Errorf("%s exits with status %d: %q", path, exit.Code, strings.TrimSpace(complaint.String()))
	}
	return out.kept, nil
}

// A Head records the beginning of its input.
type Head struct {
	Room int  // bytes to record
	More bool // the input was longer
	kept []byte
}

// Write implements io.Writer.
func (h *Head) Write(p []byte) (int, error) {
	keep := min(len(p), h.Room-len(h.kept))
	h.kept = append(h.kept, p[:keep]...)
	h.More = h.More || keep < len(p)
	return len(p), nil
}

// String returns the recorded bytes.
func (h *Head) String() string { return string(h.kept) }
