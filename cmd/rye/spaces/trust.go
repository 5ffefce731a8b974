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
	"github.com/rye-build/rye/exec/parts"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/trust"
)

// This file decides whose signatures of bundles a command trusts.

// SignerFlags name keys to trust instead of a policy.
type SignerFlags struct {
	Signer    []string `placeholder:"PUBKEY" sep:"none" help:"Trust this key, not the policy (key, file or name; repeatable)."`
	Threshold *int     `placeholder:"N" help:"Number of these keys that must have signed."`
}

// A Vouching is what a command trusts about bundles: a policy, or the keys of --signer.
type Vouching struct {
	Options bundle.VerifyOptions
	Trust   *trust.Trust      // nil with keys
	Names   map[string]string // the --signer argument of each key, by fingerprint
}

// OpenVouching returns a Vouching for the policy.
func OpenVouching(a *cli.App) (*Vouching, error) {
	t, err := paths.OpenTrust(a)
	if err != nil {
		return nil, err
	}
	return &Vouching{Options: bundle.VerifyOptions{Trust: t.Exam(), Parts: parts.Verify}, Trust: t,
		Names: map[string]string{}}, nil
}

// Vouching returns the policy, or the keys of the flags.
func (c *SignerFlags) Vouching(ctx context.Context, app *cli.App) (*Vouching, error) {
	if len(c.Signer) == 0 {
		if c.Threshold != nil {
			return nil, fault.New(fault.Validation, "--threshold needs --signer").
				Try("rye key list", "rye trust list")
		}
		v, err := OpenVouching(app)
		if err != nil && trust.IsMissing(err) {
			return nil, fault.Of(err).Because("--signer takes a public key instead of a policy")
		}
		return v, err
	}
	if app.Globals.Trust != "" || app.Env(cli.EnvTrust) != "" {
		return nil, fault.New(fault.Validation,
			"--signer replaces the policy: it can't be combined with --trust or %s", cli.EnvTrust)
	}
	vouching := &Vouching{Options: bundle.VerifyOptions{Now: app.Now().UTC(), Threshold: 1, Parts: parts.Verify},
		Names: map[string]string{}}
	if c.Threshold != nil {
		vouching.Options.Threshold = *c.Threshold // 0 is refused below, like any other bad number
	}
	for _, arg := range c.Signer {
		k, err := SignerKey(ctx, app, arg)
		if err != nil {
			return nil, err
		}
		id := k.Fingerprint().String()
		if _, twice := vouching.Names[id]; twice {
			continue // one key counts once, however often it is named
		}
		vouching.Names[id] = arg
		if arg == k.String() {
			vouching.Names[id] = "" // the key itself is no name
		}
		vouching.Options.Signers = append(vouching.Options.Signers, k)
	}
	if n := len(vouching.Options.Signers); vouching.Options.Threshold < 1 || vouching.Options.Threshold > n {
		return nil, fault.New(fault.Validation, "--threshold is %d, but --signer gives %s", vouching.Options.Threshold,
			fault.Count(int64(n), "key")).Because("it must be between 1 and the number of keys")
	}
	return vouching, nil
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

// Space prepares the verification of a bundle. It notes the spaces that the bundle's items may use, and returns the
// user's space and the bundles that it requires, as far as they are available here.
func (v *Vouching) Space(ctx context.Context, w *paths.Workspace, l *manifest.FileList) (s *install.Space,
	needs []bundle.Need, err error) {
	if v.Options.Below, needs, err = w.Below(ctx, l.BundleID, l.Requires); err != nil {
		return nil, nil, err
	}
	s, err = w.Space()
	return s, needs, err
}

// SignerKey reads a public key with ReadPublic, or takes the public half of one of the user's keys.
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
