// Package remote transfers bundles to OCI registries and image layouts, and back.
//
// Package oci defines the form of a bundle there. Signatures, with the public keys of their signers, and evidence
// refer to it; evidence is also among the objects, so that a copy without referrers is complete. Signatures of all
// referrers count, in one union: a later signature changes no digest. What arrives is verified like a bundle from
// anywhere else. Proofs that logs of registries have the bundle refer to it, too, and are kept with it.
//
// A tag may move on, never back (package rollback): the journal records, under the repository, which manifest each
// version has, and under a tag that isn't a version, the version it was at.
//
// # How a push goes through here
//
// Push checks the tag (CheckTag), makes attachments of signatures, keys and evidence, and calls oci.Place.Push, whose
// conflicts it explains.
//
// # How a pull goes through here
//
// Open reads manifest, document and signatures from the place. Remote.Take then asks the policy whether it admits the
// signers, checks the tag and the journal, stores the objects (oci.Image.Objects), verifies the bundle, records it in
// the journal, and names it in the store (install.Keep).
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
	"github.com/rye-build/rye/manifest/tlog"
)

// proofName is the name of a proof among the attachments.
const proofName = "manifest.yaml.tlog-proof"

// maxEvidence is the size of the largest evidence that becomes a referrer. Larger evidence is only among the objects.
const maxEvidence = 8 << 20

// Tag returns the tag of a version: registries know no "+".
func Tag(version string) string { return strings.ReplaceAll(version, "+", "_") }

// Version returns the version that a tag means.
func Version(tag string) (string, bool) {
	version := strings.ReplaceAll(tag, "_", "+")
	return version, manifest.CheckVersion(version) == nil
}

// CheckTag refuses a tag that is another version than the bundle's.
func CheckTag(p *oci.Place, tag string, b *bundle.Bundle) error {
	v, ok := Version(tag)
	if !ok || v == b.Version {
		return nil
	}
	at := p.Reference
	at.Tag = tag
	return fault.New(fault.Integrity, "%s: the tag is a version, and the bundle is %s@%s", at, b.BundleID, b.Version).
		On("reason", "version").
		On("reference", at.String()).On("expected", v).On("found", b.Version)
}

