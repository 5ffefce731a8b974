package trusts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/key"
)

type keyExportRun struct {
	Name    string `arg:"" optional:"" complete:"key" help:"Key; default: the signing key."`
	Private string `placeholder:"FILE" complete:"file" help:"Write the private key to FILE."`
}

type keyExportAnswer struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
	PEM         string `json:"pem"`  // of the public half
	File        string `json:"file"` // with the private half; empty without --private
}

func (k keyExportAnswer) Text(t *cli.Terminal) {
	if k.File == "" {
		t.Printf("%s", cli.Styled(k.PEM))
	}
}

func (c *keyExportRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	dir, err := paths.KeysDir(app)
	if err != nil {
		return nil, err
	}
	name := c.Name
	if name == "" && app.Env(cli.EnvKey) != "" {
		return c.ofEnv(ctx, app)
	}
	if name == "" {
		if name, err = dir.Default(); err != nil {
			return nil, err
		}
	}
	if c.Private == "" {
		pub, err := dir.Public(name)
		if err != nil {
			return nil, NoKey(app, name, err)
		}
		return keyExportAnswer{name, pub.Fingerprint().String(), string(pub.PEM()), ""}, nil
	}
	var passphrase string
	signer, err := dir.Private(name, func() (string, error) {
		passphrase, err = app.Passphrase(ctx, fmt.Sprintf("the key %q", name))()
		return passphrase, err
	})
	if err != nil {
		return nil, NoKey(app, name, err)
	}
	if err := app.Confirm(ctx,
		fmt.Sprintf("write the private half of %q to %q, where anyone who reads it can sign with it?", name,
			c.Private)); err != nil {
		return nil, err
	}
	return c.private(app, name, signer, passphrase)
}

// ofEnv exports the public half of the key in RYE_KEY.
func (c *keyExportRun) ofEnv(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.Private != "" {
		return nil, fault.New(fault.Validation,
			"%s already holds the private half of this key: name another key", cli.EnvKey).
			Try("rye key list")
	}
	s, err := openKey(ctx, a, "")
	if err != nil {
		return nil, err
	}
	return keyExportAnswer{s.Name, s.Public().Fingerprint().String(), string(s.Public().PEM()), ""}, nil
}

// otherFile suggests a free name for a file that exists.
func otherFile(file string) string {
	ext := filepath.Ext(file)
	return key.Next(strings.TrimSuffix(file, ext)) + ext
}

// private writes the private half to a file. It never goes to standard output, because logs and scrollback keep
// that.
func (c *keyExportRun) private(app *cli.App, name string, signer key.Private, passphrase string) (cli.Answer, error) {
	pem := signer.PEM()
	if passphrase != "" {
		var err error
		if pem, err = signer.Lock(passphrase); err != nil {
			return nil, err
		}
	}
	err := osfile.WriteFile(c.Private, 0o600, true, osfile.BytesOf(pem))
	if errors.Is(err, fs.ErrExist) {
		return nil, fault.New(fault.Validation, "%q already exists", c.Private).From(err).
			Try(fault.Command("rye key export --private", otherFile(c.Private), name))
	}
	if err != nil {
		return nil, err
	}
	app.Term.Note("wrote the private half of %q to %q", name, c.Private)
	return keyExportAnswer{name, signer.Public().Fingerprint().String(), string(signer.Public().PEM()), c.Private}, nil
}
