package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

// signerFlags say whom to believe instead of a policy.
type signerFlags struct {
	Signer    []string `placeholder:"PUBKEY" sep:"none" help:"Believe this key instead of the policy: 43 characters, a PEM file, or the name of a kept key. May be given again."`
	Threshold *int     `placeholder:"N" help:"How many of the keys must have signed the bundle."`
}

// A vouching is whom a command believes about bundles: a policy, or keys.
type vouching struct {
	options bundle.VerifyOptions
	trust   *trust            // nil where there are keys
	names   map[string]string // of keys, as they were given, by fingerprint
}

// vouching is that of the policy.
func (a *app) vouching() (*vouching, error) {
	t, err := a.trust()
	if err != nil {
		return nil, err
	}
	return &vouching{options: bundle.VerifyOptions{Trust: t.exam()}, trust: t, names: map[string]string{}}, nil
}

// vouching finds out whom to believe.
func (c *signerFlags) vouching(ctx context.Context, a *app) (*vouching, error) {
	if len(c.Signer) == 0 {
		if c.Threshold != nil {
			return nil, &fault.Error{Code: fault.Validation, Text: "--threshold counts the keys of --signer, and none is given", Hint: []string{a.with("--signer", "PUBKEY")}}
		}
		v, err := a.vouching()
		if err != nil && isNobody(err) {
			f := classify(err)
			f.Hint = append(f.Hint, a.with("--signer", "PUBKEY"))
			return nil, f
		}
		return v, err
	}
	if a.globals.Trust != "" || a.env(envTrust) != "" {
		return nil, &fault.Error{Code: fault.Validation, Text: "--signer is believed instead of a policy, and there is --trust or " + envTrust + " too"}
	}
	v := &vouching{options: bundle.VerifyOptions{Now: a.now().UTC(), Threshold: 1}, names: map[string]string{}}
	if c.Threshold != nil {
		v.options.Threshold = *c.Threshold // none at all is no number of signatures
	}
	for _, arg := range c.Signer {
		k, err := a.signerKey(ctx, arg)
		if err != nil {
			return nil, err
		}
		id := k.Fingerprint().String()
		if _, twice := v.names[id]; twice {
			continue // one key counts once, however often it is named
		}
		v.names[id] = arg
		if arg == k.String() {
			v.names[id] = "" // it says no more than the fingerprint
		}
		v.options.Signers = append(v.options.Signers, k)
	}
	if n := len(v.options.Signers); v.options.Threshold < 1 || v.options.Threshold > n {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("--threshold is %d, with %s", v.options.Threshold, fault.Count(int64(n), "key")),
			Why: []string{"it is from 1 to the number of keys that --signer gives"}}
	}
	return v, nil
}

// signerKey reads a key as readPublic does, or takes a kept one.
func (a *app) signerKey(ctx context.Context, arg string) (key.Public, error) {
	if key.CheckName(arg) == nil {
		if dir, err := a.keysDir(); err == nil {
			if k, err := dir.Public(arg); err == nil {
				return k, nil
			}
		}
	}
	k, err := a.readPublic(ctx, arg)
	if _, ok := errors.AsType[*fault.Error](err); err != nil && !ok && !errors.Is(err, fs.ErrNotExist) {
		f := classify(err)
		f.Code = fault.Validation
		return k, f
	}
	return k, err
}
