package trusts

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/trust"
)

type keyRotateRun struct {
	Name       string `arg:"" optional:"" complete:"key" help:"Key to replace; default: the default key."`
	To         string `placeholder:"NAME" help:"Name of the new key."`
	Rule       string `placeholder:"GLOB" complete:"rule" help:"Policy rule; default: the one naming the old key."`
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

func (k keyRotateAnswer) Text(t *cli.Terminal) { t.Printf("%s\n", k.File) }

func (c *keyRotateRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	dir, err := paths.KeysDir(app)
	if err != nil {
		return nil, err
	}
	if c.Name == "" {
		if c.Name, err = dir.Default(); err != nil {
			return nil, err
		}
	}
	old, err := SigningKey(ctx, app, c.Name)
	if err != nil {
		return nil, err
	}
	state, err := openKeyLine(app, c.Name)
	if err != nil {
		return nil, err
	}
	root, err := paths.Paths(app).RootPolicy()
	if err != nil {
		return nil, err
	}
	handover := trust.Handover{Old: old.Public(), Kept: c.Name, Rule: c.Rule, To: c.To}
	if handover.Expires, err = ParseDate("--expires", c.Expires); err != nil {
		return nil, err
	}
	entries, err := dir.List()
	if err != nil {
		return nil, err
	}
	step, others, err := handover.Plan(root.Side, entries, app.Now())
	if err != nil {
		return nil, err
	}
	var passphrase string
	if c.Passphrase {
		if passphrase, err = app.NewPassphrase(ctx); err != nil {
			return nil, err
		}
	}
	fresh, err := key.Generate(rand.Reader)
	if err != nil {
		return nil, err
	}
	doc, id, err := handover.Document(step, old.Private, fresh, app.Clock())
	if err != nil {
		return nil, err
	}
	// Write the key first: a document about a lost key would be worse than a key without a document.
	if err := dir.Add(step.Key.Name, fresh, passphrase); err != nil {
		return nil, keyExists(step.Key.Name, err,
			fault.Command("rye key rotate", c.Name, "--to", key.Next(step.Key.Name)))
	}
	if err := osfile.WriteFile(c.Out, 0o644, true, osfile.BytesOf(doc)); err != nil {
		return nil, errors.Join(c.exists(app, err), dir.Remove(step.Key.Name))
	}
	app.Term.Note("created the key %q, %s", step.Key.Name, fresh.Public().Fingerprint())
	if state.Locked && !c.Passphrase {
		app.Term.Warn(
			"the key %q has a passphrase, but %q has none: rye key rotate --passphrase adds one",
			c.Name, step.Key.Name)
	}
	sign := "rye sign --all"
	if !state.Default {
		sign += " --key " + fault.Quote(step.Key.Name)
	}
	if others > 0 {
		app.Term.Note("%s of the rule must sign it as well: rye sign %s --as %s --key OTHER",
			fault.Count(int64(others), "other key"),
			fault.Quote(c.Out), fault.Quote("rotation:"+step.Rule))
	}
	app.Term.Note(
		"nothing has changed yet: rye trust add --rotation %s retires the old key; then run %s",
		fault.Quote(c.Out), sign)
	return keyRotateAnswer{step.Retire.String(), fresh.Public().Fingerprint().String(), step.Key.Name, step.Rule,
		c.Out, id.String()}, nil
}

func (c *keyRotateRun) exists(a *cli.App, err error) error {
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fault.New(fault.Validation, "%q already exists", c.Out).From(err).Try(a.With("--out", otherFile(c.Out)))
}
