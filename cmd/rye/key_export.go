package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

func keyExportCommand() command {
	return command{
		path: "key export", group: "trust", help: "Write a key's public half, or the private one into a file.",
		more: "The public half goes to standard output, as PEM, for others to trust. --private writes the private half into FILE, which " +
			"must not be there yet, for this user alone, and asks first; a key with a passphrase stays locked with it.\n\n" +
			"Examples:\n\n    rye key export > alice.pem\n    rye key export release --private backup.pem",
		new: func() runner { return new(keyExportRun) }, schema: "key-export/1", output: keyExportAnswer{},
	}
}

type keyExportRun struct {
	Name    string `arg:"" optional:"" help:"A key; without NAME the one that signs."`
	Private string `placeholder:"FILE" complete:"file" help:"Write the private half into FILE."`
}

type keyExportAnswer struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
	PEM         string `json:"pem"`  // of the public half
	File        string `json:"file"` // that the private half was written into; empty if it wasn't
}

func (*keyExportRun) complete(_ context.Context, a *app, _, _ string) []candidate {
	return completeKeys(a)
}

func (k keyExportAnswer) text(t *terminal) {
	if k.File == "" {
		t.printf("%s", styled(k.PEM))
	}
}

func (c *keyExportRun) run(ctx context.Context, a *app) (answer, error) {
	dir, err := a.keysDir()
	if err != nil {
		return nil, err
	}
	name := c.Name
	if name == "" && a.env(envKey) != "" {
		return c.ofEnv(ctx, a)
	}
	if name == "" {
		if name, err = dir.Default(); err != nil {
			return nil, err
		}
	}
	if c.Private == "" {
		pub, err := dir.Public(name)
		if err != nil {
			return nil, a.noKey(name, err)
		}
		return keyExportAnswer{name, pub.Fingerprint().String(), string(pub.PEM()), ""}, nil
	}
	var passphrase string
	p, err := dir.Private(name, func() (string, error) {
		passphrase, err = a.passphrase(ctx, fmt.Sprintf("the key %q", name))()
		return passphrase, err
	})
	if err != nil {
		return nil, a.noKey(name, err)
	}
	if err := a.confirm(ctx, fmt.Sprintf("write the private half of %q into %q, where it signs for whoever reads it?", name, c.Private)); err != nil {
		return nil, err
	}
	return c.private(a, name, p, passphrase)
}

// ofEnv exports the public half of the key that signs by a variable.
func (c *keyExportRun) ofEnv(ctx context.Context, a *app) (answer, error) {
	if c.Private != "" {
		return nil, &fault.Error{Code: fault.Validation, Text: "the private half of the key that signs is in " + envKey + " already: name another key",
			Hint: []string{"rye key list"}}
	}
	s, err := a.openKey(ctx, "")
	if err != nil {
		return nil, err
	}
	return keyExportAnswer{s.name, s.Public().Fingerprint().String(), string(s.Public().PEM()), ""}, nil
}

// private writes the private half. It never goes to standard output, where logs and scrollback keep it.
func (c *keyExportRun) private(a *app, name string, p key.Private, passphrase string) (answer, error) {
	pem := p.PEM()
	if passphrase != "" {
		var err error
		if pem, err = p.Lock(passphrase); err != nil {
			return nil, err
		}
	}
	err := writeFile(c.Private, 0o600, true, bytesOf(pem))
	if errors.Is(err, fs.ErrExist) {
		return nil, &fault.Error{Code: fault.Validation, Err: err, Text: fmt.Sprintf("%q is there already", c.Private), Hint: []string{"rye key export --private OTHER-FILE " + fault.Quote(name)}}
	}
	if err != nil {
		return nil, err
	}
	a.term.note("wrote the private half of %q into %q", name, c.Private)
	return keyExportAnswer{name, p.Public().Fingerprint().String(), string(p.Public().PEM()), c.Private}, nil
}
