package signs

import (
	"context"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest/signing"
	"github.com/rye-build/rye/manifest/trust"
)

func TrustCheckCommand() cli.Command {
	return cli.Command{
		Path: "trust check", Group: "trust", Help: "Show which keys may sign a name, or check a file's signatures.",
		More: "With FILE it is rye verify. Without, it says which rule decides about NAME, in the user's policy and in the project's. If no key " +
			"may sign it, the exit status is 1.\n\nExamples:\n\n    rye trust check tool:acme/fetch\n    rye trust check tool:acme/fetch fetch.py",
		Aka: []string{"trust explain", "trust why"},
		New: func() cli.Runner { return new(trustCheckRun) }, Schema: "trust-check/1", Output: trustCheckAnswer{},
	}
}

type trustCheckRun struct {
	Name string `arg:"" help:"Name: kind:id."`
	File string `arg:"" optional:"" complete:"file" help:"File to check under NAME."`
}

type trustCheckAnswer struct {
	Name     string            `json:"name"`
	Policies []trust.NameCheck `json:"policies"` // the root, and the project's if there is one
	File     *signing.Evidence `json:"file,omitempty"`
}

func (c *trustCheckRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	t, err := places.OpenTrust(a)
	if trust.IsMissing(err) {
		return nil, fault.Of(err).Asked()
	}
	if err != nil {
		return nil, err
	}
	if err := trusts.KnownKind(ctx, a, c.Name); err != nil {
		return nil, err
	}
	ans := trustCheckAnswer{Name: c.Name}
	var refused *fault.Error
	for _, au := range t.Authorities() {
		line, err := au.CheckName(c.Name, t.Now)
		if err != nil {
			return nil, err
		}
		if ans.Policies = append(ans.Policies, line); refused == nil {
			refused = line.Refusal(c.Name)
		}
	}
	if c.File != "" {
		file, err := (&VerifyRun{Items: []string{c.File}, As: c.Name}).Run(ctx, a)
		if r, ok := file.(*VerifyReport); ok {
			ans.File = r.Files[0]
		}
		return ans, err
	}
	if refused != nil {
		return ans, refused.Asked()
	}
	return ans, nil
}

func (c trustCheckAnswer) Text(t *cli.Terminal) {
	for _, p := range c.Policies {
		var who []string
		for _, k := range p.Keys {
			s := k.Name + " " + places.Short(k.Fingerprint)
			if k.Fault != "" {
				s += " (" + k.Fault + ")"
			}
			who = append(who, s)
		}
		switch {
		case p.Rule == "":
			t.Printf("%s: no rule covers %s\n", p.Origin, c.Name)
		case p.Excepted:
			t.Printf("%s: %q excepts %s\n", p.Origin, p.Rule, c.Name)
		default:
			t.Printf("%s: %q decides, keys: [%s], threshold: %d\n", p.Origin, p.Rule, strings.Join(who, ", "), p.Threshold)
		}
	}
	if c.File != nil {
		printEvidence(t, c.File)
	}
}
