package items

import (
	"context"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/sarif"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/workspace"
)

type checkRun struct {
	Items []string `arg:"" optional:"" name:"item" complete:"ref|path" help:"Refs, globs, files or directories."`
	sarif.Flag
}

type checkAnswer struct {
	*check.Report
	// Advisories that cover locked bundles, as they were read last.
	Advisories []workspace.Cover `json:"advisories,omitempty"`
}

func (c checkAnswer) Text(t *cli.Terminal) {
	spaces.PrintProblems(t, c.Problems)
	if c.Errors == 0 {
		t.Printf("%s  %s%s\n", t.Stdout.Paint(cli.RoleGood, "checked", t.Ascii), fault.Count(int64(c.Items), "item"),
			c.AlsoWarnings())
	}
}

// Extent and Findings provide the content of the other formats (package sarif).
func (c checkAnswer) Extent() string            { return fault.Count(int64(c.Items), "item") }
func (c checkAnswer) Findings() []sarif.Finding { return sarif.OfProblems(c.Problems, nil) }

func (c *checkRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return c.Render(a, "check", func() (cli.Answer, error) { return c.check(ctx, a) })
}

func (c *checkRun) check(ctx context.Context, a *cli.App) (cli.Answer, error) {
	report, err := spaces.Check(ctx, a, c.Items...)
	if err != nil {
		return nil, err
	}
	ans := checkAnswer{Report: report}
	if len(c.Items) == 0 {
		if ans.Advisories, err = covers(a); err != nil {
			return nil, err
		}
	}
	if ans.Errors == 0 {
		return ans, nil
	}
	return ans, ans.Fault("")
}

// covers warns about advisories that cover the bundles of the project's lock.
func covers(a *cli.App) ([]workspace.Cover, error) {
	work, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	lock := work.ProjectLock()
	if lock == nil {
		return nil, nil
	}
	all := work.Covers(lock.Old.Bundles)
	paths.WarnCovers(a, all)
	return all, nil
}
