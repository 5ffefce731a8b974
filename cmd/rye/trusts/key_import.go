package trusts

import (
	"context"
	"fmt"
	"os"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/key"
)

type keyImportRun struct {
	File       string `arg:"" complete:"file" help:"Private key; - for standard input."`
	Name       string `arg:"" optional:"" default:"default" help:"Name of the key."`
	Passphrase bool   `help:"Protect it with a passphrase."`
}

func (c *keyImportRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	dir, err := paths.KeysDir(app)
	if err != nil {
		return nil, err
	}
	if err := key.CheckName(c.Name); err != nil {
		return nil, err
	}
	pem, err := paths.ReadArgument(ctx, app, c.File)
	if err != nil {
		return nil, err
	}
	if _, err := key.ParsePublicPEM(pem); err == nil {
		return nil, fault.New(fault.Validation, "%q is a public key, which can't sign", c.File).
			Try(fault.Command("rye trust add", c.File))
	}
	var passphrase string
	signer, err := key.ParsePrivate(pem, func() (string, error) {
		passphrase, err = app.Passphrase(ctx, fmt.Sprintf("the key in %q", c.File))()
		return passphrase, err
	})
	if err != nil {
		return nil, fmt.Errorf("%q: %w", c.File, err)
	}
	if c.Passphrase && passphrase == "" {
		if passphrase, err = app.NewPassphrase(ctx); err != nil {
			return nil, err
		}
	}
	WarnReadable(app, c.File)
	if err := dir.Add(c.Name, signer, passphrase); err != nil {
		return nil, keyExists(c.Name, err, fault.Command("rye key import", c.File, key.Next(c.Name)),
			"rye key show "+fault.Quote(c.Name))
	}
	l, err := openKeyLine(app, c.Name)
	if err != nil {
		return nil, err
	}
	app.Term.Note("imported the key %q, %s", c.Name, l.Fingerprint)
	if l.InPolicy == "" {
		app.Term.Note("the policy doesn't contain it: rye trust add %s --owner OWNER --names GLOB", l.Public)
	}
	return keyShowAnswer{l}, nil
}

// WarnReadable warns if other users can read the file of a private key.
func WarnReadable(a *cli.App, file string) {
	if fi, err := os.Stat(file); err == nil && fi.Mode().IsRegular() && cli.OthersMayRead(fi) {
		a.Term.Warn("other users can read %q, and may have done so", file)
	}
}
