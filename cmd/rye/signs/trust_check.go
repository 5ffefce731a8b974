package signs

import (
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

func TrustCheckCommand() cli.Command {
	return cli.Command{
		Path: "trust check", Group: "trust", Help: "Show which keys may sign a name, or check a file's signatures.",
		More: "With FILE it is rye verify. Without, it says which rule decides about NAME, in the user's policy and in the project's. If nobody " +
			"may vouch for it, the exit status is 1.\n\nExamples:\n\n    rye trust check tool:acme/fetch\n    rye trust check tool:acme/fetch fetch.py",
		Aka: []string{"trust explain", "trust why"},
		New: func() cli.Runner { return new(trustCheckRun) }, Schema: "trust-check/1", Output: trustCheckAnswer{},
	}
}

type trustCheckRun struct {
	Name string `arg:"" help:"Name: kind:id."`
	File string `arg:"" optional:"" complete:"file" help:"File to check under NAME."`
}

type trustCheckAnswer struct {
	Name     string        `json:"name"`
	Policies []checkLine   `json:"policies"` // the root, and the project's if there is one
	File     *VerifyAnswer `json:"file,omitempty"`
}

// checkLine is what one policy says about a name.
type checkLine struct {
	Policy    string                `json:"policy"`
	Origin    string                `json:"origin"`
	Rule      string                `json:"rule"` // empty: none covers the name
	Excepted  bool                  `json:"excepted"`
	Threshold int                   `json:"threshold"`
	Count     int                   `json:"count"` // of keys that may vouch now
	Keys      []trusts.TrustKeyLine `json:"keys"`
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
		line, err := check(t, au, c.Name)
		if err != nil {
			return nil, err
		}
		ans.Policies = append(ans.Policies, line)
		switch {
		case refused != nil:
		case line.Rule == "":
			refused = &fault.Error{Code: fault.Policy, Text: fmt.Sprintf("no rule of %q covers %q: nobody may vouch for it", au.Path, c.Name),
				Hint: []string{"rye trust add KEYFILE --owner OWNER --names GLOB"}}
		case line.Excepted:
			refused = &fault.Error{Code: fault.Policy, Text: fmt.Sprintf("%q excepts %q: nobody may vouch for it", line.Rule, c.Name)}
		case line.Count < line.Threshold:
			refused = &fault.Error{Code: fault.BelowThreshold, Text: fmt.Sprintf("%q asks for %s, and %d of its keys may vouch: nothing called %q can pass",
				line.Rule, fault.Count(int64(line.Threshold), "key"), line.Count, c.Name),
				Hint: []string{"rye trust add KEYFILE --owner OWNER --names " + fault.Quote(line.Rule), "rye trust list"}}
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

// check asks one policy about a name, for bytes that everybody has signed: what it answers is who could.
func check(t *trust.Trust, au *trust.Authority, name string) (checkLine, error) {
	line := checkLine{Policy: au.Path, Origin: au.Origin, Keys: []trusts.TrustKeyLine{}}
	r := policy.Request{Name: name, Raw: cas.Sum([]byte(name)), Now: t.Now}
	for _, k := range au.Side.Policy.Sections().Keys {
		r.Signers = append(r.Signers, sign.Signer{Key: k.Public, Format: sign.V2})
	}
	d := policy.Decide(r, policy.Side{Policy: au.Side.Policy, Lists: au.Side.Lists}, nil)
	switch d.Code {
	case policy.Ambiguous, policy.BadRequest, policy.ListStale:
		return line, &fault.Error{Code: d.Code.Fault(), Text: fmt.Sprintf("%q %s", name, d.Reason())}
	}
	line.Rule, line.Excepted, line.Threshold, line.Count = d.Rule, d.Excepted, d.Threshold, d.Count
	for _, r := range au.Side.Policy.Sections().Rules {
		if r.Glob != d.Rule || d.Excepted {
			continue
		}
		for _, n := range r.Keys {
			k, _ := au.Side.Policy.KeyNamed(n)
			l := trusts.NewTrustKeyLine(k, t.Now)
			for _, v := range d.Signers {
				if v.Key == k.Public.Fingerprint() && v.Code != policy.Admitted {
					l.Revoked, l.Fault = v.Code == policy.KeyRevoked, v.Code.String()
				}
			}
			line.Keys = append(line.Keys, l)
		}
	}
	return line, nil
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
		c.File.Text(t)
	}
}
