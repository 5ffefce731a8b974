package spaces

import (
	"context"
	"fmt"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/session"
)

func CheckCommand() cli.Command {
	return cli.Command{
		Path: "check", Group: "items", Help: "Validate items.",
		More: "Without arguments it checks every item of the project. An argument is a ref (tool:acme/fetch), a glob over refs ('tool:acme/**', " +
			"'**'), or a file or directory below .ai. For a tool, check follows the executors down to the primitive that runs it. It prints " +
			"every problem on a line of its own, FILE:LINE:COLUMN first. A file that looks like an item but isn't one is a warning. If a " +
			"problem is an error, the exit status is 1. rye verify checks signatures.\n\nExamples:\n\n    rye check\n    rye check tool:acme/fetch 'directive:**'\n    rye check .ai/tools/acme --json",
		Aka: []string{"validate", "lint"},
		New: func() cli.Runner { return new(checkRun) }, Schema: "check/1", Output: checkAnswer{},
	}
}

type checkRun struct {
	Items []string `arg:"" optional:"" name:"item" complete:"ref" help:"Refs, globs, files or directories."`
}

type checkAnswer struct{ *check.Report }

func (c checkAnswer) Text(t *cli.Terminal) {
	PrintProblems(t, c.Problems)
	if c.Errors == 0 {
		t.Printf("%s  %s%s\n", t.Stdout.Paint(cli.RoleGood, "checked", t.Ascii), fault.Count(int64(c.Items), "item"), c.AlsoWarnings())
	}
}

// PrintProblems writes each problem on a line that editors can follow.
func PrintProblems(t *cli.Terminal, problems []check.Problem) {
	for _, p := range problems {
		colour := cli.RoleError
		if p.Severity == check.Warning {
			colour = cli.RoleWarn
		}
		t.Printf("%s: %s: %s\n", p.At(), t.Stdout.Paint(colour, p.Severity, t.Ascii), p.Message)
	}
}

// RuleText says which rule of a policy admitted a file, and how many keys have signed it.
func RuleText(rule string, threshold, signed int) string {
	return fmt.Sprintf("%q, threshold: %d, signed by %s", rule, threshold, fault.Count(int64(signed), "key"))
}

func (c *checkRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	v, err := OpenItems(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	checked, err := v.Check(ctx, []check.Rule{session.CheckConfig}, c.Items...)
	if err != nil {
		return nil, err
	}
	v.CountChecked(checked)
	ans := checkAnswer{checked.Report()}
	if ans.Errors > 0 {
		return ans, ans.Fault("")
	}
	return ans, nil
}
