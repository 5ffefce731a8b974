package exchange

import (
	"context"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/lock/export"
)

type exportPluginRun struct {
	Bundle string   `arg:"" complete:"bundle|path" help:"Bundle."`
	Dir    string   `arg:"" complete:"dir" help:"Directory of the plugin."`
	Name   string   `help:"Name of the plugin; default: the bundle's id with . for /."`
	Tools  []string `placeholder:"GLOB" sep:"none" help:"Offer these tools under their own names too (repeatable)."`
	DryRun bool     `help:"Show what would be written; write nothing."`
}

// pluginAnswer is the result of rye export plugin.
type pluginAnswer struct {
	*export.Result
}

// Text implements cli.Answer.
func (p *pluginAnswer) Text(t *cli.Terminal) {
	t.Printf("%s %s\n", cli.DryVerb(p.DryRun, "wrote", "would write"), p.Dir)
	what := fault.Count(int64(len(p.Skills)), "skill")
	if p.Server {
		what += " and a server"
	}
	t.Note("plugin %s of %s@%s: %s, %s", p.Plugin, p.Bundle, p.Version, what, fault.Count(int64(p.Files), "file"))
	if !p.Server || p.AsIs {
		return
	}
	t.Note("the server starts for users who trust the signers; in the plugin's directory:")
	for _, s := range p.Signers {
		t.Note("  %s", s.Trust)
	}
}

// Run implements cli.Runner.
func (c *exportPluginRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	dir := app.Absolute(cli.Setting{Value: c.Dir})
	if dir.Err != nil {
		return nil, dir.Err
	}
	if err := paths.RefuseLinks(app, dir.Value); err != nil {
		return nil, err
	}
	if _, err := toolcall.Globs("--tools", c.Tools); err != nil {
		return nil, err
	}
	work, err := paths.OpenWorkspace(app)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	options := export.Options{ID: strings.TrimPrefix(c.Bundle, "bundle:"), Dir: dir.Value, Name: c.Name,
		Tools: c.Tools, DryRun: c.DryRun, Forbidden: []string{app.Home().Value}}
	if !export.Locked(work.Workspace, options.ID) {
		found, err := work.Find(ctx, options.ID)
		if err == nil {
			err = found.NeedV2()
		}
		if err != nil {
			return nil, err
		}
		options.Bundle = found
	}
	made, err := export.Plugin(ctx, work.Workspace, options)
	if err != nil {
		return nil, err
	}
	for _, s := range made.Skipped {
		app.Term.Warn("not exported: %s: %s", s.Part, s.Why)
	}
	made.Dir = c.Dir
	return &pluginAnswer{made}, nil
}
