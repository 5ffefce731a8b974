package signs

import (
	"context"
	"fmt"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/sarif"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/signing"
	"github.com/rye-build/rye/manifest/trust"
)

// VerifyRun is rye verify.
type VerifyRun struct {
	Items     []string `arg:"" optional:"" name:"item" complete:"ref" help:"Refs, globs, files or directories."`
	All       bool     `help:"Include the library's items in globs."`
	Installed bool     `help:"Compare what is in the folders of clients with the lock."`
	As        string   `placeholder:"NAME" help:"Name under which to use the one file."`
	sarif.Flag
}

func (c *VerifyRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	name := "verify"
	if c.Installed {
		name = "verify --installed"
	}
	return c.Render(a, name, func() (cli.Answer, error) { return c.verify(ctx, a) })
}

func (c *VerifyRun) verify(ctx context.Context, a *cli.App) (cli.Answer, error) {
	switch {
	case c.Installed && (len(c.Items) > 0 || c.As != ""):
		return nil, fault.New(fault.Validation, "--installed takes no items").Try("rye verify --installed")
	case c.Installed:
		return verifyInstalled(ctx, a)
	case len(c.Items) == 0:
		return nil, fault.New(fault.Validation, "expected \"<item> ...\"").Try("rye help verify")
	case c.As == "":
		return c.verifyItems(ctx, a)
	}
	if len(c.Items) != 1 {
		return nil, fault.New(fault.Validation, "--as names one file, and %s are given",
			fault.Count(int64(len(c.Items)), "file")).Try(asName("rye verify", c.Items[0]))
	}
	s, err := signing.NewSubject(c.Items[0], c.As)
	if err != nil {
		return nil, err
	}
	if err := paths.RefuseLinks(a, s.File); err != nil {
		return nil, err
	}
	t, err := trustToAsk(a)
	if err != nil {
		return nil, err
	}
	if ref, marked, err := itemAt(ctx, a, s); marked && ref == s.Name || err != nil {
		if err != nil {
			return nil, err
		}
		return c.verifyItems(ctx, a)
	}
	file, err := paths.Open(a, s.File)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	ans, f := signing.Verify(t, paths.Lists(a), s, file)
	for _, w := range ans.Warnings {
		a.Term.Warn("%s", w)
	}
	return newReport([]*signing.Evidence{ans}, f)
}

// trustToAsk opens the policies for a command that answers a question: a missing policy means no.
func trustToAsk(a *cli.App) (*trust.Trust, error) {
	t, err := paths.OpenTrust(a)
	if trust.IsMissing(err) {
		return nil, fault.Of(err).Asked()
	}
	return t, err
}

// printEvidence shows the verified name and its signers. A refusal is shown as the error.
func printEvidence(t *cli.Terminal, v *signing.Evidence) {
	if !v.Allowed {
		return
	}
	t.Printf("%s  %s\n", t.Stdout.Paint(cli.RoleGood, "verified", t.Ascii), v.Name)
	rows := [][]string{{"  file", v.File + ", " + v.Stripped}}
	if v.TreeFiles > 0 {
		rows = append(rows, []string{"  tree", fault.Count(int64(v.TreeFiles), "file") + " beside it, " + v.Tree})
	}
	for _, s := range v.Signers {
		who := fmt.Sprintf("%q %s", s.Name, paths.Short(s.Key))
		if s.Name == "" {
			who = paths.Short(s.Key)
		}
		if s.Owner != "" {
			who += ", " + s.Owner
		}
		if s.Format != sign.V2.String() {
			who += ", format " + s.Format
		}
		if s.Verdict != policy.Admitted.String() {
			who += ": does not count, " + s.Verdict
		}
		rows = append(rows, []string{"  signed by", who})
	}
	switch v.Trust {
	case "builtin":
		rows = append(rows, []string{"  rule", "it is part of this binary, which vouches for it"})
	case "digest":
		rows = append(rows, []string{"  rule", "its digest is listed under digests"})
	default:
		rows = append(rows, []string{"  rule", spaces.RuleText(v.Rule, v.Threshold, v.Count)})
	}
	rows = append(rows, []string{"  policy", fmt.Sprintf("%s (%s)", v.Policy, v.Origin)})
	if v.Beside != "" {
		rows = append(rows, []string{"  and", fmt.Sprintf("%s (project)", v.Beside)})
	}
	if v.Next != "" {
		rows = append(rows, []string{"  in force", "only by: " + v.Next})
	}
	t.Rows(rows)
}