// Newest returns the tag of the newest version. It prefers versions that aren't prereleases.
func Newest(ctx context.Context, place *oci.Place) (string, error) {
	tags, err := place.Tags(ctx)
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
		return "", fault.New(fault.NotFound, "%s has no tag that is a version", place.Reference).
			On("reference", place.Reference.String()).
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

// Push pushes a bundle whose files src has, with its signatures and those of the keys that made them, and with proofs
// of it in logs, and remembers its version. It refuses another bundle of a remembered version.
func Push(ctx context.Context, place *oci.Place, tag string, bundle *bundle.Bundle, src cas.Getter,
	memory *rollback.Journal, now time.Time, proofs []*tlog.Proof, keys ...manifest.SignerKey) (*oci.Pushed, error) {
	if err := memory.CheckNew(bundle.FileList); err != nil {
		return nil, err
	}
	if err := CheckTag(place, tag, bundle); err != nil {
		return nil, fault.Of(err).Try("rye bundle push " + bundle.BundleID + " " +
			fault.Quote(place.Reference.String()))
	}
	body, err := bundle.Body()
	if err != nil {
		return nil, err
	}
	_, final := Version(tag)
	content := oci.Content{Document: body, Objects: objects(bundle), Source: src, Final: final,
		Annotations: map[string]string{"org.opencontainers.image.title": bundle.BundleID,
			"org.opencontainers.image.version": bundle.Version}}
	if len(bundle.Signatures) > 0 {
		a := format.Attachment{Type: format.SignaturesType, Parts: []format.Part{{Type: format.SignaturesType,
			Name: "manifest.yaml.sig", Bytes: bundle.Signatures.Append(nil)}}}
		if text := manifest.AppendSignerKeys(nil, bundle.Signatures, keys); len(text) > 0 {
			a.Parts = append(a.Parts, format.Part{Type: format.KeysType, Name: "manifest.yaml.keys", Bytes: text})
		}
		content.Attachments = append(content.Attachments, a)
	}
	for _, proof := range proofs {
		content.Attachments = append(content.Attachments, format.Attachment{Type: format.ProofType,
			Parts: []format.Part{{Type: format.ProofType, Name: proofName, Bytes: proof.Append(nil)}}})
	}
	for _, e := range bundle.Evidence {
		if e.Size > maxEvidence {
			continue
		}
		text, err := read(ctx, src, e)
		if err != nil {
			return nil, err
		}
		content.Attachments = append(content.Attachments, format.Attachment{Type: e.Type,
			Parts: []format.Part{{Type: e.Type, Name: e.Name, Bytes: text}}})
	}
	done, err := place.Push(ctx, content, tag)
	if err != nil && fault.CodeOf(err) == fault.Conflict {
		f := fault.Of(err)
		if f.Details["reason"] != "foreign" {
			f.Because("a version never changes: raise it in bundle.yaml")
		} else if f.Because("push to another tag or repository, or delete it in the registry"); !final {
			// to the tag that is its version
			push := "rye bundle push " + bundle.BundleID + " " + fault.Quote(place.Reference.String())
			f.Hint = append([]string{push}, f.Hint...)
		}
		err = f
	}
	if err != nil || memory == nil {
		return done, err
	}
	return done, memory.Record(ctx, rollback.OfFileList(bundle.FileList, place.Source().String(), false,
		now.UTC().Truncate(time.Second)))
}

func read(ctx context.Context, src cas.Getter, e manifest.Evidence) ([]byte, error) {
	o, err := src.Get(ctx, cas.ID{Kind: cas.Blob, Digest: e.Digest})
	if err != nil {
		return nil, fmt.Errorf("%+q: %w", e.Name, err)
	}
	defer o.Close()
	return io.ReadAll(o)
}

// A Remote is a bundle of a registry or a layout: its manifest and the signatures there. Nothing of it is verified.
type Remote struct {
	*bundle.Bundle
	Image *oci.Image
	Keys  []manifest.SignerKey // that the registry claims its signers have
	Left  []string             // which attachments don't count, and why
}

// Open reads the manifest that a tag or a digest names, and the signatures. If there are too many, it keeps those
// whose keys the options know.
func Open(ctx context.Context, p *oci.Place, name string, verifyOptions bundle.VerifyOptions) (*Remote, error) {
	image, err := p.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	remote := &Remote{Image: image}
	if remote.Bundle, err = bundle.Parse(image.Document); err != nil {
		return nil, fault.Wrap(err, "%s: %s", image.Reference(), err)
	}
	if len(remote.Signatures) > 0 || remote.ID != image.ID {
		return nil, fault.New(fault.Integrity, "%s: the document contains signature lines", image.Reference()).
			On("reason", "document")
	}
	left, err := image.Attached(ctx, format.SignaturesType, func(a *format.Attachment) error {
		var lines manifest.Signatures
		var keys []manifest.SignerKey
		for _, part := range a.Parts {
			var err error
			switch part.Type {
			case format.SignaturesType:
				lines, err = manifest.ParseSignatures(part.Bytes, remote.ID)
			case format.KeysType:
				keys, err = manifest.ParseSignerKeys(part.Bytes, lines)
			}
			if err != nil {
				return err
			}
		}
		// An attachment counts as a whole or not at all.
		if err := remote.Merge(verifyOptions.Find, remote.Signatures, lines); err != nil {
			return err
		}
		remote.Keys = append(remote.Keys, keys...)
		return nil
	})
	for _, why := range left {
		remote.Left = append(remote.Left, "signatures left out: "+why.Error())
	}
	return remote, err
}

// Claim adds to a refusal of the bundle its signers as the place names them, and the signatures that don't count.
func (r *Remote) Claim(err error) error {
	if no, ok := errors.AsType[*bundle.NotAdmittedError](err); ok && no.From == "" {
		no.From = r.Image.Place().Source().Pinned(r.Image.Digest).String()
		no.Signatures, no.Keys, no.Left = r.Signatures, r.Keys, r.Left
	}
	return err
}

// A Pull is the destination of a bundle.
type Pull struct {
	Store   install.Store
	Spool   string // a directory for downloaded layers that aren't unpacked yet
	Verify  bundle.VerifyOptions
	Journal *rollback.Journal
	Now     func() time.Time
	// Proof refuses an attached proof that is known to be false; nil: each that names the bundle is taken. Nothing
	// else vouches for a proof that was taken.
	Proof func(ctx context.Context, proof *tlog.Proof, of tlog.Release) error
}

// Take puts a bundle into the store, and names it there after it has verified all of it. If verification fails, the
// error is an *install.RefusedError. tag is the tag that the user named; empty for a digest. Take refuses unknown
// signers before it reads anything but the manifest.
func (r *Remote) Take(ctx context.Context, tag string, pull Pull) (*bundle.Report, error) {
	if _, err := pull.Verify.Admit(r.Bundle); err != nil {
		return nil, r.Claim(err)
	}
	if err := CheckTag(r.Image.Place(), tag, r.Bundle); err != nil {
		return nil, fault.Of(err).Try("rye bundle pull " + fault.Quote(r.Image.Reference().String()))
	}
	steps := r.steps(tag, pull.Now().UTC().Truncate(time.Second))
	if err := pull.Journal.Check(steps...); err != nil {
		return nil, err
	}
	fresh, release, err := r.Image.Objects(ctx, objects(r.Bundle), pull.Store, pull.Spool)
	if err != nil {
		return nil, err
	}
	defer release()
	report, err := bundle.Verify(ctx, bundle.Fresh(r.Bundle, pull.Store, fresh), pull.Verify)
	if err == nil && !report.OK() {
		err = &install.RefusedError{Report: report}
	}
	if err != nil {
		return report, err
	}
	// The journal comes first: a bundle that can be found is always in the journal.
	if err := pull.Journal.Record(ctx, steps...); err != nil {
		return report, err
	}
	if err := install.Keep(ctx, pull.Store, r.Bundle, r.Image.Document, pull.Verify); err != nil {
		return report, err
	}
	return report, r.takeProofs(ctx, pull)
}

// takeProofs keeps the attached proofs of the bundle, one of each log that the store has none of.
func (r *Remote) takeProofs(ctx context.Context, pull Pull) error {
	of := tlog.Release{Bundle: r.BundleID, Version: r.Version, Manifest: r.ID}
	left, err := r.Image.Attached(ctx, format.ProofType, func(a *format.Attachment) error {
		for _, part := range a.Parts {
			if part.Type != format.ProofType {
				continue
			}
			proof, err := tlog.ParseProof(part.Bytes)
			if err == nil {
				err = names(proof, of)
			}
			if err == nil && pull.Proof != nil {
				err = pull.Proof(ctx, proof, of)
			}
			if err == nil {
				err = r.keepProof(ctx, pull, proof, of)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	for _, why := range left {
		r.Left = append(r.Left, "proof left out: "+why.Error())
	}
	return err
}

// names returns an error unless the entry that a proof claims to be of publishes the bundle.
func names(proof *tlog.Proof, of tlog.Release) error {
	entry, err := tlog.ParseEntry(proof.Entry)
	if err != nil {
		return err
	}
	for _, release := range entry.All() {
		if release.Bundle == of.Bundle && release.Version == of.Version && release.Manifest == of.Manifest {
			return nil
		}
	}
	return fault.New(fault.Integrity, "it is a proof of something else than %s", of.Key())
}

// keepProof keeps a proof, unless the store has one of that log which isn't known to be false: what came first may
// have been checked more closely.
func (r *Remote) keepProof(ctx context.Context, pull Pull, proof *tlog.Proof, of tlog.Release) error {
	kept, err := bundle.ReadProof(ctx, pull.Store, pull.Store, r.ID, proof.Origin())
	if err == nil && (pull.Proof == nil || pull.Proof(ctx, kept, of) == nil) {
		return nil
	}
	return install.KeepProof(ctx, pull.Store, r.ID, proof)
}

// steps returns the journal's entries for a bundle that the user named by a tag, or by its digest.
func (r *Remote) steps(tag string, now time.Time) []rollback.Step {
	from := r.Image.Place().Source()
	steps := []rollback.Step{rollback.OfFileList(r.FileList, from.String(), false, now)}
	if tag != "" && tag != Tag(r.Version) {
		from.Tag = tag
		steps = append(steps, rollback.OfFileList(r.FileList, from.String(), true, now))
	}
	return steps
}
