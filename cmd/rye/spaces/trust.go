package spaces

import (
	"context"
	"errors"
	"io/fs"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/trust"
)

// SignerFlags name keys to trust instead of a policy.
type SignerFlags struct {
	Signer    []string `placeholder:"PUBKEY" sep:"none" help:"Trust this key, not the policy (key, file or name; repeatable)."`
	Threshold *int     `placeholder:"N" help:"Number of these keys that must have signed."`
}

// A Vouching is what a command trusts about bundles: a policy, or keys.
type Vouching struct {
	Options bundle.VerifyOptions
	Trust   *trust.Trust      // nil where there are keys
	Names   map[string]string // of keys, as they were given, by fingerprint
}

// OpenVouching is that of the policy.
func OpenVouching(a *cli.App) (*Vouching, error) {
	t, err := paths.OpenTrust(a)
	if err != nil {
		return nil, err
	}
	return &Vouching{Options: bundle.VerifyOptions{Trust: t.Exam()}, Trust: t, Names: map[string]string{}}, nil
}

// Vouching returns the policy, or the keys of the flags.
func (c *SignerFlags) Vouching(ctx context.Context, a *cli.App) (*Vouching, error) {
	if len(c.Signer) == 0 {
		if c.Threshold != nil {
			return nil, fault.New(fault.Validation, "--threshold counts the keys of --signer, and none is given").
				Try("rye key list", "rye trust list")
		}
		v, err := OpenVouching(a)
		if err != nil && trust.IsMissing(err) {
			return nil, fault.Of(err).Because("--signer takes a public key instead of a policy")
		}
		return v, err
	}
	if a.Globals.Trust != "" || a.Env(cli.EnvTrust) != "" {
		return nil, fault.New(fault.Validation,
			"--signer is believed instead of a policy, and there is --trust or %s too", cli.EnvTrust)
	}
	v := &Vouching{Options: bundle.VerifyOptions{Now: a.Now().UTC(), Threshold: 1}, Names: map[string]string{}}
	if c.Threshold != nil {
		v.Options.Threshold = *c.Threshold // none at all is no number of signatures
	}
	for _, arg := range c.Signer {
		k, err := SignerKey(ctx, a, arg)
		if err != nil {
			return nil, err
		}
		id := k.Fingerprint().String()
		if _, twice := v.Names[id]; twice {
			continue // one key counts once, however often it is named
		}
		v.Names[id] = arg
		if arg == k.String() {
			v.Names[id] = "" // it says no more than the fingerprint
		}
		v.Options.Signers = append(v.Options.Signers, k)
	}
	if n := len(v.Options.Signers); v.Options.Threshold < 1 || v.Options.Threshold > n {
		return nil, fault.New(fault.Validation, "--threshold is %d, with %s", v.Options.Threshold,
			fault.Count(int64(n), "key")).Because("it is from 1 to the number of keys that --signer gives")
	}
	return v, nil
}

// Open opens the workspace of a command that takes a bundle, and what it trusts. The caller closes the workspace.
func (c *SignerFlags) Open(ctx context.Context, a *cli.App) (*paths.Workspace, *Vouching, error) {
	w, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil, nil, err
	}
	v, err := c.Vouching(ctx, a)
	if err != nil {
		w.Close()
		return nil, nil, err
	}
	return w, v, nil
}

// Space makes ready to verify a bundle: it notes the spaces that the bundle's items may use, and returns the user's
// space and what is here of the bundles that it requires.
func (v *Vouching) Space(ctx context.Context, w *paths.Workspace, l *manifest.FileList) (s *install.Space,
	needs []bundle.Need, err error) {
	if v.Options.Below, needs, err = w.Below(ctx, l.BundleID, l.Requires); err != nil {
		return nil, nil, err
	}
	s, err = w.Space()
	return s, needs, err
}

// SignerKey reads a key as readPublic does, or takes a kept one.
func SignerKey(ctx context.Context, a *cli.App, arg string) (key.Public, error) {
	if key.CheckName(arg) == nil {
		if dir, err := paths.KeysDir(a); err == nil {
			if k, err := dir.Public(arg); err == nil {
				return k, nil
			}
		}
	}
	k, err := paths.ReadPublic(ctx, a, arg)
	if _, ok := errors.AsType[*fault.Error](err); err != nil && !ok && !errors.Is(err, fs.ErrNotExist) {
		f := fault.Of(err)
		f.Code = fault.Validation
		return k, f
	}
	return k, err
}
