package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// The media types of what rye pushes.
const (
	BundleType   = "application/vnd.rye.bundle.v2"
	DocumentType = "application/vnd.rye.bundle.document.v2+yaml"
	ObjectsType  = "application/vnd.rye.bundle.objects.v2+zstd"
)

// The media types of what docker pushes, which isn't a bundle.
const (
	DockerManifestType = "application/vnd.docker.distribution.manifest.v2+json"
	DockerListType     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

const (
	annotationDigest = "io.github.rye-build.blake3"
	annotationSize   = "io.github.rye-build.size"
)

// The limits of what is read.
const (
	MaxManifest = 4 << 20
	MaxDocument = 64 << 20
	MaxBlob     = MaxLayer + MaxLayer/64 + 1<<10 // a layer that compressing makes longer
)

// A Manifest is what a registry has of a bundle.
type Manifest struct {
	Document    Descriptor
	Layers      []Descriptor
	Annotations map[string]string
}

// A Descriptor is a blob of a registry.
type Descriptor struct {
	SHA256 string     // "sha256:" and 64 digits
	Size   int64      // of the blob
	Digest cas.Digest // of what it holds
	Length int64      // of what it holds
}

func (d Descriptor) oci(mediaType string) ocispec.Descriptor {
	out := ocispec.Descriptor{MediaType: mediaType, Digest: digest.Digest(d.SHA256), Size: d.Size,
		Annotations: map[string]string{annotationDigest: d.Digest.String()}}
	if mediaType == ObjectsType {
		out.Annotations[annotationSize] = strconv.FormatInt(d.Length, 10)
	}
	return out
}

// Blob returns the descriptor by which a registry is asked.
func (d Descriptor) Blob() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: ObjectsType, Digest: digest.Digest(d.SHA256), Size: d.Size}
}

// Append encodes the manifest.
func (m *Manifest) Append(b []byte) ([]byte, error) {
	out := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: BundleType,
		Config:       m.Document.oci(DocumentType), Layers: make([]ocispec.Descriptor, len(m.Layers)),
		Annotations: m.Annotations}
	for i, l := range m.Layers {
		out.Layers[i] = l.oci(ObjectsType)
	}
	text, err := json.Marshal(out)
	return append(b, text...), err
}

// ParseManifest reads a manifest. Bytes that Append wouldn't write are an error.
func ParseManifest(data []byte) (*Manifest, error) {
	var in ocispec.Manifest
	if len(data) > MaxManifest {
		return nil, fmt.Errorf("more than %d bytes", MaxManifest)
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fault.New(fault.Integrity, "invalid manifest: %s", fault.Clip(err.Error(), 200)).From(err)
	}
	if err := foreign(&in, data); err != nil {
		return nil, err
	}
	manifest := &Manifest{Layers: make([]Descriptor, len(in.Layers)), Annotations: in.Annotations}
	var err error
	if manifest.Document, err = descriptor(in.Config, MaxDocument); err != nil {
		return nil, inManifest("config", err)
	}
	manifest.Document.Length = manifest.Document.Size
	for i := range in.Layers {
		if manifest.Layers[i], err = descriptor(in.Layers[i], MaxBlob); err != nil {
			return nil, inManifest(fmt.Sprintf("layer %d", i), err)
		}
	}
	if len(manifest.Layers) == 0 {
		return nil, inManifest("layers", errors.New("none"))
	}
	again, err := manifest.Append(nil)
	if err == nil && !bytes.Equal(again, data) {
		err = errors.New("not written as rye writes it")
	}
	if err != nil {
		return nil, fault.New(fault.Integrity, "invalid manifest: %s", err).From(err)
	}
	return manifest, nil
}

func inManifest(where string, err error) error {
	return fault.New(fault.Integrity, "invalid manifest: %s: %s", where, err).From(err)
}

// foreign returns an error that says what a manifest is, if it isn't a bundle's.
func foreign(in *ocispec.Manifest, b []byte) error {
	failure := fault.New(fault.Validation, "not a bundle").On("media_type", fault.Clip(in.MediaType, 100)).
		On("artifact_type", fault.Clip(in.ArtifactType, 100)).
		Try("rye docs oci")
	switch {
	case in.MediaType == ocispec.MediaTypeImageIndex || in.MediaType == DockerListType ||
		in.MediaType == "" && hasList(b):
		failure.Text = "an index of several manifests, not a bundle"
		return failure.Because("a bundle is the same on every platform: its manifest stands alone").On("reason",
			"index")
	case in.MediaType == DockerManifestType || in.MediaType == ocispec.MediaTypeImageManifest && in.ArtifactType == "":
		failure.Text = "a container image, not a bundle"
		return failure.Because("config: "+strconv.Quote(fault.Clip(in.Config.MediaType, 100))).On("reason", "image")
	case in.MediaType != ocispec.MediaTypeImageManifest:
		failure.Text = fmt.Sprintf("a manifest of type %q, not a bundle", fault.Clip(in.MediaType, 100))
		return failure.On("reason", "media-type")
	case in.ArtifactType != BundleType:
		failure.Text = fmt.Sprintf("an artifact of type %q, not a bundle", fault.Clip(in.ArtifactType, 100))
		return failure.On("reason", "artifact-type")
	}
	return nil
}

func hasList(b []byte) bool {
	var in struct {
		Manifests []json.RawMessage `json:"manifests"`
	}
	return json.Unmarshal(b, &in) == nil && len(in.Manifests) > 0
}

// descriptor reads the descriptor of a blob. Comparing with Append finds the fields that it doesn't read.
func descriptor(in ocispec.Descriptor, most int64) (descriptor Descriptor, err error) {
	descriptor.SHA256, descriptor.Size = in.Digest.String(), in.Size
	if !ValidDigest(descriptor.SHA256) {
		return descriptor, errors.New("the digest is not a sha256")
	}
	if descriptor.Size < 0 || descriptor.Size > most {
		return descriptor, fmt.Errorf("%d bytes, more than the limit of %d", descriptor.Size, most)
	}
	if descriptor.Digest, err = cas.ParseDigest(in.Annotations[annotationDigest]); err != nil {
		return descriptor, fmt.Errorf("%s: %w", annotationDigest, err)
	}
	if text, ok := in.Annotations[annotationSize]; ok {
		if descriptor.Length, err = strconv.ParseInt(text, 10, 64); err != nil || descriptor.Length < 0 ||
			descriptor.Length > MaxLayer {
			return descriptor, fmt.Errorf("%s: %q is not a size of at most %d", annotationSize,
				fault.Clip(text, 40), MaxLayer)
		}
	}
	return descriptor, nil
}

// Sum returns the digest by which a registry names bytes.
func Sum(b []byte) string {
	s := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(s[:])
}

// ValidDigest reports whether a text is "sha256:" and 64 lower-case hexadecimal digits.
func ValidDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	b, err := hex.DecodeString(digits)
	return ok && err == nil && len(b) == 32 && strings.ToLower(digits) == digits
}
