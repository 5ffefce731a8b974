package serves

import (
	"context"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/runs"
	"github.com/rye-build/rye/exec/mcp"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread/approve"
)

// offered is what a server of agents serves.
type offered struct {
	Tools    []string `placeholder:"GLOB" sep:"none" help:"Offer these tools under their own names too (repeatable)."`
	Pinned   bool     `help:"Run the locked version despite changes in the working tree."`
	Unlocked bool     `help:"Run without a lock (refused in CI)."`
	Locked   bool     `help:"Require an up-to-date lock."`
	Frozen   bool     `help:"Same as --locked --offline."`
}

// server makes the server of the project.
func (c *offered) server(a *cli.App) (*mcp.Server, error) {
	p, err := places.Paths(a).FindProject()
	if err != nil {
		return nil, err
	}
	state := a.Dir(cli.StatePlace)
	if state.Err != nil {
		return nil, state.Err
	}
	tools, err := approve.Globs("--tools", c.Tools)
	if err != nil {
		return nil, err
	}
	if c.Frozen {
		a.Globals.Offline = true
	}
	return mcp.New(mcp.Options{
		Open: func(ctx context.Context) (*session.Session, func() error, error) {
			s, err := runs.Open(ctx, a, session.Mode{Pinned: c.Pinned, Unlocked: c.Unlocked, Locked: c.Locked || c.Frozen})
			if err != nil {
				return nil, nil, err
			}
			return s.Session, s.Close, nil
		},
		State: state.Value, Now: a.Now, Project: p.Root, Tools: tools, Version: cli.ThisVersion().Version, Warn: func(err error) { a.Term.Warn("%v", err) },
	}), nil
}

type mcpServeRun struct{ offered }

// served is what was done for a client that has gone.
type served struct {
	Calls int64 `json:"calls"` // of the server's tools
}

// Text prints nothing: standard output has the protocol.
func (served) Text(*cli.Terminal) {}

func (c *mcpServeRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	server, err := c.server(a)
	if err != nil {
		return nil, err
	}
	if a.Term.Stdout.Tty {
		a.Term.Note("an agent starts this command; end it with Ctrl-D")
	}
	if err := server.Run(ctx, mcp.Lines(a.Stdin, a.Term.Stdout)); err != nil {
		return nil, err
	}
	return served{server.Calls()}, nil
}
