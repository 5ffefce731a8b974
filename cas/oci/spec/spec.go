// Package spec has the documents of the OCI image specification, as far as they are read and written: what another
// client wrote into an index is there still when it is written again. Fields stand in the order in which they are
// written.
package spec

// The media types of documents.
const (
	ManifestType = "application/vnd.oci.image.manifest.v1+json"
	IndexType    = "application/vnd.oci.image.index.v1+json"
	EmptyType    = "application/vnd.oci.empty.v1+json" // of "{}", where a manifest needs no config

	DockerManifestType = "application/vnd.docker.distribution.manifest.v2+json"
	DockerListType     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// Annotations that other clients know.
const (
	Title   = "org.opencontainers.image.title"
	RefName = "org.opencontainers.image.ref.name" // the tag, in the index of a layout
)

// The files of an image layout.
const (
	LayoutFile    = "oci-layout"
	LayoutVersion = "1.0.0"
	IndexFile     = "index.json"
)

// A Descriptor says what some bytes are, and names them by their digest.
type Descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"` // unchecked
	Size         int64             `json:"size"`
	URLs         []string          `json:"urls,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	Data         []byte            `json:"data,omitempty"`
	Platform     *Platform         `json:"platform,omitempty"`
	ArtifactType string            `json:"artifactType,omitempty"`
}

// A Platform is what an image runs on.
type Platform struct {
	Architecture string   `json:"architecture"`
	OS           string   `json:"os"`
	OSVersion    string   `json:"os.version,omitempty"`
	OSFeatures   []string `json:"os.features,omitempty"`
	Variant      string   `json:"variant,omitempty"`
}

// A Manifest is of an image or an artifact.
type Manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType,omitempty"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Config        Descriptor        `json:"config"`
	Layers        []Descriptor      `json:"layers"`
	Subject       *Descriptor       `json:"subject,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// An Index lists manifests.
type Index struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType,omitempty"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Manifests     []Descriptor      `json:"manifests"`
	Subject       *Descriptor       `json:"subject,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}
