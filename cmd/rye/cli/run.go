package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/nested"
)

// Run runs one command line and returns the exit status.
func Run(host Host, cmds []Command, args []string) int {
	term := host.Terminal(flagGiven(args, "--no-color"))
	term.Json = flagGiven(args, "--json") // so that an error of Parse is JSON too
	inv, err := Parse(cmds, args)
	if err != nil {
		return term.Finish("", nil, err)
	}
	if inv.Help != nil {
		page, err := explained(context.Background(), host, term, cmds, args, helpOf(cmds, inv.Help))
		if err != nil {
			return term.Finish("", nil, err)
		}
		return term.Finish("help/1", page, nil)
	}
	g := inv.Globals
	term.Json, term.Quiet, term.Verbose, term.Debug = g.JSON, g.Quiet, g.Verbose, g.Debug
	app, err := NewApp(host, term, g, cmds)
	if err != nil {
		return term.Finish("", nil, err)
	}
	app.Args = args
	// help, version and doctor must work with any environment, because they explain what is wrong with it.
	if !slices.Contains([]string{"help", "version", "doctor"}, inv.Command.Path) {
		if err := nested.Check(app.RefuseUnknown(), inv.Command.Path, args, app.Env); err != nil {
			return term.Finish("", nil, err)
		}
	}
	ctx, stop := interruptible()
	defer stop()
	began := time.Now()
	ans, err := inv.Runner.Run(ctx, app)
	if term.Verbose {
		app.printCounters(time.Since(began))
	}
	if err != nil {
		err = app.place(fault.Of(err))
	} else if inv.Command.Quiet && term.Quiet && !term.Json {
		ans = nil
	}
	return term.Finish(inv.Command.Schema, ans, err)
}

// flagGiven reports whether args contain a boolean flag. It works before they are parsed.
func flagGiven(args []string, flag string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.ContainsFunc(args, func(arg string) bool {
		return arg == flag || strings.HasPrefix(arg, flag+"=") && arg != flag+"=false"
	})
}

// interruptible returns a context that the first SIGINT, SIGTERM or SIGHUP cancels. A second SIGINT or SIGTERM
// kills the process; further SIGHUPs are ignored, because a closing terminal sends several. If SIGHUP was ignored
// at the start, as under nohup, it stays ignored. Signals are caught from the first use of the context on, which
// saves 0.3 ms for commands that never use it (measured).
func interruptible() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	return &signalContext{Context: ctx, watch: sync.OnceFunc(func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		if !signal.Ignored(syscall.SIGHUP) {
			signal.Notify(signals, syscall.SIGHUP)
		}
		go func() {
			select {
			case <-signals:
				signal.Ignore(syscall.SIGHUP)
			case <-ctx.Done():
			}
			signal.Stop(signals)
			cancel()
		}()
	})}, cancel
}

// A signalContext begins to watch for signals when Done or Err is first called.
type signalContext struct {
	context.Context
	watch func()
}

func (c *signalContext) Done() <-chan struct{} { c.watch(); return c.Context.Done() }
func (c *signalContext) Err() error            { c.watch(); return c.Context.Err() }

// Cancellable returns a reader whose reads fail when ctx ends. The goroutine of a blocked read of a terminal or pipe
// then stays until the process exits.
func Cancellable(ctx context.Context, r io.Reader) io.Reader {
	return &cancellableReader{ctx: ctx, r: r, buf: make([]byte, 1<<17), done: make(chan readResult, 1)}
}

type cancellableReader struct {
	ctx  context.Context
	r    io.Reader
	buf  []byte // owned by the reading goroutine while busy
	left []byte // read but not yet returned
	err  error
	busy bool // a goroutine reads
	done chan readResult
}

type readResult struct {
	n   int
	err error
}

func (c *cancellableReader) Read(data []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if len(c.left) == 0 && c.err == nil {
		if !c.busy {
			c.busy = true
			go func() {
				n, err := c.r.Read(c.buf)
				c.done <- readResult{n, err}
			}()
		}
		select {
		case <-c.ctx.Done():
			return 0, c.ctx.Err()
		case res := <-c.done:
			c.busy, c.left, c.err = false, c.buf[:res.n], res.err
		}
	}
	n := copy(data, c.left)
	c.left = c.left[n:]
	if n == 0 && len(c.left) == 0 {
		return 0, c.err
	}
	return n, nil
}

// Input returns standard input for a command. Its reads fail when ctx ends.
func (a *App) Input(ctx context.Context) io.Reader { return Cancellable(ctx, a.Stdin) }
