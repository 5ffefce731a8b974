package oci

import (
	"encoding/json"

	digest "github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas/oci/format"
)

// The types of attachments that rye knows, and of their parts.
const (
	SignaturesType = "application/vnd.rye.signatures.v2"
	KeysType       = "application/vnd.rye.keys.v2"
)

// The limits of an attachment that is read.
const (
	maxAttached = 8 << 20 // of a part
	maxParts    = 4
)

// An Attachment is something about a bundle that refers to its manifest.
type Attachment struct {
	Type        string // what it is
	Parts       []Part
	Annotations map[string]string
}

// A Part is a file of an attachment.
type Part struct {
	Type  string
	Name  string // for people; may be empty
	Bytes []byte
}

var emptyConfig = []byte("{}")

func blob(mediaType string, b []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.Digest(format.Sum(b)), Size: int64(len(b))}
}

// append encodes the manifest of an attachment.
func (a *Attachment) append(subject ocispec.Descriptor) ([]byte, error) {
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: a.Type,
		Config: blob(ocispec.MediaTypeEmptyJSON, emptyConfig), Subject: &subject, Annotations: a.Annotations}
	for _, p := range a.Parts {
		d := blob(p.Type, p.Bytes)
		if p.Name != "" {
			d.Annotations = map[string]string{ocispec.AnnotationTitle: p.Name}
		}
		m.Layers = append(m.Layers, d)
	}
	return json.Marshal(m)
}
