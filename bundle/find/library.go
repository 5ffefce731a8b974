package find

import (
	"context"
	"errors"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// LibraryView returns a view of only the library.
func LibraryView(ctx context.Context) (*ai.View, error) {
	return ai.NewView(ctx, ai.Options{Spaces: []*ai.Space{LibrarySpace()}})
}

// VerifyLibrary verifies the files of the library against its manifest, and its items against the policy, if t isn't
// nil.
func VerifyLibrary(ctx context.Context, b *bundle.Bundle, t *trust.Trust) (*bundle.Report, error) {
	r := &bundle.Report{Bundle: b}
	if err := std.Check(); err != nil {
		for _, e := range each(err) {
			wrong, ok := errors.AsType[*std.Error](e)
			if !ok {
				return nil, err
			}
			r.Failures = append(r.Failures, &bundle.Failure{Check: bundle.CheckDigest, Path: wrong.Path,
				Expected: wrong.Expected.String(), Found: wrong.Found.String()})
		}
		return r, nil
	}
	o := ai.Options{Spaces: []*ai.Space{LibrarySpace()}}
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
			r.Failures = append(r.Failures, &bundle.Failure{Check: bundle.CheckItem, Path: f.Path, Ref: f.Ref,
				Err: err})
		} else {
			r.Vouched = append(r.Vouched, bundle.Vouched{Path: f.Path, Ref: f.Ref})
		}
		return nil
	})
	r.Good, r.Read = int64(len(b.Files)), b.Bytes
	return r, err
}
