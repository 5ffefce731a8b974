// Package cosign is the editor of a bundle's existing manifest: it adds signatures and evidence.
package cosign

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/provenance"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

// A Change is a planned change of a bundle in the project or the store.
type Change struct {
	Bundle  *find.Found
	Verify  bundle.VerifyOptions // by a policy
	Key     key.Private          // zero for Take
	Time    time.Time
	Store   func(write bool) (*disk.Store, error) // fs.ErrNotExist if it is missing and isn't created
	Counted func(io.Reader) io.Reader             // wraps the reader of an archive
	Journal *rollback.Journal                     // of released versions, which Embed doesn't change
	// Keys returns the public keys of signers, which a plugin carries; nil leaves those that it has.
	Keys func(manifest.Signatures) []manifest.SignerKey
}

// Check verifies the bundle, except that its signers needn't be sufficient yet, and makes sure that the manifest in
// Bundle is the verified one.
func (c *Change) Check(ctx context.Context) error {
	o := c.Verify
	var err error
	if o.Below, _, err = c.Bundle.Below(ctx); err != nil {
		return err
	}
	o.AllowExtra = true
	report, err := bundle.Verify(ctx, c.Bundle.Source(c.Counted), o)
	if err != nil {
		return err
	}
	report.Failures = slices.DeleteFunc(report.Failures, func(f *bundle.Failure) bool {
		no, ok := errors.AsType[*bundle.NotAdmittedError](f.Err)
		return f.Check == bundle.CheckSignatures && ok && no.Decision.Code != policy.DigestRevoked
	})
	if len(report.Failures) > 0 {
		return &install.RefusedError{Report: report}
	}
	if err := c.Bundle.Read(ctx); err != nil {
		return err
	}
	if c.Bundle.Bundle.ID != report.ID {
		return c.conflict()
	}
	return nil
}

// Sign adds the key's signature to the manifest, and reports whether that changes it.
func (c *Change) Sign() (changed bool, err error) {
	doc, had := c.Bundle.Bundle.Document, c.Bundle.Bundle.Signatures
	if err := doc.Merge(c.Verify.Find, had); err != nil {
		return false, err
	}
	if err := SignBeside(&doc, c.Key, c.Verify.Find, c.Time); err != nil {
		return false, err
	}
	c.Bundle.Bundle.FileList.Document = doc
	return !slices.Equal(doc.Signatures, had), nil
}

// SignBeside adds a key's signature to existing ones. If too many exist, it drops lines of unknown keys, because
// anyone can fill the space with these.
func SignBeside(d *manifest.Document, k key.Private, known sign.Keys, at time.Time) error {
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

// withKey adds a key to the known ones.
func withKey(known sign.Keys, own key.Public) sign.Keys {
	return func(f key.Fingerprint) (key.Public, bool) {
		if f == own.Fingerprint() {
			return own, true
		}
		return known(f)
	}
}

// WriteSignatures writes the manifest's signatures to its place, and to the store if that has the manifest. It
// keeps the signatures that other processes have added meanwhile.
func (c *Change) WriteSignatures(ctx context.Context) error {
	body, err := c.Bundle.Bundle.Body()
	if err != nil {
		return err
	}
	inProject := c.Bundle.Where == find.InProject
	if inProject {
		if err := c.write(ctx, c.Bundle.Bundle.ID, body, nil); err != nil {
			return err
		}
	}
	store, err := c.Store(!inProject)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the manifest has them
	}
	if err != nil {
		return err
	}
	if id, err := store.Ref(install.Ref(c.Bundle.Bundle.ID)); inProject &&
		(err != nil || id.Digest != c.Bundle.Bundle.ID) {
		return nil // the manifest has them
	}
	return install.Keep(ctx, store, c.Bundle.Bundle, body, c.Verify)
}

// Take adds signatures of the same manifest, made elsewhere, to that of a project's bundle, and reports whether that
// changes it. Only those of known keys count.
func (c *Change) Take(ctx context.Context, made manifest.Signatures) (changed bool, err error) {
	next, had := &c.Bundle.Bundle.FileList.Document, c.Bundle.Bundle.Signatures
	if err := next.Merge(c.Verify.Find, had, made); err != nil || slices.Equal(next.Signatures, had) {
		return false, err
	}
	body, err := c.Bundle.Bundle.Body()
	if err != nil {
		return false, err
	}
	return true, c.write(ctx, c.Bundle.Bundle.ID, body, nil)
}

