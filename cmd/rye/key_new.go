package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
)

func keyNewCommand() command {
	return command{
		path: "key new", group: "trust", help: "Make a key.",
		more: "The first key is trusted for the names ** except rye/** in the user's policy; where the key is there and the policy isn't, only the policy is made. Later ones vouch for nothing until " +
			"rye trust add says so. --passphrase locks the file; the passphrase is " + envPassphrase + ", else it is asked for.\n\n" +
			"Examples:\n\n    rye key new\n    rye key new --owner 'Acme Ltd'\n    rye key new release --passphrase",
		aka: []string{"key create", "key generate", "keygen"},
		new: func() runner { return new(keyNewRun) }, schema: "key-new/1", output: keyNewAnswer{},
	}
}

type keyNewRun struct {
	Name       string `arg:"" optional:"" default:"default" help:"What to call it: lower-case letters, digits, - and _."`
	Owner      string `placeholder:"TEXT" help:"Whose it is, for the policy."`
	Passphrase bool   `help:"Lock it with a passphrase."`
}

type keyNewAnswer struct {
	Key    keyLine     `json:"key"`
	Policy trustChange `json:"policy"`
}

func (k keyNewAnswer) text(t *terminal) {
	t.printf("%s\n", k.Key.Fingerprint)
	k.Policy.text(t)
}

func (c *keyNewRun) run(ctx context.Context, a *app) (answer, error) {
	// Nobody is kept waiting while somebody types.
	var passphrase string
	if c.Passphrase {
		was, err := c.look(a)
		if err == nil && !was.there {
			passphrase, err = a.newPassphrase(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	unlock, err := a.aloneAtHome(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return c.make(ctx, a, passphrase)
}

// keysBefore is what a user has before a key is made.
type keysBefore struct {
	dir   key.Dir
	kept  []key.Entry
	none  bool // no policy
	there bool // a key with the name, without a policy
}

// look finds what would stand in the way before there is a key.
func (c *keyNewRun) look(a *app) (was keysBefore, err error) {
	if was.dir, err = a.keysDir(); err != nil {
		return was, err
	}
	if err := key.CheckName(c.Name); err != nil {
		return was, err
	}
	if was.kept, err = was.dir.List(); err != nil {
		return was, err
	}
	au, err := a.rootAuthority()
	was.none = err == nil && au.file == nil
	if len(was.kept) == 0 || was.none {
		if err == nil {
			err = a.editable()
		}
		if err != nil {
			return was, err
		}
	}
	was.there = slices.ContainsFunc(was.kept, func(e key.Entry) bool { return e.Name == c.Name })
	if was.there && !was.none {
		return was, keyExists(c.Name, nil, "rye key new OTHER-NAME", "rye key rotate "+fault.Quote(c.Name))
	}
	return was, nil
}

// make makes the key, and the policy if it is the first. Whoever calls it holds the user's space.
func (c *keyNewRun) make(ctx context.Context, a *app, passphrase string) (answer, error) {
	was, err := c.look(a)
	if err != nil {
		return nil, err
	}
	dir, kept, none := was.dir, was.kept, was.none
	if was.there {
		return c.policyAlone(ctx, a, dir)
	}
	if c.Passphrase && passphrase == "" {
		return nil, &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("the key %q was removed meanwhile", c.Name)}
	}
	p, err := key.Generate(rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := dir.Add(c.Name, p, passphrase); err != nil {
		return nil, keyExists(c.Name, err, "rye key new OTHER-NAME")
	}
	ans := keyNewAnswer{Policy: trustChange{Changes: []changeLine{}}}
	if ans.Key, err = a.keyLine(c.Name); err != nil {
		return nil, err
	}
	a.term.note("made the key %q, %s", c.Name, ans.Key.Fingerprint)
	if len(kept) > 0 && !none {
		a.term.note("no rule of the policy names it: rye trust add says what it may vouch for")
		if c.Owner != "" {
			a.term.warn("--owner is for the policy, which doesn't know the key yet: rye trust add %s --owner %s --names GLOB", ans.Key.Public, fault.Quote(c.Owner))
		}
		return ans, nil
	}
	ans.Policy, err = a.trustFirst(ctx, policy.Key{Name: c.Name, Public: p.Public(), Owner: c.Owner})
	if err != nil {
		f := classify(err)
		f.Why = append(f.Why, "the key is made; the policy doesn't know it")
		return nil, f
	}
	ans.Key, err = a.keyLine(c.Name)
	return ans, err
}

// policyAlone makes the policy of a user who has a key and none.
func (c *keyNewRun) policyAlone(ctx context.Context, a *app, dir key.Dir) (answer, error) {
	p, err := dir.Public(c.Name)
	if err != nil {
		return nil, err
	}
	a.term.note("there is a key %q already, and no policy: this makes the policy", c.Name)
	ans := keyNewAnswer{}
	if ans.Policy, err = a.trustFirst(ctx, policy.Key{Name: c.Name, Public: p, Owner: c.Owner}); err != nil {
		return nil, err
	}
	if ans.Key, err = a.keyLine(c.Name); err != nil {
		return nil, err
	}
	return ans, nil
}

// trustFirst gives a user's first key the names ** except rye/**, unless somebody has them already.
func (a *app) trustFirst(ctx context.Context, k policy.Key) (trustChange, error) {
	given := true
	ans, err := a.editPolicy(ctx, edit{change: func(root *policy.Side) (*policy.Policy, error) {
		after, err := root.Policy.AddKey(k, true)
		if err != nil {
			return nil, err
		}
		given = !slices.ContainsFunc(root.Policy.Sections().Rules, func(r policy.Rule) bool { return r.Glob == "**" })
		if given {
			after, err = after.SetRule(policy.Rule{Glob: "**", Keys: []string{k.Name}, Threshold: 1, Except: []string{"rye/**"}})
		}
		return after, err
	}})
	if err == nil && given {
		a.term.note("the user's policy now trusts it for every name (**) except rye/**")
	} else if err == nil {
		a.term.note("the user's policy has a rule for ** already, which does not name it")
	}
	return ans, err
}

// keyExists gives fs.ErrExist, and nil, the words of a key that is there already.
func keyExists(name string, err error, hint ...string) error {
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return &fault.Error{Code: fault.Validation, Err: err, Text: fmt.Sprintf("there is a key %q already", name),
		Hint: hint, Details: map[string]any{"key": name}}
}

// keyLine is what is said of one kept key.
func (a *app) keyLine(name string) (keyLine, error) {
	lines, err := a.keyLines()
	if err != nil {
		return keyLine{}, err
	}
	i := slices.IndexFunc(lines, func(l keyLine) bool { return l.Name == name })
	if i < 0 {
		return keyLine{}, a.noKey(name, fs.ErrNotExist)
	}
	return lines[i], nil
}
