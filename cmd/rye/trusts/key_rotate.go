package trusts

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

func KeyRotateCommand() cli.Command {
	return cli.Command{
		Path: "key rotate", Quiet: true, Group: "trust", Help: "Create a key to replace an old one, with a rotation document.",
		More: "The document is signed by both keys and changes nothing by itself: everybody who trusts the old key runs rye trust add " +
			"--rotation FILE within 90 days, this user too. Where a rule asks for more keys, their owners sign it as well: rye sign FILE --as rotation:RULE. " +
			"The old key is kept until rye key remove.\n\nExamples:\n\n    rye key rotate\n    rye key rotate release --rule 'acme/**' --out rotation.yaml",
		New: func() cli.Runner { return new(keyRotateRun) }, Schema: "key-rotate/1", Output: keyRotateAnswer{},
	}
}

// rotationOffer is how long a rotation can be taken. Who takes it remembers it, and it ends for those who forget.
const rotationOffer = 90 * 24 * time.Hour

type keyRotateRun struct {
	Name       string `arg:"" optional:"" help:"Key to replace; default: the default key."`
	To         string `placeholder:"NAME" help:"Name of the new key."`
	Rule       string `placeholder:"GLOB" help:"Policy rule; default: the one naming the old key."`
	Expires    string `placeholder:"DATE" help:"Expiry of the new key."`
	Out        string `placeholder:"FILE" complete:"file" default:"rotation.yaml" help:"Write the document to this file (${default})."`
	Passphrase bool   `help:"Protect the new key with a passphrase."`
	missing    int    // how many other keys of the rule have to sign
}

type keyRotateAnswer struct {
	Old  string `json:"old"` // fingerprints
	New  string `json:"new"`
	Name string `json:"name"` // of the new key
	Rule string `json:"rule"`
	File string `json:"file"`
	ID   string `json:"id"` // of the document
}

func (c *keyRotateRun) Complete(_ context.Context, a *cli.App, name, _ string) (out []cli.Candidate) {
	switch name {
	case "rule":
		if au, err := places.RootAuthority(a); err == nil {
			for _, r := range au.Side.Policy.Sections().Rules {
				out = append(out, cli.Candidate{Value: r.Glob, Help: ""})
			}
		}
		return out
	case "name":
		return CompleteKeys(a)
	}
	return nil
}

func (k keyRotateAnswer) Text(t *cli.Terminal) { t.Printf("%s\n", k.File) }

func (c *keyRotateRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	dir, err := places.KeysDir(a)
	if err != nil {
		return nil, err
	}
	if c.Name == "" {
		if c.Name, err = dir.Default(); err != nil {
			return nil, err
		}
	}
	old, err := SigningKey(ctx, a, c.Name)
	if err != nil {
		return nil, err
	}
	kept, err := openKeyLine(a, c.Name)
	if err != nil {
		return nil, err
	}
	step, err := c.step(a, old.Public(), dir)
	if err != nil {
		return nil, err
	}
	var passphrase string
	if c.Passphrase {
		if passphrase, err = a.NewPassphrase(ctx); err != nil {
			return nil, err
		}
	}
	fresh, err := key.Generate(rand.Reader)
	if err != nil {
		return nil, err
	}
	step.Key.Public = fresh.Public()
	step.Expires = a.Now().UTC().Truncate(time.Second).Add(rotationOffer)
	body, doc, err := manifest.AppendRotation(nil, step)
	if err != nil {
		return nil, err
	}
	for _, k := range []key.Private{old.Private, fresh} {
		if err := doc.Sign(k, a.Clock().UTC().Truncate(time.Second)); err != nil {
			return nil, err
		}
	}
	// The key first: a document about a key that nobody has would be worse than a key without one.
	if err := dir.Add(step.Key.Name, fresh, passphrase); err != nil {
		return nil, keyExists(step.Key.Name, err, "rye key rotate "+fault.Quote(c.Name)+" --to OTHER-NAME")
	}
	if err := osfile.WriteFile(c.Out, 0o644, true, osfile.BytesOf(manifest.Join(nil, body, doc.Signatures))); err != nil {
		return nil, errors.Join(c.exists(a, err), dir.Remove(step.Key.Name))
	}
	a.Term.Note("made the key %q, %s", step.Key.Name, fresh.Public().Fingerprint())
	if kept.Locked && !c.Passphrase {
		a.Term.Warn("the key %q is locked by a passphrase, and %q is not: rye key rotate --passphrase would have locked it", c.Name, step.Key.Name)
	}
	sign := "rye sign --all"
	if !kept.Default {
		sign += " --key " + fault.Quote(step.Key.Name)
	}
	if c.missing > 0 {
		a.Term.Note("%s of the rule must sign it as well: rye sign %s --as %s --key OTHER", fault.Count(int64(c.missing), "other key"),
			fault.Quote(c.Out), fault.Quote("rotation:"+step.Rule))
	}
	a.Term.Note("nothing has changed yet: rye trust add --rotation %s, and then %s: what the old key has signed is refused from then on", fault.Quote(c.Out), sign)
	return keyRotateAnswer{step.Retire.String(), fresh.Public().Fingerprint().String(), step.Key.Name, step.Rule, c.Out, doc.ID.String()}, nil
}

