package bundles

import (
	"context"
	"fmt"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock/publish"
)

type bundleIndexRun struct {
	Dir     string `arg:"" complete:"dir" help:"Directory of archives."`
	Name    string `placeholder:"NAME" help:"Name of a new index, such as acme/bundles."`
	Expires string `placeholder:"DATE" help:"Expiry date or time, UTC; default: unchanged."`
	Closed  bool   `help:"Refuse bundles whose required bundles are missing."`
	trusts.KeyFlag
}

// bundleIndexed is the index after the command, and what it changed.
type bundleIndexed struct{ *publish.Result }

func (i bundleIndexed) Text(term *cli.Terminal) {
	what := fmt.Sprintf("%s  index:%s, issue %d: %s, %s", i.File, i.Name, i.Counter,
		fault.Count(int64(i.Bundles), "bundle"), fault.Count(int64(i.Versions), "version"))
	if !i.Changed {
		term.Note("unchanged  %s", what)
		return
	}
	term.Printf("wrote  %s\n", what)
	for _, name := range i.Added {
		term.Printf("  + %s\n", name)
	}
	for _, name := range i.Removed {
		term.Printf("  - %s\n", name)
	}
}

func (c *bundleIndexRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if err := portable.CheckID(c.Name); c.Name != "" && err != nil {
		return nil, fault.New(fault.Validation, "--name is %q, not a valid id", c.Name).Because(err.Error())
	}
	dir := app.Absolute(cli.Setting{Value: c.Dir})
	if dir.Err != nil {
		return nil, dir.Err
	}
	expires, err := trusts.ParseDate("--expires", c.Expires)
	if err != nil {
		return nil, err
	}
	work, err := paths.OpenWorkspace(app)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	vouching, err := spaces.OpenVouching(app)
	if err != nil {
		return nil, err
	}
	signer, err := trusts.SigningKey(ctx, app, c.Key)
	if err != nil {
		return nil, err
	}
	vouching.Options.Closed = c.Closed
	progress := app.Progress("verifying", 0)
	defer progress.Done()
	r, err := publish.Publish(ctx, publish.Options{Dir: dir.Value, Shown: c.Dir, Name: c.Name, Expires: expires,
		Key: signer.Private, Finder: work.Finder(ctx),
		Verify: vouching.Options, Journal: paths.Lists(app).Journal(), Clock: app.Clock, Counted: progress.Counted,
		Note: app.Term.Note,
		Warn: app.Term.Warn})
	if err != nil {
		return nil, err
	}
	return bundleIndexed{r}, nil
}
