package trusts

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

type KeyNewRun struct {
	Name       string `arg:"" optional:"" default:"default" help:"Name: lower-case letters, digits, - and _."`
	Owner      string `placeholder:"TEXT" help:"Owner to record in the policy."`
	Passphrase bool   `help:"Protect it with a passphrase."`
}

type KeyNewAnswer struct {
	Key    trust.KeyState    `json:"key"`
	Policy paths.TrustChange `json:"policy"`
}

func (k KeyNewAnswer) Text(t *cli.Terminal) {
	t.Printf("%s\n", k.Key.Fingerprint)
	k.Policy.Text(t)
}

func (c *KeyNewRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	// No other process waits while the user types.
	var passphrase string
	if c.Passphrase {
		was, err := c.look(a)
		if err == nil && !was.there {
			passphrase, err = a.NewPassphrase(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	unlock, err := paths.AloneAtHome(ctx, a)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return c.Make(ctx, a, passphrase)
}

// keysBefore is what a user has before a key is made.
type keysBefore struct {
	dir   key.Dir
	kept  []key.Entry
	none  bool // no policy
	there bool // a key with the name, without a policy
}

// look finds what would stand in the way before there is a key.
func (c *KeyNewRun) look(a *cli.App) (was keysBefore, err error) {
	if was.dir, err = paths.KeysDir(a); err != nil {
		return was, err
	}
	if err := key.CheckName(c.Name); err != nil {
		return was, err
	}
	if was.kept, err = was.dir.List(); err != nil {
		return was, err
	}
	au, err := paths.Paths(a).RootPolicy()
	was.none = err == nil && au.File == nil
	if len(was.kept) == 0 || was.none {
		if err == nil {
			err = paths.Paths(a).Editable()
		}
		if err != nil {
			return was, err
		}
	}
	was.there = slices.ContainsFunc(was.kept, func(e key.Entry) bool { return e.Name == c.Name })
	if was.there && !was.none {
		return was, keyExists(c.Name, nil, fault.Command("rye key new", key.Next(c.Name)),
			"rye key rotate "+fault.Quote(c.Name))
	}
	return was, nil
}

// Make makes the key, and the policy if it is the first. The caller holds the lock of the user's space.
func (c *KeyNewRun) Make(ctx context.Context, a *cli.App, passphrase string) (cli.Answer, error) {
	was, err := c.look(a)
	if err != nil {
		return nil, err
	}
	dir, kept, none := was.dir, was.kept, was.none
	if was.there {
		return c.policyAlone(ctx, a, dir)
	}
	if c.Passphrase && passphrase == "" {
		return nil, fault.New(fault.Conflict, "the key %q was removed meanwhile", c.Name)
	}
	p, err := key.Generate(rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := dir.Add(c.Name, p, passphrase); err != nil {
		return nil, keyExists(c.Name, err, fault.Command("rye key new", key.Next(c.Name)))
	}
	ans := KeyNewAnswer{Policy: paths.TrustChange{Change: trust.Change{Changes: []policy.Change{}}}}
	if ans.Key, err = openKeyLine(a, c.Name); err != nil {
		return nil, err
	}
	a.Term.Note("created the key %q, %s", c.Name, ans.Key.Fingerprint)
	if len(kept) > 0 && !none {
		a.Term.Note("no rule of the policy names it: rye trust add says what it may vouch for")
		if c.Owner != "" {
			a.Term.Warn(
				"--owner is for the policy, which doesn't know the key yet: rye trust add %s --owner %s --names GLOB",
				ans.Key.Public, fault.Quote(c.Owner))
		}
		return ans, nil
	}
	ans.Policy, err = TrustFirst(ctx, a, policy.Key{Name: c.Name, Public: p.Public(), Owner: c.Owner})
	if err != nil {
		f := fault.Of(err)
		f.Why = append(f.Why, "the key is made; the policy doesn't know it")
		return nil, f
	}
	ans.Key, err = openKeyLine(a, c.Name)
	return ans, err
}

// policyAlone makes the policy of a user who has a key and none.
func (c *KeyNewRun) policyAlone(ctx context.Context, a *cli.App, dir key.Dir) (cli.Answer, error) {
	p, err := dir.Public(c.Name)
	if err != nil {
		return nil, err
	}
	a.Term.Note("the key %q exists, but no policy: creating the policy", c.Name)
	ans := KeyNewAnswer{}
	if ans.Policy, err = TrustFirst(ctx, a, policy.Key{Name: c.Name, Public: p, Owner: c.Owner}); err != nil {
		return nil, err
	}
	if ans.Key, err = openKeyLine(a, c.Name); err != nil {
		return nil, err
	}
	return ans, nil
}

// TrustFirst gives a user's first key the names ** except rye/**, unless other keys have them already.
func TrustFirst(ctx context.Context, a *cli.App, k policy.Key) (paths.TrustChange, error) {
	given := true
	ans, err := paths.EditPolicy(ctx, a, paths.Edit{Edit: trust.Edit{Change: func(root *policy.Side) (*policy.Policy,
		error) {
		after, err := root.Policy.AddKey(k, true)
		if err != nil {
			return nil, err
		}
		given = !slices.ContainsFunc(root.Policy.Sections().Rules, func(r policy.Rule) bool { return r.Glob == "**" })
		if given {
			after, err = after.SetRule(policy.Rule{Glob: "**", Keys: []string{k.Name}, Threshold: 1,
				Except: []string{"rye/**"}})
		}
		return after, err
	}}})
	if err == nil && given {
		a.Term.Note("your policy now trusts it for every name (**) except rye/**")
	} else if err == nil {
		a.Term.Note("the user's policy has a rule for ** already, which does not name it")
	}
	return ans, err
}

// keyExists gives fs.ErrExist, and nil, the words of a key that is there already.
func keyExists(name string, err error, hint ...string) error {
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fault.New(fault.Validation, "key %q already exists", name).From(err).Try(hint...).On("key", name)
}
