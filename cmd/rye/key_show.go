package main

import (
	"context"
	"strings"
)

func keyShowCommand() command {
	return command{
		path: "key show", group: "trust", help: "Show a key: its public half, its fingerprint, what it vouches for.",
		more: "Without NAME it is the key that signs. The public half is what others give to rye trust add.\n\n" +
			"Examples:\n\n    rye key show\n    rye key show release --json",
		aka: []string{"key fingerprint", "key info", "whoami"},
		new: func() runner { return new(keyShowRun) }, schema: "key-show/1", output: keyShowAnswer{},
	}
}

type keyShowRun struct {
	Name string `arg:"" optional:"" help:"A key."`
}

type keyShowAnswer struct {
	Key keyLine `json:"key"`
}

func (*keyShowRun) complete(_ context.Context, a *app, _, _ string) []candidate {
	return completeKeys(a)
}

func (c *keyShowRun) run(ctx context.Context, a *app) (answer, error) {
	name := c.Name
	if name == "" && a.env(envKey) != "" {
		s, err := a.openKey(ctx, "")
		if err != nil {
			return nil, err
		}
		l := keyLine{Name: s.name, Default: true}
		l.public(s.Public())
		if _, err := a.rootAuthority(); err != nil {
			return nil, err
		}
		l.inPolicy(a.rootSide(), s.Public(), a.now())
		return keyShowAnswer{l}, nil
	}
	if name == "" {
		dir, err := a.keysDir()
		if err != nil {
			return nil, err
		}
		if name, err = dir.Default(); err != nil {
			return nil, err
		}
	}
	l, err := a.keyLine(name)
	if err != nil {
		return nil, err
	}
	return keyShowAnswer{l}, nil
}

func (k keyShowAnswer) text(t *terminal) {
	l := k.Key
	names := l.Vouches
	if l.Fault != "" {
		names = nil
	}
	t.rows([][]string{
		{"name", l.Name}, {"public", orDash(l.Public)}, {"fingerprint", orDash(l.Fingerprint)}, {"v1", orDash(l.V1)},
		{"state", l.state()}, {"vouches for", orDash(strings.Join(names, " "))},
	})
}