func (c *keyRotateRun) exists(a *cli.App, err error) error {
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return &fault.Error{Code: fault.Validation, Err: err, Text: fmt.Sprintf("%q is there already", c.Out), Hint: []string{a.With("--out", "OTHER-FILE")}}
}

// void refuses a rotation that a key is too late for.
func (c *keyRotateRun) void(k policy.Key, revoked bool) error {
	f := &fault.Error{Code: fault.Expired, Text: fmt.Sprintf("the key %q expired on %s: it can't hand over to another any more", c.Name, yamltree.DateText(k.Expires))}
	if revoked {
		f.Code, f.Text = fault.Revoked, fmt.Sprintf("the key %q is revoked: it can't hand over to another any more", c.Name)
	}
	f.Why = []string{"whoever trusts it has to be given a new key, as they were given this one"}
	f.Hint = []string{"rye key new OTHER-NAME", "rye trust add KEYFILE --owner " + fault.Quote(cmp.Or(k.Owner, "OWNER")) + " --names " + fault.Quote(c.Rule)}
	return f
}

// step says which key of which rule goes, and what the new one is called.
func (c *keyRotateRun) step(a *cli.App, old key.Public, dir key.Dir) (policy.Rotation, error) {
	au, err := places.RootAuthority(a)
	if err != nil {
		return policy.Rotation{}, err
	}
	p := au.Side.Policy
	known, ok := p.Key(old.Fingerprint())
	rules := Vouches(p, known.Name)
	switch {
	case !ok || len(rules) == 0:
		return policy.Rotation{}, &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("no rule of the policy names the key %q: there is nothing to take over", c.Name),
			Hint: []string{"rye key new OTHER-NAME"}}
	case c.Rule == "" && len(rules) > 1:
		return policy.Rotation{}, &fault.Error{Code: fault.Ambiguous, Text: fmt.Sprintf("%d rules name the key %q, and each takes a rotation of its own", len(rules), c.Name),
			Why: rules, Hint: []string{a.With("--rule", rules[0])}}
	case c.Rule == "":
		c.Rule = rules[0]
	case !slices.Contains(rules, c.Rule):
		return policy.Rotation{}, &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("no rule %q of the policy names the key %q", c.Rule, c.Name), Why: rules}
	}
	step := policy.Rotation{Rule: c.Rule, Retire: old.Fingerprint(), Key: policy.Key{Name: c.To, Owner: known.Owner}}
	threshold := 0
	for _, r := range p.Sections().Rules {
		if r.Glob != c.Rule {
			continue
		}
		threshold = r.Threshold
		for _, name := range r.Keys {
			k, _ := p.KeyNamed(name)
			step.Before = append(step.Before, k.Public.Fingerprint())
		}
	}
	line := NewTrustKeyLine(known, a.Now())
	revoked := slices.ContainsFunc(p.Sections().Revoked, func(r policy.Revocation) bool { return r.Key == old.Fingerprint() })
	if (line.Expired || revoked) && len(step.Before)-1 < threshold {
		// Nobody else is there to sign in its place, so that the document would be refused by everybody.
		return step, c.void(known, revoked)
	}
	if c.missing = threshold; !line.Expired && !revoked {
		c.missing-- // the one that goes signs
	}
	if step.Key.Expires, err = ParseDate("--expires", c.Expires); err != nil {
		return step, err
	}
	entries, err := dir.List()
	for i := 2; step.Key.Name == ""; i++ {
		name := fmt.Sprintf("%s-%d", c.Name, i)
		if !taken(p, name) && !slices.ContainsFunc(entries, func(e key.Entry) bool { return e.Name == name }) {
			step.Key.Name = name
		}
	}
	if err == nil {
		err = key.CheckName(step.Key.Name)
	}
	return step, err
}
