package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// checkBundles looks whether the installed bundles can be read, have all their files in the store, and are not past
// their end. It verifies nothing: that is rye bundle verify.
func checkBundles(ctx context.Context, a *app) finding {
	b, err := a.bundles()
	if err != nil {
		return bad(statusFail, err)
	}
	defer b.close()
	space, err := b.space()
	if err != nil {
		return good("none installed")
	}
	all, err := b.installedAll(ctx, space)
	if err != nil {
		f := bad(statusWarn, err)
		f.Hint = "rye bundle list"
		return f
	}
	if len(all) == 0 {
		return good("none installed")
	}
	var wrong, names []string
	for _, at := range all {
		names = append(names, at.BundleID+"@"+at.Version)
		if n, err := b.absent(ctx, at); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %s", at.BundleID, classify(err).Text))
		} else if n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s lacks %s in the store", at.BundleID, fault.Count(int64(n), "file")))
		}
		if at.Expired(a.now()) {
			wrong = append(wrong, fmt.Sprintf("%s expired at %s", at.BundleID, dateText(at.Expires)))
		}
	}
	if len(wrong) > 0 {
		return finding{Status: statusWarn, Detail: strings.Join(wrong, "; "), Hint: "rye bundle install ARCHIVE"}
	}
	const most = 4
	words := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return good("%s installed: %s", fault.Count(int64(len(all)), "bundle"), words)
}

// absent counts the files of a bundle that the store doesn't have.
func (b *bundles) absent(ctx context.Context, at *install.Installed) (int, error) {
	s, err := b.store(false)
	if err != nil {
		return 0, err
	}
	ids := make([]cas.ID, len(at.Files))
	for i := range ids {
		ids[i] = cas.ID{Kind: cas.Blob, Digest: at.Files[i].Digest}
	}
	missing, err := s.Missing(ctx, ids)
	return len(missing), err
}
