package items

import (
	"context"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/sarif"
	"github.com/rye-build/rye/cmd/rye/spaces"
)

type checkRun struct {
	Items []string `arg:"" optional:"" name:"item" complete:"ref|path" help:"Refs, globs, files or directories."`
	sarif.Flag
}

type checkAnswer struct{ *check.Report }

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
	ans := checkAnswer{report}
	if ans.Errors == 0 {
		return ans, nil
	}
	return ans, ans.Fault("")
}
