package trusts

import (
	"context"
	"fmt"
	"os"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/manifest/key"
)

func KeyImportCommand() cli.Command {
	return cli.Command{
		Path: "key import", Quiet: true, Group: "trust", Help: "Import a private key.",
		More: "FILE is a private key (PEM, PKCS#8, Ed25519), locked with a passphrase or not; \"-\" is standard input. A locked one stays " +
			"locked with the same passphrase, and --passphrase locks one that isn't. The public key of another person belongs in the policy: " +
			"rye trust add.\n\nExamples:\n\n    rye key import backup.pem\n    rye key import backup.pem release --passphrase",
		Aka: []string{"key add"},
		New: func() cli.Runner { return new(keyImportRun) }, Schema: "key-import/1", Output: keyShowAnswer{},
	}
}

type keyImportRun struct {
	File       string `arg:"" complete:"file" help:"Private key; - for standard input."`
	Name       string `arg:"" optional:"" default:"default" help:"Name of the key."`
	Passphrase bool   `help:"Protect it with a passphrase."`
}

func (c *keyImportRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	dir, err := places.KeysDir(a)
	if err != nil {
		return nil, err
	}
	if err := key.CheckName(c.Name); err != nil {
		return nil, err
	}
	pem, err := places.ReadArgument(ctx, a, c.File)
	if err != nil {
		return nil, err
	}
	if _, err := key.ParsePublicPEM(pem); err == nil {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is a public key, which can't sign", c.File),
			Hint: []string{"rye trust add " + fault.Quote(c.File) + " --owner OWNER --names GLOB"}}
	}
	var passphrase string
	p, err := key.ParsePrivate(pem, func() (string, error) {
		passphrase, err = a.Passphrase(ctx, fmt.Sprintf("the key in %q", c.File))()
		return passphrase, err
	})
	if err != nil {
		return nil, fmt.Errorf("%q: %w", c.File, err)
	}
	if c.Passphrase && passphrase == "" {
		if passphrase, err = a.NewPassphrase(ctx); err != nil {
			return nil, err
		}
	}
	WarnReadable(a, c.File)
	if err := dir.Add(c.Name, p, passphrase); err != nil {
		return nil, keyExists(c.Name, err, "rye key import "+fault.Quote(c.File)+" OTHER-NAME", "rye key show "+fault.Quote(c.Name))
	}
	l, err := openKeyLine(a, c.Name)
	if err != nil {
		return nil, err
	}
	a.Term.Note("kept the key %q, %s", c.Name, l.Fingerprint)
	if l.InPolicy == "" {
		a.Term.Note("the policy doesn't know it: rye trust add %s --owner OWNER --names GLOB", l.Public)
	}
	return keyShowAnswer{l}, nil
}

// WarnReadable warns of a private key that others could have read.
func WarnReadable(a *cli.App, file string) {
	if fi, err := os.Stat(file); err == nil && fi.Mode().IsRegular() && cli.OthersMayRead(fi) {
		a.Term.Warn("others may read %q, and may have", file)
	}
}
