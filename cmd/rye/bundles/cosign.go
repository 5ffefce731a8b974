package bundles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

func BundleCosignCommand() cli.Command {
	return cli.Command{
		Path: "bundle cosign", Quiet: true, Group: "bundles", Help: "Add a signature to a bundle's manifest.",
		More: "The bundle is verified first, but for the signatures of its manifest: what somebody signs they have looked at. Signatures of others stay, " +
			"and no id changes. It is for a bundle of the project, or of the store.\n\nExamples:\n\n    rye bundle cosign acme/deploy\n" +
			"    rye bundle cosign acme/deploy --key release",
		Aka: []string{"bundle sign", "cosign"},
		New: func() cli.Runner { return new(bundleCosignRun) }, Schema: "bundle-cosign/1", Output: bundleCosigned{},
	}
}

type bundleCosignRun struct {
	Bundle string `arg:"" optional:"" complete:"bundle" help:"Bundle; default: the project's."`
	trusts.KeyFlag
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

func (c bundleCosigned) Text(t *cli.Terminal) {
	if !c.Changed {
		t.Note("%s@%s is signed by %s already", c.Bundle, c.Version, places.Short(c.Key))
		return
	}
	t.Printf("signed  %s@%s  %s\n", c.Bundle, c.Version, fault.Count(int64(c.Signatures), "signature"))
}

func (c *bundleCosignRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	b, err := places.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	l, err := b.Find(ctx, c.Bundle)
	if err == nil {
		err = l.NeedV2()
	}
	if err != nil {
		return nil, err
	}
	if l.Where == find.InArchive || l.Where == find.InBinary {
		return nil, &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("a bundle in the %s isn't changed: it is signed in the project, or in the store", l.Where),
			Hint: []string{"rye bundle import ARCHIVE", "rye bundle cosign BUNDLE"}}
	}
	v, err := spaces.OpenVouching(a)
	if err != nil {
		return nil, err
	}
	k, err := trusts.SigningKey(ctx, a, c.Key)
	if err != nil {
		return nil, err
	}
	if err := CheckContent(ctx, b, l, v); err != nil {
		return nil, err
	}
	doc, had := l.Bundle.Document, l.Bundle.Signatures
	if err := doc.Merge(v.Options.Find, had); err != nil {
		return nil, err
	}
	if err := signBeside(&doc, k.Private, v.Options.Find, a.Clock().UTC().Truncate(time.Second)); err != nil {
		return nil, err
	}
	l.Bundle.FileList.Document = doc
	ans := bundleCosigned{Bundle: l.Bundle.BundleID, Version: l.Bundle.Version, Manifest: l.Bundle.ID.String(), Key: k.Public().Fingerprint().String(),
		Changed: !slices.Equal(doc.Signatures, had)}
	if ans.Changed && l.Where == find.InUser {
		again := "rye bundle cosign " + ans.Manifest
		if c.Key != "" {
			again += " --key " + fault.Quote(c.Key)
		}
		return nil, &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is installed, and that isn't changed: it is signed in the store, and installed from there", l.ID),
			Hint: []string{again, "rye bundle install " + ans.Manifest}}
	}
	if err := WriteSignatures(ctx, b, l, v, k.Public()); err != nil {
		return nil, err
	}
	doc = l.Bundle.Document
	ans.Signatures = len(doc.Signatures)
	e, err := v.Options.Trust.ExamineDocument(&doc, l.Bundle.Expires, policy.ToUse)
	if err != nil {
		return nil, err
	}
	if ans.Allowed = e.Decision.Allowed; !ans.Allowed {
		a.Term.Warn("that is not enough: %q %s", doc.Name, e.Decision.Reason())
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

// CheckContent verifies a bundle, but for who has signed its manifest so far. What is read of it then is what was
// verified, or the answer is that somebody has changed it.
func CheckContent(ctx context.Context, b *places.Workspace, l *find.Found, v *spaces.Vouching) error {
	p := b.App.Progress("verifying", 0)
	defer p.Done()
	o := v.Options
	var err error
	if o.Below, _, err = l.Below(ctx); err != nil {
		return err
	}
	o.AllowExtra, o.Progress = true, p.Reached()
	r, err := bundle.Verify(ctx, l.Source(p.Counted), o)
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
		if err := l.Read(ctx); err != nil {
			return err
		}
		if l.Bundle.ID != r.ID {
			return changedMeanwhile(l)
		}
		return nil
	}
	r.Failures = wrong
	return &install.RefusedError{Report: r}
}

// WriteSignatures puts the signatures of a bundle where it is, and in the store if that has it, beside those that others
// have made meanwhile.
func WriteSignatures(ctx context.Context, b *places.Workspace, l *find.Found, v *spaces.Vouching, own key.Public) error {
	body, err := l.Bundle.Body()
	if err != nil {
		return err
	}
	if l.Where == find.InProject {
		if err := changeManifest(ctx, b, l, l.Bundle.ID, body, withKey(v.Options.Find, own), nil); err != nil {
			return err
		}
	}
	s, err := b.OpenStore(l.Where != find.InProject)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the manifest is what counts
	}
	if err != nil {
		return err
	}
	if id, err := s.Ref(install.Ref(l.Bundle.ID)); l.Where == find.InProject && (err != nil || id.Digest != l.Bundle.ID) {
		return nil // the manifest has them
	}
	return install.Keep(ctx, s, l.Bundle, body, v.Options)
}

func changedMeanwhile(l *find.Found) error {
	return &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("the manifest of %q was changed meanwhile, and is left as it is", l.ID)}
}

// changeManifest writes the manifest of a project's bundle with its signatures, in the place of the one that was read:
// whoever has written another one since keeps it, and who has signed the same keeps the signature. first is done before,
// when nothing but the disk stands in the way.
func changeManifest(ctx context.Context, b *places.Workspace, l *find.Found, was cas.Digest, body []byte, known sign.Keys, first func(*osfile.Dir) error) error {
	at, err := bundle.ManifestPath(l.ID)
	if err != nil {
		return err
	}
	unlock, err := trust.LockPolicy(ctx, filepath.Join(l.Dir, filepath.FromSlash(at)))
	if err != nil {
		return err
	}
	defer unlock()
	now, err := find.ReadManifest(l.Dir, l.ID)
	if err != nil {
		return err
	}
	if now.ID != was {
		return changedMeanwhile(l)
	}
	if now.ID == l.Bundle.ID {
		if err := l.Bundle.Merge(known, l.Bundle.Signatures, now.Signatures); err != nil {
			return err
		}
	}
	d, err := osfile.OpenDir(l.Dir, 0o777)
	if err != nil {
		return err
	}
	defer d.Close()
	if first != nil {
		if err := first(d); err != nil {
			return err
		}
	}
	return d.Write(at, 0o644, false, manifest.Join(nil, body, l.Bundle.Signatures))
}
