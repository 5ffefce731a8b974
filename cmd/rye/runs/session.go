package runs

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/operations"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread"
)

// mode has the flags that choose between the locked version and the working tree. The default is the locked one.
type mode struct {
	Pinned   bool `help:"Run the locked version despite changes in the working tree."`
	Dev      bool `help:"Run this tool unsigned and unlocked, in the strictest sandbox."`
	Unlocked bool `help:"Run without a lock (refused in CI)."`
	Locked   bool `help:"Require an up-to-date lock."`
	Frozen   bool `help:"Same as --locked --offline."`
}

// An Opened is a session with its workspace. The caller of Open closes it.
type Opened struct {
	*session.Session
	close func()      // closes the workspace
	also  []io.Closer // closed after the session
}

func (c *mode) open(ctx context.Context, a *cli.App) (*Opened, error) {
	if c.Frozen {
		a.Globals.Offline = true
	}
	return Open(ctx, a, session.Mode{Pinned: c.Pinned, Dev: c.Dev, Unlocked: c.Unlocked, Locked: c.Locked || c.Frozen})
}

// Open opens a session of the project. Its functions are those that tools may call.
func Open(ctx context.Context, app *cli.App, m session.Mode) (*Opened, error) {
	options := paths.Session(app)
	options.Mode = m
	options.Functions = func(s *session.Session) function.Functions {
		all := agenttools.Functions(s)
		maps.Copy(all, catalog.Functions(s))
		maps.Copy(all, toolFunctions(app))
		maps.Copy(all, operations.Functions(app, func() (*thread.Engine, error) { return openEngine(app, s, m) }))
		return all
	}
	w, err := paths.OpenWorkspace(app)
	if err != nil {
		return nil, err
	}
	s, err := session.Open(ctx, w.Workspace, options)
	if err != nil {
		w.Close()
		return nil, Reworded(app, err)
	}
	return &Opened{Session: s, close: w.Close}, nil
}

// Close closes the session and its workspace.
func (o *Opened) Close() error {
	defer o.close()
	for _, c := range o.also {
		defer c.Close() // after the session, whose last calls may still use it
	}
	return o.Session.Close()
}

// Reworded rewrites a session's error for this command line: its hints repeat all arguments.
func Reworded(app *cli.App, err error) error {
	failure, ok := fault.Find(err)
	if !ok {
		return err
	}
	if slices.Contains(app.Args, "--frozen") {
		failure.Text = strings.ReplaceAll(failure.Text, "--locked", "--frozen")
	}
	modes := []string{"--dev", "--pinned", "--unlocked"}
	args := slices.DeleteFunc(slices.Clone(app.Args), func(arg string) bool {
		return slices.Contains(modes, arg) || arg == "--locked" || arg == "--frozen"
	})
	if !slices.Contains(app.Args, "exec") && !slices.Contains(app.Args, "test") { // no other command has --dev
		failure.Hint = slices.DeleteFunc(failure.Hint,
			func(hint string) bool { return strings.HasSuffix(hint, " --dev") })
	}
	for i, hint := range failure.Hint {
		flag := hint[strings.LastIndexByte(hint, ' ')+1:]
		if strings.HasPrefix(hint, "rye exec ") && slices.Contains(modes, flag) {
			failure.Hint[i] = "rye " + cli.JoinArgs(append(slices.Clone(args), flag))
		}
	}
	return failure
}

// toolFunctions returns the functions that the command table offers to tools.
func toolFunctions(a *cli.App) function.Functions {
	for _, c := range a.Commands {
		if c.Functions != nil {
			return c.Functions(a)
		}
	}
	return nil
}
