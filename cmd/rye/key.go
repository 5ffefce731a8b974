package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
)

// keyGroup is what "rye key" alone shows.
func keyGroup() command {
	return command{
		path: "key", group: "trust", help: "Make and keep the keys that sign.",
		aka: []string{"keys"},
		more: "Keys are kept in keys/ of the user space, for this user alone. What signs is --key NAME, else " + envKey +
			" (PEM, with " + envPassphrase + "), else the default key. Whom to trust is the policy's matter: see rye trust.",
	}
}

// keysDir is the directory of this user's keys.
func (a *app) keysDir() (key.Dir, error) {
	s := userSpace(a.userBase())
	if s.err != nil {
		return key.Dir{}, s.err
	}
	return key.OpenDir(filepath.Join(s.value, "keys")), nil
}

// noKey gives fs.ErrNotExist the words of a key that isn't there.
func (a *app) noKey(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f := &fault.Error{Code: fault.NotFound, Err: err, Text: fmt.Sprintf("there is no key %q", name),
		Hint: []string{"rye key new", "rye key list"}, Details: map[string]any{"key": name}}
	if name != key.DefaultName {
		f.Hint = f.Hint[1:]
		dir, err := a.keysDir()
		// Since a rotation the key that signs is called otherwise, and it may have been removed.
		if first, _ := dir.Default(); err == nil && name == first {
			f.Hint = []string{"rye key new " + fault.Quote(name), "rye key list"}
		}
	}
	var names []string
	for _, c := range completeKeys(a) {
		names = append(names, c.Value)
	}
	if len(names) == 0 && a.env(envTrust) != "" {
		f.Why = []string{"the first key comes with a policy, and " + envTrust + " names one; a key in " + envKey + " signs as well"}
		f.Hint = append([]string{"unset " + envTrust}, f.Hint...)
	}
	if meant := near.Names(name, names); len(meant) > 0 {
		f.Why = []string{"did you mean " + meant[0] + "?"}
	}
	return f
}

// A signer is a private key and how it was found.
type signer struct {
	key.Private
	name string // of a kept key, or RYE_KEY
}

// signingKey opens the key that signs: that of a name, else RYE_KEY, else the default key. Nothing is signed as long
// as private keys lie where they get into other hands.
func (a *app) signingKey(ctx context.Context, name string) (signer, error) {
	if err := a.checkKeyPlaces(); err != nil {
		return signer{}, err
	}
	return a.openKey(ctx, name)
}

func (a *app) openKey(ctx context.Context, name string) (signer, error) {
	if pem := a.env(envKey); name == "" && pem != "" {
		p, err := key.ParsePrivate([]byte(pem), a.passphrase(ctx, "the key in "+envKey))
		if err != nil {
			f := classify(fmt.Errorf("the key in %s: %w", envKey, err))
			if !strings.Contains(pem, "-----BEGIN") {
				f.Code, f.Why = fault.Config, []string{"it holds the text of a private key (PEM), not the name of a file"}
				f.Hint = []string{"export " + envKey + "=\"$(cat FILE)\""}
			}
			return signer{}, f
		}
		return signer{p, envKey}, nil
	}
	dir, err := a.keysDir()
	if err != nil {
		return signer{}, err
	}
	if name == "" {
		if name, err = dir.Default(); err != nil {
			return signer{}, err
		}
	}
	p, err := dir.Private(name, a.passphrase(ctx, fmt.Sprintf("the key %q", name)))
	if err != nil {
		return signer{}, a.noKey(name, err)
	}
	return signer{p, name}, nil
}

// keySetting is the key that signs where none is named.
func (a *app) keySetting() setting {
	if a.env(envKey) != "" {
		return setting{value: "set", origin: envKey}
	}
	dir, err := a.keysDir()
	if err != nil {
		return setting{origin: "HOME", err: err}
	}
	name, err := dir.Default()
	if err == nil {
		_, err = dir.Public(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return setting{origin: "there is none: rye key new"}
	case err != nil && !errors.Is(err, key.ErrLocked):
		return setting{origin: "default", err: err}
	}
	return setting{value: name, origin: "default"}
}

// keyLine is what is said of one kept key.
type keyLine struct {
	Name        string   `json:"name"`
	Public      string   `json:"public"` // as in a policy; empty if it can't be read
	Fingerprint string   `json:"fingerprint"`
	V1          string   `json:"v1"` // what signature lines of the first format call it
	Locked      bool     `json:"locked"`
	Default     bool     `json:"default"`         // signs where no other is named
	InPolicy    string   `json:"in_policy"`       // its name in the root policy; empty if it has none
	Vouches     []string `json:"vouches"`         // globs of the rules that name it
	Fault       string   `json:"fault,omitempty"` // why it doesn't count now, whatever rules name it
	Error       string   `json:"error,omitempty"`
	hint        string   // what to do about the error
}

func (l *keyLine) public(p key.Public) {
	if p.IsZero() {
		return
	}
	l.Public, l.Fingerprint, l.V1 = p.String(), p.Fingerprint().String(), p.V1ID()
}

// inPolicy adds what a policy says of the key.
func (l *keyLine) inPolicy(s policy.Side, pub key.Public, now time.Time) {
	l.Vouches = []string{}
	if s.Policy == nil || pub.IsZero() {
		return
	}
	known, ok := s.Policy.Key(pub.Fingerprint())
	if !ok {
		return
	}
	l.InPolicy, l.Vouches = known.Name, append(l.Vouches, vouches(s.Policy, known.Name)...)
	if fault := s.KeyFault(known, now); fault != policy.Admitted {
		l.Fault = fault.String()
	}
}

// rootSide is the root policy with its lists, for what is told of keys. One that can't be read says nothing about them.
func (a *app) rootSide() policy.Side {
	au, err := a.rootAuthority()
	if err != nil {
		return policy.Side{}
	}
	au.side.Lists, _ = a.lists().load(au)
	return au.side
}

// vouches lists the rules that name a key.
func vouches(p *policy.Policy, name string) (globs []string) {
	for _, r := range p.Sections().Rules {
		if slices.Contains(r.Keys, name) {
			globs = append(globs, r.Glob)
		}
	}
	return globs
}

// keyLines lists the kept keys.
func (a *app) keyLines() ([]keyLine, error) {
	dir, err := a.keysDir()
	if err != nil {
		return nil, err
	}
	entries, err := dir.List()
	if err != nil {
		return nil, err
	}
	first, err := dir.Default()
	if err != nil {
		return nil, err
	}
	known := a.rootSide()
	lines := make([]keyLine, len(entries))
	for i, e := range entries {
		l := keyLine{Name: e.Name, Locked: e.Locked, Default: e.Name == first}
		l.public(e.Public)
		l.inPolicy(known, e.Public, a.now())
		if e.Err != nil {
			f := classify(e.Err)
			if l.Error = f.Text; len(f.Hint) > 0 {
				l.hint = f.Hint[0]
			}
		}
		lines[i] = l
	}
	return lines, nil
}

// completeKeys offers the kept keys.
func completeKeys(a *app) []candidate {
	lines, err := a.keyLines()
	if err != nil {
		return nil
	}
	out := make([]candidate, len(lines))
	for i, l := range lines {
		out[i] = candidate{l.Name, "key " + short(l.Fingerprint)}
	}
	return out
}

// short cuts the digits of a fingerprint to what people are shown.
func short(fingerprint string) string { return fingerprint[:min(12, len(fingerprint))] }

// keyFlag is the flag of commands that sign.
type keyFlag struct {
	Key string `placeholder:"NAME" help:"Sign with this key instead of the default one."`
}
