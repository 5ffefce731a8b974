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
	"github.com/rye-build/rye/exec/host"
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
func (c *offered) options(app *cli.App, anywhere bool) (mcp.Options, error) {
	project, err := paths.Paths(app).FindProject()
	if err != nil && !(anywhere && app.Globals.Project == "" && errors.Is(err, workspace.ErrNoProject)) {
		return mcp.Options{}, err
	}
	state := app.Dir(cli.StatePlace)
	if state.Err != nil {
		return mcp.Options{}, state.Err
	}
	tools, err := toolcall.Globs("--tools", c.Tools)
	if err != nil {
		return mcp.Options{}, err
	}
	if c.Frozen {
		app.Globals.Offline = true
	}
	return mcp.Options{Open: c.open(app), State: state.Value, Now: app.Now, Project: project.Root, Tools: tools,
		Version: cli.ThisVersion().Version,
		Warn:    func(err error) { app.Term.Warn("%v", err) }}, nil
}

// open returns a function that opens sessions of a's project.
func (c *offered) open(a *cli.App) host.Open {
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

func (c *mcpServeRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	options, err := c.options(app, true)
	if err != nil {
		return nil, err
	}
	options.At = func(dir string) (host.Project, error) {
		b := in(app, dir)
		p, err := paths.Paths(b).FindProject()
		return host.Project{Root: p.Root, Open: c.open(b)}, err
	}
	if c.AllowSign {
		options.Sign = func(ctx context.Context, project string, ref model.Ref) (any, error) {
			run := &signs.SignRun{Items: []string{ref.String()}, Format: sign.V2.String()}
			ans, err := run.Run(ctx, paths.Unattended(app, project, io.Discard))
			if err != nil {
				return nil, err
			}
			made := ans.(*signs.SignAnswer).Files[0]
			return map[string]any{"ref": made.Name, "file": made.File, "key": made.Key, "changed": made.Changed}, nil
		}
	}
	return signs.Meet(ctx, app, "", nil, func() (cli.Answer, error) {
		if err := c.knows(app); err != nil {
			return nil, err
		}
		server := mcp.New(options)
		collectSeldom(app)
		if app.Term.Stdout.Tty {
			app.Term.Note("an agent starts this command; end it with Ctrl-D")
		}
		if err := server.Run(ctx, mcp.Lines(app.Stdin, app.Term.Stdout)); err != nil {
			return nil, err
		}
		return served{server.Calls()}, nil
	})
}

// knows refuses a lock with a signer that the policy doesn't know, if the lock must be usable as it is: the agent
// would only see that items are missing.
func (c *mcpServeRun) knows(app *cli.App) error {
	if !c.Locked && !c.Frozen {
		return nil
	}
	lock, err := paths.OpenLock(app, false)
	if err != nil {
		return err
	}
	defer lock.Close()
	return lock.Stranger()
}
