package oci

import (
	"context"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/cas/oci/guard"
)

// What is read of the attachments of a type: so many, and none after so many bytes.
const (
	maxAttached = 1000
	maxBytes    = 32 << 20
)

// Attached reads the attachments of a type, one after the other. It leaves out an attachment that rye would not
// write, whose bytes are wrong, that exceeds a limit, or that take refuses, since every user may attach anything:
// left says why.
func (m *Image) Attached(ctx context.Context, kind string,
	take func(*format.Attachment) error) (left []error, err error) {
	var all []ocispec.Descriptor
	var more bool
	err = m.place.look(ctx, func(at place) (err error) {
		all, more, err = at.referrers(ctx, m.self)
		return err
	})
	if err != nil {
		return nil, m.place.about(m.Digest, err)
	}
	n, over, read := 0, 0, int64(0)
	for _, desc := range all {
		// Registries from before OCI 1.1 take the type of the config for the artifact's.
		if desc.ArtifactType != kind && desc.ArtifactType != "" && desc.ArtifactType != ocispec.MediaTypeEmptyJSON {
			continue
		}
		if n++; n > maxAttached || read > maxBytes {
			over++
			continue
		}
		a, err := m.attachment(ctx, desc, kind, &read)
		if err != nil && !leavable(err) {
			return nil, m.place.about(m.Digest, err)
		}
		if err == nil && a != nil {
			err = take(a)
		}
		if err != nil {
			f := guard.Explain(err)
			left = append(left, fault.Wrap(f, "%s: %s", fault.Clip(desc.Digest.String(), 80), f.Text))
		}
	}
	if over > 0 {
		left = append(left, fault.New(fault.Limit, "%d of %d, since only %d with %d MiB are read", over, n,
			maxAttached, maxBytes>>20))
	}
	if more {
		left = append(left, fault.New(fault.Limit,
			"all behind the first %d in the registry's list, which is too long", len(all)))
	}
	return left, nil
}

// leavable reports whether an error concerns one attachment, and not the place.
func leavable(err error) bool {
	switch guard.Explain(err).Code {
	case fault.Integrity, fault.NotFound, fault.Validation, fault.Limit:
		return true
	}
	return false
}

// attachment reads an attachment that is listed under a type, and counts its bytes; nil if its type is another one.
func (m *Image) attachment(ctx context.Context, desc ocispec.Descriptor, kind string,
	read *int64) (*format.Attachment, error) {
	if !format.ValidDigest(desc.Digest.String()) {
		return nil, fault.New(fault.Integrity, "its digest is not a sha256")
	}
	b, err := m.place.manifest(ctx, desc.Digest.String())
	if err != nil {
		return nil, err
	}
	*read += int64(len(b))
	attachment, parts, err := format.ParseAttachment(b, m.self)
	if attachment.Type != kind && (err == nil || desc.ArtifactType != kind) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i := range parts {
		*read += parts[i].Size
		if attachment.Parts[i].Bytes, err = m.place.get(ctx, parts[i]); err != nil {
			return nil, err
		}
	}
	return &attachment, nil
}

// A referrer is the manifest of an attachment.
type referrer struct {
	ocispec.Descriptor
	text []byte
}

// attach makes attachments refer to a manifest.
func (u *push) attach(ctx context.Context, subject ocispec.Descriptor, all []format.Attachment) error {
	if len(all) == 0 {
		return nil
	}
	config := format.Blob(ocispec.MediaTypeEmptyJSON, format.EmptyConfig)
	if err := u.send(ctx, config, format.EmptyConfig); err != nil {
		return err
	}
	refer := make([]referrer, len(all))
	for i := range all {
		text, err := all[i].Append(nil, subject)
		if err != nil {
			return err
		}
		for _, part := range all[i].Parts {
			if err := u.send(ctx, format.Blob(part.Type, part.Bytes), part.Bytes); err != nil {
				return err
			}
		}
		refer[i] = referrer{format.Blob(ocispec.MediaTypeImageManifest, text), text}
	}
	return u.refer(ctx, subject, refer)
}

// refer puts referrers until the subject lists them all. Where the list is a tag, a client that writes it may drop
// what another client has just added: so refer reads it once more, a moment later.
func (u *push) refer(ctx context.Context, subject ocispec.Descriptor, all []referrer) error {
	var put, settled bool
	for range 8 {
		missing, more, err := u.unlisted(ctx, subject, all)
		if err != nil {
			return err
		}
		if len(missing) == 0 || more && put { // what is behind the end of a list can't be looked for
			if settled || !put || !u.byTag() {
				return nil
			}
			settled = true
			if err := cas.Sleep(ctx, u.pauses()[0]); err != nil {
				return err
			}
			continue
		}
		put, settled = true, false
		for _, r := range missing {
			err := u.again(ctx, func() error { return u.at.putManifest(ctx, r.Descriptor, r.text, "") })
			if err != nil {
				return err
			}
		}
	}
	return fault.New(fault.Busy, "the registry does not list all referrers of %s", subject.Digest).
		On("digest", subject.Digest.String())
}

// unlisted returns the referrers that the place doesn't list, and whether the list is longer than rye reads.
func (u *push) unlisted(ctx context.Context, subject ocispec.Descriptor,
	all []referrer) (missing []referrer, more bool, err error) {
	var listed []ocispec.Descriptor
	err = u.again(ctx, func() (err error) {
		listed, more, err = u.at.referrers(ctx, subject)
		return err
	})
	return slices.DeleteFunc(slices.Clone(all), func(r referrer) bool {
		return slices.ContainsFunc(listed, func(d ocispec.Descriptor) bool { return d.Digest == r.Digest })
	}), more, err
}

// byTag reports whether the place keeps its lists of referrers under tags.
func (p *Place) byTag() bool {
	r, ok := p.at.(*repository)
	return ok && r.remote.ByTag()
}
