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
	Items     []string `arg:"" optional:"" name:"item" complete:"ref|path" help:"Refs, globs, files or directories."`
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

func (c *VerifyRun) verify(ctx context.Context, app *cli.App) (cli.Answer, error) {
	switch {
	case c.Installed && (len(c.Items) > 0 || c.As != ""):
		return nil, fault.New(fault.Validation, "--installed takes no items").Try("rye verify --installed")
	case c.Installed:
		return verifyInstalled(ctx, app)
	case len(c.Items) == 0:
		return nil, fault.New(fault.Validation, "expected \"<item> ...\"").Try("rye help verify")
	case c.As == "":
		return c.verifyItems(ctx, app)
	}
	if len(c.Items) != 1 {
		return nil, fault.New(fault.Validation, "--as names one file, and %s are given",
			fault.Count(int64(len(c.Items)), "file")).Try(asName("rye verify", c.Items[0]))
	}
	subject, err := signing.NewSubject(c.Items[0], c.As)
	if err != nil {
		return nil, err
	}
	if err := paths.RefuseLinks(app, subject.File); err != nil {
		return nil, err
	}
	trusted, err := trustToAsk(app)
	if err != nil {
		return nil, err
	}
	if ref, marked, err := itemAt(ctx, app, subject); marked && ref == subject.Name || err != nil {
		if err != nil {
			return nil, err
		}
		return c.verifyItems(ctx, app)
	}
	file, err := paths.Open(app, subject.File)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	ans, f := signing.Verify(trusted, paths.Lists(app), subject, file)
	for _, w := range ans.Warnings {
		app.Term.Warn("%s", w)
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
func printEvidence(term *cli.Terminal, evidence *signing.Evidence) {
	if !evidence.Allowed {
		return
	}
	term.Printf("%s  %s\n", term.Stdout.Paint(cli.RoleGood, "verified", term.Ascii), evidence.Name)
	rows := [][]string{{"  file", evidence.File + ", " + evidence.Stripped}}
	if evidence.TreeFiles > 0 {
		rows = append(rows, []string{"  tree", fault.Count(int64(evidence.TreeFiles), "file") + " beside it, " +
			evidence.Tree})
	}
	for _, signerLine := range evidence.Signers {
		who := fmt.Sprintf("%q %s", signerLine.Name, paths.Short(signerLine.Key))
		if signerLine.Name == "" {
			who = paths.Short(signerLine.Key)
		}
		if signerLine.Owner != "" {
			who += ", " + signerLine.Owner
		}
		if signerLine.Format != sign.V2.String() {
			who += ", format " + signerLine.Format
		}
		if signerLine.Verdict != policy.Admitted.String() {
			who += ": does not count, " + signerLine.Verdict
		}
		rows = append(rows, []string{"  signed by", who})
	}
	switch evidence.Trust {
	case "builtin":
		rows = append(rows, []string{"  rule", "it is part of this binary, which vouches for it"})
	case "digest":
		rows = append(rows, []string{"  rule", "its digest is listed under digests"})
	default:
		rows = append(rows, []string{"  rule", spaces.RuleText(evidence.Rule, evidence.Threshold, evidence.Count)})
	}
	rows = append(rows, []string{"  policy", fmt.Sprintf("%s (%s)", evidence.Policy, evidence.Origin)})
	if evidence.Beside != "" {
		rows = append(rows, []string{"  and", fmt.Sprintf("%s (project)", evidence.Beside)})
	}
	if evidence.Next != "" {
		rows = append(rows, []string{"  in force", "only by: " + evidence.Next})
	}
	term.Rows(rows)
}
