package format

import (
	"encoding/json"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas/fault"
)

// The types of attachments that rye knows, and of their parts.
const (
	SignaturesType = "application/vnd.rye.signatures.v2"
	KeysType       = "application/vnd.rye.keys.v2"
	ProofType      = "application/vnd.rye.tlog-proof.v2" // that a registry's log has the bundle
)

// The limits of an attachment that is read.
const (
	maxSigned   = 64 << 10 // of a part with signatures or keys: 16 have a third of that
	maxAttached = 8 << 20  // of another part
	maxParts    = 4
)

// An Attachment is something about a bundle that refers to its manifest.
type Attachment struct {
	Type  string // what it is
	Parts []Part
}

// A Part is a file of an attachment.
type Part struct {
	Type  string
	Name  string // for people; may be empty
	Bytes []byte
}

// EmptyConfig is the config of attachments.
var EmptyConfig = []byte("{}")

// Blob describes bytes.
func Blob(mediaType string, b []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.Digest(Sum(b)), Size: int64(len(b))}
}

// Append encodes the manifest of an attachment.
func (a *Attachment) Append(data []byte, subject ocispec.Descriptor) ([]byte, error) {
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: a.Type,
		Config:       Blob(ocispec.MediaTypeEmptyJSON, EmptyConfig), Subject: &subject}
	for _, p := range a.Parts {
		d := Blob(p.Type, p.Bytes)
		if p.Name != "" {
			d.Annotations = map[string]string{ocispec.AnnotationTitle: p.Name}
		}
		m.Layers = append(m.Layers, d)
	}
	text, err := json.Marshal(m)
	return append(data, text...), err
}

// ParseAttachment reads the manifest of an attachment, and where the bytes of its parts are. Of one that is wrong it
// returns the type.
func ParseAttachment(b []byte, subject ocispec.Descriptor) (Attachment, []ocispec.Descriptor, error) {
	var in ocispec.Manifest
	err := json.Unmarshal(b, &in)
	attachment := Attachment{Type: in.ArtifactType}
	if err != nil || in.Subject == nil || in.Subject.Digest != subject.Digest || len(in.Layers) > maxParts {
		return attachment, nil, fault.New(fault.Integrity, "not an attachment of %s", subject.Digest)
	}
	for _, l := range in.Layers {
		most := int64(maxAttached)
		if l.MediaType == SignaturesType || l.MediaType == KeysType {
			most = maxSigned
		}
		if l.Size < 0 || l.Size > most || !ValidDigest(l.Digest.String()) {
			return attachment, nil, fault.New(fault.Integrity,
				"it has a part of more than %d bytes, or without a sha256", most)
		}
		attachment.Parts = append(attachment.Parts,
			Part{Type: l.MediaType, Name: l.Annotations[ocispec.AnnotationTitle]})
	}
	return attachment, in.Layers, nil
}
