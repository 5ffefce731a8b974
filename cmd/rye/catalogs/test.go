package catalogs

import (
	"context"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/runs"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/session"
)

// TestRun is rye mcp test.
type TestRun struct {
	Name     string `arg:"" complete:"mcp" help:"Name of the server."`
	Unlocked bool   `help:"Run without a lock (refused in CI)."`
}

// Tested compares the tools that a server announces with their items.
type Tested struct {
	Name     string           `json:"name"`
	Call     string           `json:"call"`
	Server   map[string]any   `json:"server"`
	Protocol string           `json:"protocol"`
	Tools    []catalog.Change `json:"tools"`
	Differ   int              `json:"differ"`
}

// Text implements cli.Answer.
func (x *Tested) Text(t *cli.Terminal) {
	for i := range x.Tools {
		for _, line := range changeLines(&x.Tools[i]) {
			t.Printf("%s\n", line)
		}
	}
}

// A real session runs the item that is pinned or in the spaces, as rye exec does. The other commands run a staged
// copy.
type real struct {
	a *cli.App
	*runs.Opened
}

// Prepare implements catalog.Preparer.
func (p real) Prepare(ctx context.Context, ref model.Ref, dry bool) (*exec.Plan, error) {
	plan, err := p.Opened.Prepare(ctx, &exec.Call{Ref: ref, Dry: dry})
	if err != nil {
		f := fault.Of(runs.Reworded(p.a, err))
		f.Hint = slices.DeleteFunc(f.Hint, func(hint string) bool {
			return strings.HasSuffix(hint, " --dev") || strings.HasSuffix(hint, " --pinned")
		})
		return nil, f
	}
	return plan, nil
}

// Run implements cli.Runner.
func (c *TestRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	view, server, err := openServer(ctx, a, c.Name)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	session, err := runs.Open(ctx, a, session.Mode{Unlocked: c.Unlocked})
	if err != nil {
		return nil, err
	}
	announced, call, err := ask(ctx, a, real{a, session}, server)
	if logged := session.Close(); err == nil {
		err = logged
	}
	if err != nil {
		return nil, err
	}
	ans := &Tested{Name: server.Name, Call: call, Server: announced.Server, Protocol: announced.Protocol}
	if ans.Tools, err = catalog.Compare(server.At, server.Tools, announced, catalog.OthersOf(view.servers,
		server.Name)); err != nil {
		return nil, err
	}
	if ans.Differ = number(ans.Tools, (*catalog.Change).Differs); ans.Differ > 0 {
		f := fault.New(fault.LockMismatch, "%s of %q differ from the pinned ones", tools(ans.Differ),
			server.Name).Try(fault.Command("rye mcp refresh", server.Name))
		return ans, f.Answer()
	}
	return ans, nil
}
