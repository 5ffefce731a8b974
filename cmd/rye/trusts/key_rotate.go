package trusts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/trust"
)

func KeyRotateCommand() cli.Command {
	return cli.Command{
		Path: "key rotate", Quiet: true, Group: "trust", Help: "Create a key to replace an old one, with a rotation document.",
		More: "The document is signed by both keys and changes nothing by itself: everyone who trusts the old key runs rye trust add " +
			"--rotation FILE within 90 days, this user too. Where a rule asks for more keys, their owners sign it as well: rye sign FILE --as rotation:RULE. " +
			"The old key is kept until rye key remove.\n\nExamples:\n\n    rye key rotate\n    rye key rotate release --rule 'acme/**' --out rotation.yaml",
		New: func() cli.Runner { return new(keyRotateRun) }, Schema: "key-rotate/1", Output: keyRotateAnswer{},
	}
}

type keyRotateRun struct {
	Name       string `arg:"" optional:"" help:"Key to replace; default: the default key."`
	To         string `placeholder:"NAME" help:"Name of the new key."`
	Rule       string `placeholder:"GLOB" help:"Policy rule; default: the one naming the old key."`
	Expires    string `placeholder:"DATE" help:"Expiry of the new key."`
	Out        string `placeholder:"FILE" complete:"file" default:"rotation.yaml" help:"Write the document to this file (${default})."`
	Passphrase bool   `help:"Protect the new key with a passphrase."`
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
	root, err := places.RootAuthority(a)
	if err != nil {
		return nil, err
	}
	h := trust.Handover{Old: old.Public(), Kept: c.Name, Rule: c.Rule, To: c.To}
	if h.Expires, err = ParseDate("--expires", c.Expires); err != nil {
		return nil, err
	}
	entries, err := dir.List()
	if err != nil {
		return nil, err
	}
	step, others, err := h.Plan(root.Side, entries, a.Now())
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
	doc, id, err := h.Document(step, old.Private, fresh, a.Clock())
	if err != nil {
		return nil, err
	}
	// The key first: a document about a key that is lost would be worse than a key without one.
	if err := dir.Add(step.Key.Name, fresh, passphrase); err != nil {
		return nil, keyExists(step.Key.Name, err, "rye key rotate "+fault.Quote(c.Name)+" --to OTHER-NAME")
	}
	if err := osfile.WriteFile(c.Out, 0o644, true, osfile.BytesOf(doc)); err != nil {
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
	if others > 0 {
		a.Term.Note("%s of the rule must sign it as well: rye sign %s --as %s --key OTHER", fault.Count(int64(others), "other key"),
			fault.Quote(c.Out), fault.Quote("rotation:"+step.Rule))
	}
	a.Term.Note("nothing has changed yet: rye trust add --rotation %s, and then %s: what the old key has signed is refused from then on", fault.Quote(c.Out), sign)
	return keyRotateAnswer{step.Retire.String(), fresh.Public().Fingerprint().String(), step.Key.Name, step.Rule, c.Out, id.String()}, nil
}

func (c *keyRotateRun) exists(a *cli.App, err error) error {
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return &fault.Error{Code: fault.Validation, Err: err, Text: fmt.Sprintf("%q is there already", c.Out), Hint: []string{a.With("--out", "OTHER-FILE")}}
}
