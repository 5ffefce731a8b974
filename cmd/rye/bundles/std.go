package bundles

import (
	"context"
	"errors"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

// library verifies rye/std: its files against its manifest, and its items against the policy, if there is one.
func (c *BundleVerifyRun) library(ctx context.Context, a *cli.App, l *find.Found) (cli.Answer, error) {
	if len(c.Signer)+len(c.Require)+len(c.Statement) > 0 {
		return nil, fault.New(fault.Validation, "\"rye/std\" is part of this binary and has no other signer").Try("rye bundle verify " + find.LibraryID)
	}
	t, err := places.OpenTrust(a)
	if err != nil && !trust.IsMissing(err) {
		return nil, err
	}
	ans := &BundleReport{Bundle: l.ID, Version: l.Bundle.Version, Manifest: l.Bundle.ID.String(), Format: sign.V2.String(), Where: l.Where, Place: l.Place, Trust: "builtin", Never: []string{},
		Of: len(l.Bundle.Files), Extra: c.AllowExtra, Signers: []spaces.SignerLine{}, Vouched: []vouchedLine{}, Requires: []bundle.Need{}, Evidence: []EvidenceLine{}, Failures: []bundle.Finding{}, Warnings: []string{}}
	failures, err := libraryFailures(ctx, l.Bundle, t, &ans.Items)
	if err != nil {
		return nil, err
	}
	for _, f := range failures {
		ans.Failures = append(ans.Failures, f.Finding())
	}
	if t != nil {
		ans.Policy, ans.PolicyID, ans.Origin = t.Root.Path, t.Root.Side.Policy.ID().String(), t.Root.Origin
	}
	if f := ans.fault(failures); f != nil {
		ans.Trust = "refused"
		return ans, f.Asked()
	}
	ans.Allowed, ans.Files, ans.Bytes = true, int64(len(l.Bundle.Files)), l.Bundle.Bytes
	return ans, nil
}

// libraryFailures looks at every file of the library, and at every item.
func libraryFailures(ctx context.Context, b *bundle.Bundle, t *trust.Trust, items *int) (all []*bundle.Failure, err error) {
	if err := std.Check(); err != nil {
		for _, e := range workspace.Each(err) {
			wrong, ok := errors.AsType[*std.Error](e)
			if !ok {
				return nil, err
			}
			all = append(all, &bundle.Failure{Check: bundle.CheckDigest, Path: wrong.Path, Expected: wrong.Expected.String(), Found: wrong.Found.String()})
		}
		return all, nil
	}
	o := ai.Options{Spaces: []*ai.Space{find.LibrarySpace()}}
	if t != nil {
		o.Trust = t.Exam()
	}
	v, err := ai.NewView(ctx, o)
	if err != nil {
		return nil, err
	}
	admit := ai.NewAdmitter(v, o.Trust)
	admit.KeepTrees()
	var mu sync.Mutex
	err = cas.Parallel(ctx, 0, len(b.Files), func(ctx context.Context, i int) error {
		f := &b.Files[i]
		if f.Ref == "" {
			return nil
		}
		at, err := v.At(v.Spaces()[0], f.Path[len(".ai/"):])
		var it *ai.Item
		if err == nil {
			it, err = v.Load(ctx, at)
		}
		if err == nil {
			err = admit.Require(ctx, it, policy.ToUse)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			all = append(all, &bundle.Failure{Check: bundle.CheckItem, Path: f.Path, Ref: f.Ref, Err: err})
		} else {
			*items++
		}
		return nil
	})
	return all, err
}
