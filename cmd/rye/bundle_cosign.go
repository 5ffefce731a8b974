package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

func bundleCosignCommand() command {
	return command{
		path: "bundle cosign", group: "bundles", help: "Add this key's signature to a bundle's manifest.",
		more: "The bundle is verified first, but for the signatures of its manifest: what somebody signs they have looked at. Signatures of others stay, " +
			"and no id changes. It is for a bundle of the project, or of the store.\n\nExamples:\n\n    rye bundle cosign acme/deploy\n" +
			"    rye bundle cosign acme/deploy --key release",
		aka: []string{"bundle sign", "cosign"},
		new: func() runner { return new(bundleCosignRun) }, schema: "bundle-cosign/1", output: bundleCosigned{},
	}
}

type bundleCosignRun struct {
	Bundle string `arg:"" optional:"" complete:"bundle" help:"A bundle; the project's when left out."`
	keyFlag
}

type bundleCosigned struct {
	Bundle     string `json:"bundle"`
	Version    string `json:"version"`
	Manifest   string `json:"manifest"`
	Key        string `json:"key"`
	Signatures int    `json:"signatures"`
	Changed    bool   `json:"changed"`
	Allowed    bool   `json:"allowed"` // the policy lets it be used now
}

func (c bundleCosigned) text(t *terminal) {
	if !c.Changed {
		t.note("%s@%s is signed by %s already", c.Bundle, c.Version, short(c.Key))
		return
	}
	t.printf("signed  %s@%s  %s\n", c.Bundle, c.Version, fault.Count(int64(c.Signatures), "signature"))
}

func (c *bundleCosignRun) complete(_ context.Context, a *app, name, _ string) []candidate {
	if name == "key" {
		return completeKeys(a)
	}
	return nil
}

func (c *bundleCosignRun) run(ctx context.Context, a *app) (answer, error) {
	b, err := a.bundles()
	if err != nil {
		return nil, err
	}
	defer b.close()
	l, err := b.locate(ctx, c.Bundle)
	if err == nil {
		err = l.needToday()
	}
	if err != nil {
		return nil, err
	}
	if l.where == inArchive || l.where == inBinary {
		return nil, &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("a bundle in the %s isn't changed: it is signed in the project, or in the store", l.where),
			Hint: []string{"rye bundle import ARCHIVE", "rye bundle cosign BUNDLE"}}
	}
	v, err := a.vouching()
	if err != nil {
		return nil, err
	}
	k, err := a.signingKey(ctx, c.Key)
	if err != nil {
		return nil, err
	}
	if err := b.checkContent(ctx, l, v); err != nil {
		return nil, err
	}
	doc, had := l.read.Document, l.read.Signatures
	if err := doc.Merge(v.options.Find, had); err != nil {
		return nil, err
	}
	if err := signBeside(&doc, k.Private, v.options.Find, a.clock().UTC().Truncate(time.Second)); err != nil {
		return nil, err
	}
	l.read.FileList.Document = doc
	ans := bundleCosigned{Bundle: l.read.BundleID, Version: l.read.Version, Manifest: l.read.ID.String(), Key: k.Public().Fingerprint().String(),
		Changed: !slices.Equal(doc.Signatures, had)}
	if ans.Changed && l.where == inUser {
		again := "rye bundle cosign " + ans.Manifest
		if c.Key != "" {
			again += " --key " + fault.Quote(c.Key)
		}
		return nil, &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is installed, and that isn't changed: it is signed in the store, and installed from there", l.id),
			Hint: []string{again, "rye bundle install " + ans.Manifest}}
	}
	if err := b.writeSignatures(ctx, l, v, k.Public()); err != nil {
		return nil, err
	}
	doc = l.read.Document
	ans.Signatures = len(doc.Signatures)
	e, err := v.options.Trust.ExamineDocument(&doc, l.read.Expires, policy.ToUse)
	if err != nil {
		return nil, err
	}
	if ans.Allowed = e.Decision.Allowed; !ans.Allowed {
		a.term.warn("that is not enough: %q %s", doc.Name, e.Decision.Reason())
	}
	return ans, nil
}

