package mcp

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// unlimited is longer than any server lives.
const unlimited = math.MaxInt32 * time.Second

// A process is a server that rye started.
type process struct {
	*lines
	kill    context.CancelFunc
	errs    *tail
	held    func()
	over    chan struct{} // closed when nothing of it is left
	mu      sync.Mutex
	level   floor.Level
	means   []string
	outcome *sandbox.Ending // once it is over
	err     error           // it was not started
}

// command returns the command that starts the server.
func command(action *primitive.Action) (*proc.Command, error) {
	name, _ := action.Config["command"].(string)
	program, ok := action.Programs[name]
	if !ok {
		return nil, fmt.Errorf("the program %q was not looked for", name)
	}
	args, err := action.Args()
	if err != nil {
		return nil, err
	}
	dir, err := directory(action)
	if err != nil {
		return nil, err
	}
	vars, err := environment(action)
	if err != nil {
		return nil, err
	}
	c := &proc.Command{Path: program.Path, Program: program.File, Args: args, Dir: dir, Env: vars}
	return c, c.Check()
}

// start starts a server, which runs until it ends or is stopped.
func (c *Client) start(action *primitive.Action, command proc.Command, most int64, changed func()) (*process, error) {
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, out := io.Pipe()
	ctx, kill := context.WithCancel(context.Background())
	process := &process{lines: newLines(from, to, most, changed), kill: kill, errs: new(tail),
		over:  make(chan struct{}),
		level: action.Sandbox.Level, held: func() {}}
	if action.Hold != nil {
		process.held = action.Hold()
	}
	spec := action.Sandbox
	spec.Most, spec.Stays = true, true
	spec.Limits.Wall, spec.Limits.Output = unlimited, math.MaxInt64/2
	spec.Trying = process.trying
	command.Stdin, command.Stdout, command.Stderr = in, lenient{out}, process.errs
	go func() {
		process.outcome, process.err = c.Machine.Run(ctx, spec, command)
		in.Close()
		out.Close()
		process.held()
		kill()
		close(process.over)
	}()
	go func() {
		<-process.closed
		from.Close() // so that no writer waits for a reader
	}()
	return process, nil
}

// lenient ignores that no one reads a server's output any more. That is no error of the run, which is about to end.
type lenient struct{ *io.PipeWriter }

func (w lenient) Write(b []byte) (int, error) {
	_, _ = w.PipeWriter.Write(b)
	return len(b), nil
}

// trying records the means of enforcement.
func (p *process) trying(level floor.Level, means []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level, p.means = level, means
}

func (p *process) enforced() (floor.Level, []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.level, p.means
}

// stop ends the server, after a grace period in which it should end by itself because its input ended.
func (p *process) stop(grace time.Duration) {
	p.Close()
	if grace > 0 {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.over:
		case <-timer.C:
		}
	}
	p.kill()
	<-p.over
}

// broken implements peer.
func (p *process) broken() (why, ended string) {
	if e := p.reason(); e != nil {
		p.stop(0)
		if e.output {
			ended = "output"
		}
		return e.why, ended
	}
	if !p.ended.Load() {
		p.stop(0)
		return "", ""
	}
	p.stop(lastWord) // its own end explains more than rye's kill
	ending := p.outcome
	switch {
	case ending == nil:
		return p.err.Error(), ""
	case ending.Ended == "cancelled":
		why = "it closed its standard output"
	case ending.Ended != "":
		return "it was ended by its limit, " + ending.Ended, ending.Ended
	case ending.Exit.Signal != "":
		why = "it was ended by " + ending.Exit.Signal
	default:
		why = fmt.Sprintf("it ended with status %d", ending.Exit.Code)
	}
	if said := p.errs.String(); said != "" {
		why += ": " + said
	}
	return why, ""
}

// started implements peer.
func (p *process) started() error {
	select {
	case <-p.over:
		if p.outcome == nil {
			return p.err
		}
	default: // still running
	}
	return nil
}

// dead implements peer.
func (p *process) dead() bool { return p.ended.Load() }

// maxSaid bounds the recorded end of a server's standard error.
const maxSaid = 2000

// A tail keeps the end of its input.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b[max(0, len(b)-maxSaid):]...)
	t.kept = t.kept[max(0, len(t.kept)-maxSaid):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return clean(string(t.kept))
}

// clean makes a server's text safe to print.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	return fault.Clip(strings.TrimSpace(text), maxSaid)
}
