package signs

import (
	"context"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/signing"
	"github.com/rye-build/rye/manifest/trust"
)

// asName returns the command that signs or verifies one file outside of spaces, under a name that fits it.
func asName(command, file string) string {
	base := filepath.Base(file)
	stem, _, _ := strings.Cut(base, ".")
	name := "tool:" + stem
	switch path.Ext(base) {
	case ".md":
		name = "knowledge:" + stem
	case "":
		return "rye help" + strings.TrimPrefix(command, "rye")
	}
	return fault.Command(command, file, "--as", name)
}

// SignRun is rye sign. Other commands use it to sign items.
type SignRun struct {
	Items   []string `arg:"" optional:"" name:"item" complete:"own|path" help:"Refs, globs, files or directories."`
	As      string   `placeholder:"NAME" help:"Name under which to use the one file."`
	All     bool     `help:"Sign every item of the project."`
	Format  string   `enum:"v1,v2" default:"v2" help:"Signature format: ${enum}."`
	Upgrade bool     `help:"Replace a signature of the first format (v1)."`
	DryRun  bool     `help:"Show what would be done; write nothing."`
	trusts.KeyFlag
	shown  map[string]content // what the user has agreed to sign, by ref; nil if they named the items
	open   Opener
	counts bool // sign nothing with a key whose signature doesn't count
}

// SignAnswer is the result of rye sign.
type SignAnswer struct {
	Files     []SignLine      `json:"files"`
	Problems  []check.Problem `json:"problems"` // with an error among them nothing was signed
	Signed    int             `json:"signed"`
	Unchanged int             `json:"unchanged"` // signed by this key already
	DryRun    bool            `json:"dry_run"`
}

// A SignLine is a signed file in the result.
type SignLine = *signing.Signed

func (s *SignAnswer) Text(term *cli.Terminal) {
	spaces.PrintProblems(term, s.Problems)
	verb := cli.DryVerb(s.DryRun, "signed", "would sign")
	for _, signed := range s.Files {
		if !signed.Changed {
			continue
		}
		others := ""
		if signed.Beside > 0 {
			others = ", with " + fault.Count(int64(signed.Beside), "file") + " beside it"
		}
		replaced := ""
		if signed.Replaced > 0 {
			replaced = ", replacing " + fault.Count(int64(signed.Replaced), "signature") + " that no longer matched"
		}
		term.Printf("%s %s as %s%s%s\n", verb, signed.File, signed.Name, others, replaced)
	}
	if s.Signed+s.Unchanged > 1 {
		term.Note("%s %s; %d already had this signature", verb, fault.Count(int64(s.Signed), "item"), s.Unchanged)
	}
}

// add counts a file as signed or unchanged.
func (s *SignAnswer) add(l SignLine) {
	s.Files = append(s.Files, l)
	if l.Changed {
		s.Signed++
	} else {
		s.Unchanged++
	}
}

func (c *SignRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.Upgrade && c.Format == "v1" {
		return nil, fault.New(fault.Validation, "--upgrade and --format v1 are opposites")
	}
	switch {
	case c.All && len(c.Items) > 0:
		return nil, fault.New(fault.Validation, "--all cannot be combined with an item").
			Try("rye sign --all")
	case c.As == "" && !c.All && len(c.Items) == 0:
		return nil, fault.New(fault.Validation, "\"rye sign\" needs <item>, or --all").Try("rye help sign")
	case c.As == "":
		return c.signItems(ctx, app)
	case len(c.Items) != 1:
		f := fault.New(fault.Validation, "--as names one file, and %s are given",
			fault.Count(int64(len(c.Items)), "file"))
		if len(c.Items) > 0 {
			f.Hint = []string{asName("rye sign", c.Items[0])}
		}
		return nil, f
	}
	subject, err := signing.NewSubject(c.Items[0], c.As)
	if err != nil {
		return nil, err
	}
	if err := paths.RefuseLinks(app, subject.File); err != nil {
		return nil, err
	}
	ref, _, err := itemAt(ctx, app, subject)
	switch {
	case err != nil:
		return nil, err
	case ref == subject.Name:
		return c.signItems(ctx, app)
	case ref != "":
		// Signing would remove its signature as an item.
		return nil, fault.New(fault.Validation, "%q is %q and cannot be %q as well", subject.File, ref, subject.Name).
			Try("rye sign "+fault.Quote(ref)).On("file", subject.File).On("ref", ref)
	}
	return c.signFile(ctx, app, subject)
}

// signFile signs a file under the name of --as. It needs no policy, because there may be none yet.
func (c *SignRun) signFile(ctx context.Context, app *cli.App, subject signing.Subject) (cli.Answer, error) {
	k, err := trusts.SigningKey(ctx, app, c.Key)
	if err != nil {
		return nil, err
	}
	t, err := paths.OpenTrust(app)
	if err != nil && !trust.IsMissing(err) {
		return nil, err
	}
	file, err := paths.Open(app, subject.File)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	signed, err := c.signer(app, k, t).SignFile(subject, file, c.DryRun)
	if err != nil {
		return nil, err
	}
	if !signed.Changed {
		app.Term.Note("%q is signed by %q already", subject.File, k.Name)
	}
	if signed.Refusal != nil {
		app.Term.Warn("that is not enough: %s", signed.Refusal.Text)
	}
	ans := &SignAnswer{Problems: []check.Problem{}, DryRun: c.DryRun}
	ans.add(signed)
	return ans, nil
}

func (c *SignRun) signer(a *cli.App, k trusts.Signer, t *trust.Trust) *signing.Signer {
	return &signing.Signer{Key: k.Private, Trust: t, V1: c.Format == sign.V1.String(), Upgrade: c.Upgrade,
		At: a.Clock().UTC().Truncate(time.Second), Now: a.Now()}
}