// signBeside adds a key's signature to those of others. Lines of keys that nobody here knows give way to it: anybody can
// write as many as there is room for.
func signBeside(d *manifest.Document, k key.Private, known sign.Keys, at time.Time) error {
	err := d.Sign(k, at)
	if !errors.Is(err, sign.ErrTooMany) {
		return err
	}
	alone := *d
	alone.Signatures = nil
	if err := alone.Sign(k, at); err != nil {
		return err
	}
	return d.Merge(withKey(known, k.Public()), alone.Signatures, d.Signatures)
}

// withKey knows one more key.
func withKey(known sign.Keys, own key.Public) sign.Keys {
	return func(f key.Fingerprint) (key.Public, bool) {
		if f == own.Fingerprint() {
			return own, true
		}
		return known(f)
	}
}

// checkContent verifies a bundle, but for who has signed its manifest so far. What is read of it then is what was
// verified, or the answer is that somebody has changed it.
func (b *bundles) checkContent(ctx context.Context, l *located, v *vouching) error {
	p := b.app.progress("verifying", 0)
	defer p.Done()
	src, below, err := b.source(ctx, l, p)
	if err != nil {
		return err
	}
	o := v.options
	o.Below, o.AllowExtra = below, true
	o.Progress = p.reached()
	r, err := bundle.Verify(ctx, src, o)
	if err != nil {
		return err
	}
	var wrong []*bundle.Failure
	for _, f := range r.Failures {
		if no, ok := errors.AsType[*bundle.NotAdmittedError](f.Err); f.Check != bundle.CheckSignatures || !ok || no.Decision.Code == policy.DigestRevoked {
			wrong = append(wrong, f)
		}
	}
	if len(wrong) == 0 {
		if err := b.whole(ctx, l); err != nil {
			return err
		}
		if l.read.ID != r.ID {
			return l.changedMeanwhile()
		}
		return nil
	}
	r.Failures = wrong
	return &install.RefusedError{Report: r}
}

// writeSignatures puts the signatures of a bundle where it is, and in the store if that has it, beside those that others
// have made meanwhile.
func (b *bundles) writeSignatures(ctx context.Context, l *located, v *vouching, own key.Public) error {
	body, err := l.read.Body()
	if err != nil {
		return err
	}
	if l.where == inProject {
		if err := b.changeManifest(ctx, l, l.read.ID, body, withKey(v.options.Find, own), nil); err != nil {
			return err
		}
	}
	s, err := b.store(l.where != inProject)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the manifest is what counts
	}
	if err != nil {
		return err
	}
	if id, err := s.Ref(install.Ref(l.read.ID)); l.where == inProject && (err != nil || id.Digest != l.read.ID) {
		return nil // the manifest has them
	}
	return install.Keep(ctx, s, l.read, body, v.options)
}

func (l *located) changedMeanwhile() error {
	return &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("the manifest of %q was changed meanwhile, and is left as it is", l.id)}
}

// changeManifest writes the manifest of a project's bundle with its signatures, in the place of the one that was read:
// whoever has written another one since keeps it, and who has signed the same keeps the signature. first is done before,
// when nothing but the disk stands in the way.
func (b *bundles) changeManifest(ctx context.Context, l *located, was cas.Digest, body []byte, known sign.Keys, first func(*confined) error) error {
	at, err := bundle.ManifestPath(l.id)
	if err != nil {
		return err
	}
	unlock, err := lockPolicy(ctx, filepath.Join(l.dir, filepath.FromSlash(at)))
	if err != nil {
		return err
	}
	defer unlock()
	now, err := readManifest(l.dir, l.id)
	if err != nil {
		return err
	}
	if now.ID != was {
		return l.changedMeanwhile()
	}
	if now.ID == l.read.ID {
		if err := l.read.Merge(known, l.read.Signatures, now.Signatures); err != nil {
			return err
		}
	}
	d, err := confine(l.dir, 0o777)
	if err != nil {
		return err
	}
	defer d.close()
	if first != nil {
		if err := first(d); err != nil {
			return err
		}
	}
	return d.write(at, 0o644, false, manifest.Join(nil, body, l.read.Signatures))
}
