// Package remote moves bundles to OCI registries and image layouts, and back.
//
// Package oci says how a bundle lies there. Signatures, with the public keys of their signers, and evidence refer to
// it; evidence is among the objects too, so that a copy without referrers is whole. Signatures of all referrers count,
// in one union: who signs later changes no digest. Nothing of what arrives is believed before it is verified like a
// bundle from anywhere else.
//
// What a tag names may move on, never back (package rollback): the journal remembers, under the repository, which
// manifest each version has, and under a tag that isn't a version, the version it was at.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/rollback"
)

// maxEvidence is the size of the largest evidence that is made a referrer. Larger ones are among the objects alone.
const maxEvidence = 8 << 20

// Tag returns the tag of a version: registries know no "+".
func Tag(version string) string { return strings.ReplaceAll(version, "+", "_") }

// Version returns the version that a tag stands for.
func Version(tag string) (string, bool) {
	version := strings.ReplaceAll(tag, "_", "+")
	return version, manifest.CheckVersion(version) == nil
}

// CheckTag wants a tag that is a version to be that of the bundle.
func CheckTag(p *oci.Place, tag string, b *bundle.Bundle) error {
	v, ok := Version(tag)
	if !ok || v == b.Version {
		return nil
	}
	at := p.Reference
	at.Tag = tag
	return fault.New(fault.Integrity, "%s: the tag is a version, and the bundle is %s@%s", at, b.BundleID,
		b.Version).On("reason", "version").
		On("reference", at.String()).On("expected", v).On("found", b.Version)
}

// Newest returns the tag of the newest version that isn't a prerelease; if there are only prereleases, of the newest.
func Newest(ctx context.Context, p *oci.Place) (string, error) {
	tags, err := p.Tags(ctx)
	if err != nil {
		return "", err
	}
	var versions []string
	for _, tag := range tags {
		if v, ok := Version(tag); ok {
			versions = append(versions, v)
		}
	}
	newest := manifest.NewestVersion(versions)
	if newest == "" {
		return "", fault.New(fault.NotFound, "%s has no tag that is a version", p.Reference).On("reference",
			p.Reference.String()).
			List(tags...)
	}
	return Tag(newest), nil
}

// objects are the files of a bundle and its evidence.
func objects(b *bundle.Bundle) []cas.Info {
	all := make([]cas.Info, 0, len(b.Files)+len(b.Evidence))
	for i := range b.Files {
		f := &b.Files[i]
		all = append(all, cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: f.Digest}, Size: f.Size})
	}
	for _, e := range b.Evidence {
		all = append(all, cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: e.Digest}, Size: e.Size})
	}
	return all
}

// Push pushes a bundle whose files src has, with its signatures and those of the keys that made them.
func Push(ctx context.Context, p *oci.Place, tag string, b *bundle.Bundle, src cas.Getter,
	keys ...manifest.SignerKey) (*oci.Pushed, error) {
	if err := CheckTag(p, tag, b); err != nil {
		return nil, fault.Of(err).Try("rye bundle push " + b.BundleID + " " + fault.Quote(p.Reference.String()))
	}
	body, err := b.Body()
	if err != nil {
		return nil, err
	}
	_, final := Version(tag)
	c := oci.Content{Document: body, Objects: objects(b), Source: src, Final: final,
		Annotations: map[string]string{"org.opencontainers.image.title": b.BundleID,
			"org.opencontainers.image.version": b.Version}}
	if len(b.Signatures) > 0 {
		a := format.Attachment{Type: format.SignaturesType,
			Parts: []format.Part{{Type: format.SignaturesType, Name: "manifest.yaml.sig",
				Bytes: b.Signatures.Append(nil)}}}
		if text := manifest.AppendSignerKeys(nil, b.Signatures, keys); len(text) > 0 {
			a.Parts = append(a.Parts, format.Part{Type: format.KeysType, Name: "manifest.yaml.keys", Bytes: text})
		}
		c.Attachments = append(c.Attachments, a)
	}
	for _, e := range b.Evidence {
		if e.Size > maxEvidence {
			continue
		}
		text, err := read(ctx, src, e)
		if err != nil {
			return nil, err
		}
		c.Attachments = append(c.Attachments, format.Attachment{Type: e.Type,
			Parts: []format.Part{{Type: e.Type, Name: e.Name, Bytes: text}}})
	}
	done, err := p.Push(ctx, c, tag)
	if err != nil && fault.CodeOf(err) == fault.Conflict {
		f := fault.Of(err)
		if f.Details["reason"] != "foreign" {
			f.Because("a version never changes: raise it in bundle.yaml")
		} else if f.Because("push to another tag or repository, or delete it in the registry"); !final {
			// to the tag that is its version
			push := "rye bundle push " + b.BundleID + " " + fault.Quote(p.Reference.String())
			f.Hint = append([]string{push}, f.Hint...)
		}
		err = f
	}
	return done, err
}

