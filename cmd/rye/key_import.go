package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

func keyImportCommand() command {
	return command{
		path: "key import", group: "trust", help: "Keep a private key that was made elsewhere.",
		more: "FILE is a private key (PEM, PKCS#8, Ed25519), locked with a passphrase or not; \"-\" is standard input. A locked one stays " +
			"locked with the same passphrase, and --passphrase locks one that isn't. Somebody else's public key belongs into the policy: " +
			"rye trust add.\n\nExamples:\n\n    rye key import backup.pem\n    rye key import backup.pem release --passphrase",
		aka: []string{"key add"},
		new: func() runner { return new(keyImportRun) }, schema: "key-import/1", output: keyShowAnswer{},
	}
}

type keyImportRun struct {
	File       string `arg:"" complete:"file" help:"A private key; \"-\" is standard input."`
	Name       string `arg:"" optional:"" default:"default" help:"What to call it."`
	Passphrase bool   `help:"Lock it with a passphrase."`
}

func (c *keyImportRun) run(ctx context.Context, a *app) (answer, error) {
	dir, err := a.keysDir()
	if err != nil {
		return nil, err
	}
	if err := key.CheckName(c.Name); err != nil {
		return nil, err
	}
	pem, err := a.readArgument(ctx, c.File)
	if err != nil {
		return nil, err
	}
	if _, err := key.ParsePublicPEM(pem); err == nil {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is a public key, which can't sign", c.File),
			Hint: []string{"rye trust add " + fault.Quote(c.File) + " --owner OWNER --names GLOB"}}
	}
	var passphrase string
	p, err := key.ParsePrivate(pem, func() (string, error) {
		passphrase, err = a.passphrase(ctx, fmt.Sprintf("the key in %q", c.File))()
		return passphrase, err
	})
	if err != nil {
		return nil, fmt.Errorf("%q: %w", c.File, err)
	}
	if c.Passphrase && passphrase == "" {
		if passphrase, err = a.newPassphrase(ctx); err != nil {
			return nil, err
		}
	}
	a.warnReadable(c.File)
	if err := dir.Add(c.Name, p, passphrase); err != nil {
		return nil, keyExists(c.Name, err, "rye key import "+fault.Quote(c.File)+" OTHER-NAME", "rye key show "+fault.Quote(c.Name))
	}
	l, err := a.keyLine(c.Name)
	if err != nil {
		return nil, err
	}
	a.term.note("kept the key %q, %s", c.Name, l.Fingerprint)
	if l.InPolicy == "" {
		a.term.note("the policy doesn't know it: rye trust add %s --owner OWNER --names GLOB", l.Public)
	}
	return keyShowAnswer{l}, nil
}

// warnReadable warns of a private key that others could have read.
func (a *app) warnReadable(file string) {
	if fi, err := os.Stat(file); err == nil && fi.Mode().IsRegular() && othersMayRead(fi) {
		a.term.warn("others may read %q, and may have", file)
	}
}

// maxKeyFile bounds files of keys, locked ones included.
const maxKeyFile = 64 << 10

// readArgument reads a small file that was named on the command line; "-" is standard input.
func (a *app) readArgument(ctx context.Context, path string) ([]byte, error) {
	if path != "-" {
		return readSmall(path, maxKeyFile)
	}
	b, err := io.ReadAll(io.LimitReader(a.input(ctx), maxKeyFile+1))
	if err == nil && len(b) > maxKeyFile {
		err = errors.New("standard input is too long for a key")
	}
	return b, err
}
