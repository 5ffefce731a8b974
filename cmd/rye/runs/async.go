package runs

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/nested"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/toolcall"
)

// This file runs a thread in another process. detach starts the process with --async; detached is what runs there.

// detach starts the thread in another process and returns when that process has begun it.
func (c *runRun) detach(ctx context.Context, app *cli.App, opened *Opened, ref model.Ref) (cli.Answer, error) {
	for flag, isSet := range map[string]bool{"--write": c.Write, "--allow-sign": c.AllowSign} {
		if isSet {
			return nil, fault.New(fault.Validation,
				"--async and %s can't be combined: a thread in the background can't ask you", flag)
		}
	}
	job := &toolcall.Job{Thread: roster.NewID(ref.ID, app.Now())}
	pairs := slices.Concat(c.Input, c.Param)
	if c.Inputs == "-" || slices.ContainsFunc(pairs, func(p string) bool { return strings.HasSuffix(p, "=@-") }) {
		text, err := io.ReadAll(cli.Cancellable(ctx, app.Stdin))
		if err != nil {
			return nil, err
		}
		job.Stdin = string(text)
	}
	args := []string{}
	for flag, values := range map[string][]string{"-i": pairs, "--limit": c.Limit, "--allow": c.Allow} {
		for _, v := range values {
			args = append(args, flag, v)
		}
	}
	for flag, value := range map[string]string{"--inputs": c.Inputs, "--model": c.Model,
		"--events": map[bool]string{true: "true"}[c.Events]} {
		if value != "" {
			args = append(args, flag+"="+value)
		}
	}
	for flag, isSet := range map[string]bool{"--no-wait": c.NoWait, "--yes": app.Globals.Yes} {
		if isSet {
			args = append(args, flag)
		}
	}
	args = append(args, modeFlags(session.Mode{Pinned: c.Pinned, Unlocked: c.Unlocked, Locked: c.Locked ||
		c.Frozen})...)
	command, err := detachedCommand(app, ref, args)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(opened.Threads(), filepath.FromSlash(job.Thread))
	word, err := toolcall.StartDetached(ctx, command, dir, job)
	if err != nil {
		return nil, err
	}
	r := thread.Result{Success: true, Thread: word.Thread, Status: string(roster.Running), Directive: ref.ID}
	return runAnswer{Result: r, Process: word.Process, Log: filepath.Join(dir, toolcall.LogFile)}, nil
}

// modeFlags returns the flags that select a mode.
func modeFlags(m session.Mode) (flags []string) {
	for i, isSet := range []bool{m.Pinned, m.Unlocked, m.Locked} {
		if isSet {
			flags = append(flags, []string{"--pinned", "--unlocked", "--locked"}[i])
		}
	}
	return flags
}

// detachedCommand returns the command that runs this program for a detached thread, with the same places and flags.
func detachedCommand(app *cli.App, ref model.Ref, args []string) (command proc.Command, err error) {
	g := app.Globals
	all := []string{"run", "--detached"}
	for i, isSet := range []bool{g.Offline, g.PlainHTTP, g.Debug} {
		if isSet {
			all = append(all, []string{"--offline", "--plain-http", "--debug"}[i])
		}
	}
	for flag, path := range map[string]string{"--store": g.Store, "--trust": g.Trust} {
		if path == "" {
			continue
		}
		at := app.Absolute(cli.Setting{Value: path, Origin: flag})
		if at.Err != nil {
			return command, at.Err
		}
		all = append(all, flag+"="+at.Value)
	}
	wd, err := app.Getwd()
	if err != nil {
		return command, err
	}
	all = append(append(all, args...), "--", ref.String())
	return proc.Command{Path: paths.Session(app).Self, Args: all, Env: app.Environ, Dir: wd}, nil
}

// A detachedRun is the job of a process that detach has started. out is read by the process that started this one.
type detachedRun struct {
	job      *toolcall.Job
	out      io.WriteCloser
	reported bool // the thread or an error was reported on out
}

// detached runs the job that standard input describes.
func (c *runRun) detached(ctx context.Context, app *cli.App) (cli.Answer, error) {
	job, err := toolcall.ReceiveJob(app.Stdin)
	if err != nil {
		return nil, err
	}
	if job.Child == nil {
		if err := nested.Denied("run", nested.Thread(app.Env)); err != nil {
			return nil, err
		}
	}
	out, ok := app.Host.Stdout.Writer.(io.WriteCloser)
	if !ok {
		return nil, fault.New(fault.Unknown, "standard output can't be closed")
	}
	d := &detachedRun{job: job, out: out}
	app.Stdin = strings.NewReader(job.Stdin)
	app.Args = slices.DeleteFunc(slices.Clone(app.Args), func(arg string) bool { return arg == "--detached" })
	ans, err := c.run(ctx, app, d)
	if err != nil && !d.reported {
		o := fault.Of(err).Object()
		d.reported = true
		_ = toolcall.Tell(out, &toolcall.Word{Error: &o})
	}
	if r, ok := ans.(runAnswer); ok {
		app.Term.Note("%s", strings.TrimSpace(r.Status+"\n"+r.Result.Result))
	}
	return nil, err
}

// inherit switches to a session under the lock of the child's parent, which may differ from the project's lock.
func (d *detachedRun) inherit(ctx context.Context, s *Opened) error {
	if d == nil || d.job.Child == nil {
		return nil
	}
	in, err := thread.SessionOf(ctx, s.Session, filepath.Join(s.Threads(), filepath.FromSlash(d.job.Child.Parent)))
	if err == nil && in != s.Session {
		s.also = append(s.also, s.Session)
		s.Session = in
	}
	return err
}

// start prepares start for the job and reports on out when the thread has begun.
func (d *detachedRun) start(ctx context.Context, in *session.Session, start *thread.Start,
	now time.Time) (_ context.Context, err error) {
	if c := d.job.Child; c != nil {
		k, err := in.Kernel()
		if err != nil {
			return nil, err
		}
		var inputs map[string]any
		if start.Above, inputs, err = d.job.Take(k.Machine.Public(), start.Directive, in.Set(), now); err != nil {
			return nil, err
		}
		start.Inputs, start.Model, start.Limits = params.Values(inputs), c.Model, c.Limits
	}
	own, err := in.Own(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	start.ID = d.job.Thread
	start.Began = func(l limits.Set) error {
		toolcall.Bound(ctx, cancel, own.Memory, own.Processes, l.Duration)
		d.reported = true
		// ignore an error: the thread runs even if its starter has ended
		_ = toolcall.Tell(d.out, &toolcall.Word{Thread: start.ID, Process: os.Getpid()})
		return nil
	}
	return ctx, nil
}