func read(ctx context.Context, src cas.Getter, e manifest.Evidence) ([]byte, error) {
	o, err := src.Get(ctx, cas.ID{Kind: cas.Blob, Digest: e.Digest})
	if err != nil {
		return nil, fmt.Errorf("%+q: %w", e.Name, err)
	}
	defer o.Close()
	return io.ReadAll(o)
}

// A Remote is a bundle of a registry or a layout: its manifest, with the signatures that are there. Nothing of it is
// verified.
type Remote struct {
	*bundle.Bundle
	Image *oci.Image
	Keys  []manifest.SignerKey // that the registry claims its signers have
	Left  []string             // why which signatures that are attached don't count
}

// Open reads the manifest that a tag or a digest names, and the signatures. If these are too many, those count whose
// keys the options know.
func Open(ctx context.Context, p *oci.Place, name string, o bundle.VerifyOptions) (*Remote, error) {
	m, err := p.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	r := &Remote{Image: m}
	if r.Bundle, err = bundle.Parse(m.Document); err != nil {
		return nil, fault.Wrap(err, "%s: %s", m.Reference(), err)
	}
	if len(r.Signatures) > 0 || r.ID != m.ID {
		return nil, fault.New(fault.Integrity, "%s: the document contains signature lines", m.Reference()).On("reason",
			"document")
	}
	left, err := m.Attached(ctx, format.SignaturesType, func(a *format.Attachment) error {
		var lines manifest.Signatures
		var keys []manifest.SignerKey
		for _, part := range a.Parts {
			var err error
			switch part.Type {
			case format.SignaturesType:
				lines, err = manifest.ParseSignatures(part.Bytes, r.ID)
			case format.KeysType:
				keys, err = manifest.ParseSignerKeys(part.Bytes, lines)
			}
			if err != nil {
				return err
			}
		}
		// Of an attachment that is left out nothing counts.
		if err := r.Merge(o.Find, r.Signatures, lines); err != nil {
			return err
		}
		r.Keys = append(r.Keys, keys...)
		return nil
	})
	for _, why := range left {
		r.Left = append(r.Left, "signatures left out: "+why.Error())
	}
	return r, err
}

// Claim adds to the refusal of the bundle what the place says of its signers, and which signatures don't count.
func (r *Remote) Claim(err error) error {
	if no, ok := errors.AsType[*bundle.NotAdmittedError](err); ok && no.From == "" {
		no.From, no.Signatures, no.Keys, no.Left = r.Image.Place().Source().Pinned(r.Image.Digest).String(),
			r.Signatures, r.Keys, r.Left
	}
	return err
}

// A Pull says where a bundle goes.
type Pull struct {
	Store   install.Store
	Spool   string // a directory for layers that came and aren't used yet
	Verify  bundle.VerifyOptions
	Journal *rollback.Journal
	Now     func() time.Time
}

// Take puts a bundle into the store, where it gets its name only after all of it was verified; else it fails, with an
// *install.RefusedError where the bundle is what is wrong. tag is what it was asked for by; empty for a digest.
// Strangers are turned away before anything but the manifest was read.
func (r *Remote) Take(ctx context.Context, tag string, t Pull) (*bundle.Report, error) {
	if _, err := t.Verify.Admit(r.Bundle); err != nil {
		return nil, r.Claim(err)
	}
	if err := CheckTag(r.Image.Place(), tag, r.Bundle); err != nil {
		return nil, fault.Of(err).Try("rye bundle pull " + fault.Quote(r.Image.Reference().String()))
	}
	steps := r.steps(tag, t.Now().UTC().Truncate(time.Second))
	if err := t.Journal.Check(steps...); err != nil {
		return nil, err
	}
	fresh, release, err := r.Image.Objects(ctx, objects(r.Bundle), t.Store, t.Spool)
	if err != nil {
		return nil, err
	}
	defer release()
	report, err := bundle.Verify(ctx, bundle.Fresh(r.Bundle, t.Store, fresh), t.Verify)
	if err == nil && !report.OK() {
		err = &install.RefusedError{Report: report}
	}
	if err != nil {
		return report, err
	}
	// Remembered before it is to be found, and never the other way round.
	if err := t.Journal.Record(ctx, steps...); err != nil {
		return report, err
	}
	return report, install.Keep(ctx, t.Store, r.Bundle, r.Image.Document, t.Verify)
}

// steps are what the journal remembers of a bundle that was asked for by a tag, or by its digest.
func (r *Remote) steps(tag string, now time.Time) []rollback.Step {
	from := r.Image.Place().Source()
	steps := []rollback.Step{rollback.OfFileList(r.FileList, from.String(), false, now)}
	if tag != "" && tag != Tag(r.Version) {
		from.Tag = tag
		steps = append(steps, rollback.OfFileList(r.FileList, from.String(), true, now))
	}
	return steps
}
