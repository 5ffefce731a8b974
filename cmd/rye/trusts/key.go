package trusts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// NoKey turns fs.ErrNotExist into a not-found error with similar names and what to do.
func NoKey(app *cli.App, name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	failure := fault.New(fault.NotFound, "key %q not found", name).From(err).Try("rye key new", "rye key list").
		On("key", name)
	if name != key.DefaultName {
		failure.Hint = failure.Hint[1:]
		dir, err := paths.KeysDir(app)
		// After a rotation the default key has another name, and it may have been removed.
		if first, _ := dir.Default(); err == nil && name == first {
			failure.Hint = []string{"rye key new " + fault.Quote(name), "rye key list"}
		}
	}
	var names []string
	lines, _ := KeyLines(app)
	for _, l := range lines {
		names = append(names, l.Name)
	}
	if len(names) == 0 && app.Env(cli.EnvTrust) != "" {
		failure.Why = []string{"the first key is created with a policy, but " + cli.EnvTrust +
			" names one; a key in " +
			cli.EnvKey + " signs as well"}
		failure.Hint = append([]string{"unset " + cli.EnvTrust}, failure.Hint...)
	}
	return failure.Near(name, names)
}

// A Signer is a private key and its origin.
type Signer struct {
	key.Private
	Name string // of a key of the user, or RYE_KEY
}

// SigningKey opens a named key, else RYE_KEY, else the default key. It refuses while private keys lie in a project.
func SigningKey(ctx context.Context, a *cli.App, name string) (Signer, error) {
	if err := paths.CheckKeyPlaces(a); err != nil {
		return Signer{}, err
	}
	return openKey(ctx, a, name)
}

// openKey is SigningKey without the check of keys in a project.
func openKey(ctx context.Context, app *cli.App, name string) (Signer, error) {
	if pem := app.Env(cli.EnvKey); name == "" && pem != "" {
		p, err := key.ParsePrivate([]byte(pem), app.Passphrase(ctx, "the key in "+cli.EnvKey))
		if err != nil {
			f := fault.Of(fmt.Errorf("the key in %s: %w", cli.EnvKey, err))
			if !strings.Contains(pem, "-----BEGIN") {
				f.Code, f.Why = fault.Config,
					[]string{"it holds the text of a private key (PEM), not the name of a file"}
				f.Hint = []string{"export " + cli.EnvKey + "=\"$(cat key.pem)\""}
			}
			return Signer{}, f
		}
		return Signer{p, cli.EnvKey}, nil
	}
	dir, err := paths.KeysDir(app)
	if err != nil {
		return Signer{}, err
	}
	if name == "" {
		if name, err = dir.Default(); err != nil {
			return Signer{}, err
		}
	}
	p, err := dir.Private(name, app.Passphrase(ctx, fmt.Sprintf("the key %q", name)))
	if err != nil {
		return Signer{}, NoKey(app, name, err)
	}
	return Signer{p, name}, nil
}

// KnownSigner returns the public half of the key that SigningKey opens, if that needs no passphrase.
func KnownSigner(a *cli.App, name string) (key.Public, bool) {
	if paths.CheckKeyPlaces(a) != nil || name == "" && a.Env(cli.EnvKey) != "" {
		return key.Public{}, false
	}
	dir, err := paths.KeysDir(a)
	if err == nil && name == "" {
		name, err = dir.Default()
	}
	if err != nil {
		return key.Public{}, false
	}
	p, err := dir.Public(name)
	return p, err == nil
}

// KeySetting returns the key that signs by default.
func KeySetting(a *cli.App) cli.Setting {
	if a.Env(cli.EnvKey) != "" {
		return cli.Setting{Value: "set", Origin: cli.EnvKey}
	}
	dir, err := paths.KeysDir(a)
	if err != nil {
		return cli.Setting{Origin: "HOME", Err: err}
	}
	name, err := dir.Default()
	if err == nil {
		_, err = dir.Public(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cli.Setting{Origin: "none: rye key new"}
	case err != nil && !errors.Is(err, key.ErrLocked):
		return cli.Setting{Origin: "default", Err: err}
	}
	return cli.Setting{Value: name, Origin: "default"}
}

// rootSide returns the root policy with its lists, to describe keys. For an unreadable policy it is empty.
func rootSide(a *cli.App) policy.Side {
	au, err := paths.Paths(a).RootPolicy()
	if err != nil {
		return policy.Side{}
	}
	au.Side.Lists, _ = paths.Lists(a).Load(au)
	return au.Side
}

// KeyLines lists the user's keys.
func KeyLines(a *cli.App) ([]trust.KeyState, error) {
	dir, err := paths.KeysDir(a)
	if err != nil {
		return nil, err
	}
	return trust.KeyStates(dir, rootSide(a), a.Now())
}

// openKeyLine returns one of the user's keys.
func openKeyLine(a *cli.App, name string) (trust.KeyState, error) {
	dir, err := paths.KeysDir(a)
	if err != nil {
		return trust.KeyState{}, err
	}
	k, err := trust.KeyStateOf(dir, name, rootSide(a), a.Now())
	if err != nil {
		err = NoKey(a, name, err)
	}
	return k, err
}

// KeyFlag is the flag of commands that sign.
type KeyFlag struct {
	Key string `placeholder:"NAME" complete:"key" help:"Sign with this key instead of the default."`
}