// Embed names a document in the manifest of a project's bundle, signs the manifest, and returns the document's
// path. It writes the document before the manifest. lost is the number of signatures that the new manifest lacks:
// their signers must sign again.
func (c *Change) Embed(ctx context.Context, name, mediaType string, doc []byte) (at string, lost int, err error) {
	if err := c.Check(ctx); err != nil {
		return "", 0, err
	}
	home := c.Bundle.Bundle.Layout().Manifest
	if strings.EqualFold(name, path.Base(home)) {
		return "", 0, fault.New(fault.Validation, "%q is the manifest's own name: choose another one for the document",
			name)
	}
	old := *c.Bundle.Bundle.FileList
	body, list, err := provenance.Embed(c.Bundle.Bundle, provenance.Evidence(name, mediaType, doc))
	if err != nil {
		return "", 0, err
	}
	if list.ID == old.ID {
		list.Document = old.Document // the manifest names it already
	}
	if err := c.Journal.CheckNew(list); err != nil {
		return "", 0, err
	}
	if err := list.Sign(c.Key, c.Time); err != nil {
		return "", 0, err
	}
	at = path.Join(path.Dir(home), name)
	if len(old.Signatures) > len(list.Signatures) {
		lost = len(old.Signatures)
	}
	c.Bundle.Bundle.FileList = list
	return at, lost, c.write(ctx, old.ID, body, func(d *osfile.Dir) error {
		if err := d.Write(at, 0o644, false, doc); err != nil {
			return err
		}
		return c.keep(ctx, old.ID, body, doc)
	})
}

// keep stores the changed manifest if the store has the old one.
func (c *Change) keep(ctx context.Context, was cas.Digest, body, doc []byte) error {
	store, err := c.Store(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := store.Ref(install.Ref(was)); err != nil {
		return nil // rye bundle create stores it
	}
	if _, err := store.Put(ctx, cas.Blob, bytes.NewReader(doc)); err != nil {
		return err
	}
	return install.Keep(ctx, store, c.Bundle.Bundle, body, c.Verify)
}

func (c *Change) conflict() error {
	return fault.New(fault.Conflict, "another process changed the manifest of %q meanwhile: it was left as it is",
		c.Bundle.ID)
}

// write replaces the manifest of a project's bundle, unless another process has replaced it: that is a conflict. It
// keeps signatures that were added meanwhile. first runs after all checks.
func (c *Change) write(ctx context.Context, was cas.Digest, body []byte, first func(*osfile.Dir) error) error {
	at := c.Bundle.Bundle.Layout().Manifest
	unlock, err := trust.LockPolicy(ctx, filepath.Join(c.Bundle.Dir, filepath.FromSlash(at)))
	if err != nil {
		return err
	}
	defer unlock()
	now, err := find.ReadManifest(c.Bundle.Dir, c.Bundle.ID)
	if err != nil {
		return err
	}
	next := c.Bundle.Bundle
	if now.ID != was {
		return c.conflict()
	}
	if now.ID == next.ID {
		known := c.Verify.Find
		if !c.Key.IsZero() {
			known = withKey(known, c.Key.Public())
		}
		if err := next.Merge(known, next.Signatures, now.Signatures); err != nil {
			return err
		}
	}
	d, err := osfile.OpenDir(c.Bundle.Dir, 0o777)
	if err != nil {
		return err
	}
	defer d.Close()
	if first != nil {
		if err := first(d); err != nil {
			return err
		}
	}
	if next.Plugin != "" && c.Keys != nil {
		old, _ := d.Read(bundle.PluginKeys, maxKeys) // a missing or foreign one is written anew
		known := c.Keys(next.Signatures)
		if !c.Key.IsZero() {
			known = append(known, manifest.SignerKey{Public: c.Key.Public()})
		}
		text, err := bundle.SignersOf(next.Signatures, known, old)
		if err != nil {
			return err
		}
		if err := d.Write(bundle.PluginKeys, 0o644, false, text); err != nil {
			return err
		}
	}
	return d.Write(at, 0o644, false, manifest.Join(nil, body, next.Signatures))
}

// maxKeys is the most bytes of a plugin's list of signers.
const maxKeys = 1 << 20
