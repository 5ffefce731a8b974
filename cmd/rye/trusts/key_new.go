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

// KeyNewRun is rye key new.
type KeyNewRun struct {
	Name       string `arg:"" optional:"" default:"default" help:"Name: lower-case letters, digits, - and _."`
	Owner      string `placeholder:"TEXT" help:"Owner to record in the policy."`
	Passphrase bool   `help:"Protect it with a passphrase."`
}

// KeyNewAnswer is the result of rye key new.
type KeyNewAnswer struct {
	Key    trust.KeyState    `json:"key"`
	Policy paths.TrustChange `json:"policy"`
}

func (k KeyNewAnswer) Text(t *cli.Terminal) {
	t.Printf("%s\n", k.Key.Fingerprint)
	k.Policy.Text(t)
}

func (c *KeyNewRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	// No other process waits while the user types.
	var passphrase string
	if c.Passphrase {
		before, err := c.look(app)
		if err == nil && !before.exists {
			passphrase, err = app.NewPassphrase(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	unlock, err := paths.AloneAtHome(ctx, app)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return c.Make(ctx, app, passphrase)
}

// keysBefore is the state before a key is created.
type keysBefore struct {
	dir      key.Dir
	keys     []key.Entry
	noPolicy bool
	exists   bool // a key with the name
}

// look returns the state before the key is created, and an error if the key or the policy can't be created.
func (c *KeyNewRun) look(app *cli.App) (before keysBefore, err error) {
	if before.dir, err = paths.KeysDir(app); err != nil {
		return before, err
	}
	if err := key.CheckName(c.Name); err != nil {
		return before, err
	}
	if before.keys, err = before.dir.List(); err != nil {
		return before, err
	}
	au, err := paths.Paths(app).RootPolicy()
	before.noPolicy = err == nil && au.File == nil
	if len(before.keys) == 0 || before.noPolicy {
		if err == nil {
			err = paths.Paths(app).Editable()
		}
		if err != nil {
			return before, err
		}
	}
	before.exists = slices.ContainsFunc(before.keys, func(e key.Entry) bool { return e.Name == c.Name })
	if before.exists && !before.noPolicy {
		return before, keyExists(c.Name, nil, fault.Command("rye key new", key.Next(c.Name)),
			"rye key rotate "+fault.Quote(c.Name))
	}
	return before, nil
}

// Make creates the key, and also the policy if it is the first key. The caller holds the lock of the user's space.
func (c *KeyNewRun) Make(ctx context.Context, app *cli.App, passphrase string) (cli.Answer, error) {
	before, err := c.look(app)
	if err != nil {
		return nil, err
	}
	if before.exists {
		return c.policyAlone(ctx, app, before.dir)
	}
	if c.Passphrase && passphrase == "" {
		return nil, fault.New(fault.Conflict, "the key %q was removed meanwhile", c.Name)
	}
	signer, err := key.Generate(rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := before.dir.Add(c.Name, signer, passphrase); err != nil {
		return nil, keyExists(c.Name, err, fault.Command("rye key new", key.Next(c.Name)))
	}
	ans := KeyNewAnswer{Policy: paths.TrustChange{Change: trust.Change{Changes: []policy.Change{}}}}
	if ans.Key, err = openKeyLine(app, c.Name); err != nil {
		return nil, err
	}
	app.Term.Note("created the key %q, %s", c.Name, ans.Key.Fingerprint)
	if len(before.keys) > 0 && !before.noPolicy {
		app.Term.Note("no rule of the policy names it: add names with rye trust add")
		if c.Owner != "" {
			app.Term.Warn(
				"--owner has no effect until the policy contains the key: rye trust add %s --owner %s --names GLOB",
				ans.Key.Public, fault.Quote(c.Owner))
		}
		return ans, nil
	}
	ans.Policy, err = TrustFirst(ctx, app, policy.Key{Name: c.Name, Public: signer.Public(), Owner: c.Owner})
	if err != nil {
		f := fault.Of(err)
		f.Why = append(f.Why, "the key was created, but the policy doesn't contain it")
		return nil, f
	}
	ans.Key, err = openKeyLine(app, c.Name)
	return ans, err
}

// policyAlone creates the policy for a user who has a key but no policy.
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

// TrustFirst trusts a user's first key for the names ** except rye/**, unless the policy has a rule for ** already.
func TrustFirst(ctx context.Context, app *cli.App, k policy.Key) (paths.TrustChange, error) {
	added := true
	ans, err := paths.EditPolicy(ctx, app, paths.Edit{Edit: trust.Edit{Change: func(root *policy.Side) (*policy.Policy,
		error) {
		after, err := root.Policy.AddKey(k, true)
		if err != nil {
			return nil, err
		}
		added = !slices.ContainsFunc(root.Policy.Sections().Rules, func(r policy.Rule) bool { return r.Glob == "**" })
		if added {
			after, err = after.SetRule(policy.Rule{Glob: "**", Keys: []string{k.Name}, Threshold: 1,
				Except: []string{"rye/**"}})
		}
		return after, err
	}}})
	if err == nil && added {
		app.Term.Note("your policy now trusts it for every name (**) except rye/**")
	} else if err == nil {
		app.Term.Note("your policy already has a rule for **, which does not name it")
	}
	if err == nil && k.Owner == "" {
		app.Term.Note("it has no owner yet: rye trust add %s --owner NAME", fault.Quote(k.Name))
	}
	return ans, err
}

// keyExists turns fs.ErrExist, or nil, into the error for a key that already exists.
func keyExists(name string, err error, hint ...string) error {
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fault.New(fault.Validation, "key %q already exists", name).From(err).Try(hint...).On("key", name)
}
