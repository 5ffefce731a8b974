package serves

import (
	"context"
	"errors"
	"io"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/runs"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/exec/mcp"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/sign"
)

// offered has the flags that say what a server offers to agents.
type offered struct {
	Tools    []string `placeholder:"GLOB" sep:"none" help:"Offer these tools under their own names too (repeatable)."`
	Pinned   bool     `help:"Run the locked version despite changes in the working tree."`
	Unlocked bool     `help:"Run without a lock (refused in CI)."`
	Locked   bool     `help:"Require an up-to-date lock."`
	Frozen   bool     `help:"Same as --locked --offline."`
}

// options returns the options of a project's server. With anywhere, the project may be missing.
func (c *offered) options(a *cli.App, anywhere bool) (mcp.Options, error) {
	p, err := paths.Paths(a).FindProject()
	if err != nil && !(anywhere && a.Globals.Project == "" && errors.Is(err, workspace.ErrNoProject)) {
		return mcp.Options{}, err
	}
	state := a.Dir(cli.StatePlace)
	if state.Err != nil {
		return mcp.Options{}, state.Err
	}
	tools, err := toolcall.Globs("--tools", c.Tools)
	if err != nil {
		return mcp.Options{}, err
	}
	if c.Frozen {
		a.Globals.Offline = true
	}
	return mcp.Options{Open: c.open(a), State: state.Value, Now: a.Now, Project: p.Root, Tools: tools,
		Version: cli.ThisVersion().Version,
		Warn:    func(err error) { a.Term.Warn("%v", err) }}, nil
}

// open returns a function that opens sessions of a's project.
func (c *offered) open(a *cli.App) mcp.Open {
	return func(ctx context.Context) (*session.Session, func() error, error) {
		s, err := runs.Open(ctx, a, session.Mode{Pinned: c.Pinned, Unlocked: c.Unlocked, Locked: c.Locked || c.Frozen})
		if err != nil {
			return nil, nil, err
		}
		return s.Session, s.Close, nil
	}
}

// in returns an App for a directory that a client has named. The owner of a project there is checked as usual.
func in(a *cli.App, dir string) *cli.App {
	b := paths.Unattended(a, dir, io.Discard)
	b.Globals.Project, b.Term, b.Args = "", a.Term, a.Args
	return b
}

type mcpServeRun struct {
	offered
	AllowSign bool `help:"Let the agent sign items of the project with your key."`
}

// served is the result of mcp serve after the client has disconnected.
type served struct {
	Calls int64 `json:"calls"` // of the server's tools
}

// Text prints nothing: standard output has the protocol.
func (served) Text(*cli.Terminal) {}

func (c *mcpServeRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	o, err := c.options(a, true)
	if err != nil {
		return nil, err
	}
	o.At = func(dir string) (mcp.Project, error) {
		b := in(a, dir)
		p, err := paths.Paths(b).FindProject()
		return mcp.Project{Root: p.Root, Open: c.open(b)}, err
	}
	if c.AllowSign {
		o.Sign = func(ctx context.Context, project string, ref model.Ref) (any, error) {
			run := &signs.SignRun{Items: []string{ref.String()}, Format: sign.V2.String()}
			ans, err := run.Run(ctx, paths.Unattended(a, project, io.Discard))
			if err != nil {
				return nil, err
			}
			made := ans.(*signs.SignAnswer).Files[0]
			return map[string]any{"ref": made.Name, "file": made.File, "key": made.Key, "changed": made.Changed}, nil
		}
	}
	server := mcp.New(o)
	collectSeldom(a)
	if a.Term.Stdout.Tty {
		a.Term.Note("an agent starts this command; end it with Ctrl-D")
	}
	if err := server.Run(ctx, mcp.Lines(a.Stdin, a.Term.Stdout)); err != nil {
		return nil, err
	}
	return served{server.Calls()}, nil
}
