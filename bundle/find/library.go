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

// VerifyLibrary verifies the files of the library against its manifest, and its items against the policy, if trusted
// isn't nil.
func VerifyLibrary(ctx context.Context, opened *bundle.Bundle, trusted *trust.Trust) (*bundle.Report, error) {
	report := &bundle.Report{Bundle: opened}
	if err := std.Check(); err != nil {
		for _, e := range each(err) {
			wrong, ok := errors.AsType[*std.Error](e)
			if !ok {
				return nil, err
			}
			report.Failures = append(report.Failures, &bundle.Failure{Check: bundle.CheckDigest, Path: wrong.Path,
				Expected: wrong.Expected.String(), Found: wrong.Found.String()})
		}
		return report, nil
	}
	o := ai.Options{Spaces: []*ai.Space{LibrarySpace()}}
	if trusted != nil {
		o.Trust = trusted.Exam()
	}
	view, err := ai.NewView(ctx, o)
	if err != nil {
		return nil, err
	}
	admit := ai.NewAdmitter(view, o.Trust)
	admit.KeepTrees()
	var mu sync.Mutex
	err = cas.Parallel(ctx, 0, len(opened.Files), func(ctx context.Context, i int) error {
		file := &opened.Files[i]
		if file.Ref == "" {
			return nil
		}
		at, err := view.At(view.Spaces()[0], file.Path[len(".ai/"):])
		var it *ai.Item
		if err == nil {
			it, err = view.Load(ctx, at)
		}
		if err == nil {
			err = admit.Require(ctx, it, policy.ToUse)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			report.Failures = append(report.Failures,
				&bundle.Failure{Check: bundle.CheckItem, Path: file.Path, Ref: file.Ref,
					Err: err})
		} else {
			report.Vouched = append(report.Vouched, bundle.Vouched{Path: file.Path, Ref: file.Ref})
		}
		return nil
	})
	report.Good, report.Read = int64(len(opened.Files)), opened.Bytes
	return report, err
}
