package runs

import (
	"context"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/session"
)

// mode says what is run: what the lock pins, unless a flag says otherwise.
type mode struct {
	Pinned   bool `help:"Run the locked version despite changes in the working tree."`
	Dev      bool `help:"Run this tool unsigned and unlocked, in the strictest sandbox."`
	Unlocked bool `help:"Run without a lock (refused in CI)."`
	Locked   bool `help:"Require an up-to-date lock."`
	Frozen   bool `help:"Same as --locked --offline."`
}

// opened is a session with its workspace.
type opened struct {
	*session.Session
	close func()
}

func (c *mode) open(ctx context.Context, a *cli.App) (*opened, error) {
	if c.Frozen {
		a.Globals.Offline = true
	}
	return open(ctx, a, session.Mode{Pinned: c.Pinned, Dev: c.Dev, Unlocked: c.Unlocked, Locked: c.Locked || c.Frozen})
}

func open(ctx context.Context, a *cli.App, m session.Mode) (*opened, error) {
	o := places.Session(a)
	o.Mode, o.Functions = m, toolFunctions(a)
	w, err := places.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	s, err := session.Open(ctx, w.Workspace, o)
	if err != nil {
		w.Close()
		return nil, reworded(a, err)
	}
	return &opened{s, w.Close}, nil
}

// Close closes the session and its workspace.
func (o *opened) Close() error {
	defer o.close()
	return o.Session.Close()
}

// reworded returns an error of a session in the words of this command line: its hints repeat all arguments.
func reworded(a *cli.App, err error) error {
	f, ok := fault.Find(err)
	if !ok {
		return err
	}
	if slices.Contains(a.Args, "--frozen") {
		f.Text = strings.ReplaceAll(f.Text, "--locked", "--frozen")
	}
	modes := []string{"--dev", "--pinned", "--unlocked"}
	args := slices.DeleteFunc(slices.Clone(a.Args), func(arg string) bool {
		return slices.Contains(modes, arg) || arg == "--locked" || arg == "--frozen"
	})
	for i, hint := range f.Hint {
		flag := hint[strings.LastIndexByte(hint, ' ')+1:]
		if strings.HasPrefix(hint, "rye exec ") && slices.Contains(modes, flag) {
			f.Hint[i] = "rye " + cli.JoinArgs(append(slices.Clone(args), flag))
		}
	}
	return f
}

// toolFunctions returns what tools may have rye do: what the command table says.
func toolFunctions(a *cli.App) function.Functions {
	for _, c := range a.Commands {
		if c.Functions != nil {
			return c.Functions(a)
		}
	}
	return nil
}
