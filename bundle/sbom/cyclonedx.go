package sbom

import (
	"io"
	"strconv"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/licence"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

type cdxMetadata struct {
	Timestamp string       `json:"timestamp"`
	Tools     cdxTools     `json:"tools"`
	Component cdxComponent `json:"component"`
}

type cdxTools struct {
	Components []cdxComponent `json:"components"`
}

type cdxComponent struct {
	Type        string        `json:"type"`
	Ref         string        `json:"bom-ref,omitempty"`
	Name        string        `json:"name"`
	Version     string        `json:"version,omitempty"`
	Description string        `json:"description,omitempty"`
	Hashes      []cdxHash     `json:"hashes,omitempty"`
	Licenses    []cdxLicense  `json:"licenses,omitempty"`
	URL         string        `json:"purl,omitempty"`
	Properties  []cdxProperty `json:"properties,omitempty"`
}

type cdxHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type cdxLicense struct {
	License    *cdxNamed `json:"license,omitempty"`
	Expression string    `json:"expression,omitempty"`
}

type cdxNamed struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

type cdxProperty struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type cdxDependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// CycloneDX writes the SBOM of a bundle in CycloneDX 1.6.
func CycloneDX(writer io.Writer, bundle *bundle.Bundle, options Options) error {
	at, err := options.time()
	if err != nil {
		return err
	}
	self := URL(bundle.BundleID, bundle.Version)
	main := cdxComponent{Type: "application", Ref: self, Name: bundle.BundleID, Version: bundle.Version,
		Description: bundle.Description,
		Hashes:      cdxHashes(bundle.Subject), Licenses: cdxLicenses(bundle.License), URL: self}
	if bundle.Entrypoint != "" {
		main.Properties = []cdxProperty{{"rye:entrypoint", bundle.Entrypoint}}
	}
	depends := cdxDependency{Ref: self}
	for _, r := range bundle.Requires {
		depends.DependsOn = append(depends.DependsOn, URL(r.BundleID, ""))
	}
	out := newWriter(writer)
	out.text(`{"bomFormat":"CycloneDX","specVersion":"1.6","serialNumber":"urn:uuid:` + serial(bundle.Subject) +
		`","version":1,"metadata":`)
	out.value(cdxMetadata{at, cdxTools{[]cdxComponent{{Type: "application", Name: "rye", Version: options.Rye}}},
		main})
	out.text(`,"components":`)
	out.list(entries(bundle, nil, cdxRequire, cdxFile))
	out.text(`,"dependencies":`)
	out.value([]cdxDependency{depends})
	return out.end()
}

func cdxRequire(_ int, r manifest.Require) cdxComponent {
	self := URL(r.BundleID, "")
	return cdxComponent{Type: "application", Ref: self, Name: r.BundleID, URL: self,
		Properties: []cdxProperty{{"rye:requires", r.Version}}}
}

func cdxFile(_ int, f *manifest.File) cdxComponent {
	cdxComponent := cdxComponent{Type: "file", Ref: "file:" + f.Path, Name: f.Path, Hashes: cdxHashes(f.Digest)}
	if f.Mode == cas.Exec {
		cdxComponent.Properties = append(cdxComponent.Properties, cdxProperty{"rye:mode", "exec"})
	}
	if f.Ref != "" {
		cdxComponent.Properties = append(cdxComponent.Properties, cdxProperty{"rye:ref", f.Ref})
	}
	cdxComponent.Properties = append(cdxComponent.Properties, cdxProperty{"rye:size", strconv.FormatInt(f.Size, 10)})
	if f.Version != "" {
		cdxComponent.Properties = append(cdxComponent.Properties, cdxProperty{"rye:version", f.Version})
	}
	return cdxComponent
}

func cdxHashes(d cas.Digest) []cdxHash { return []cdxHash{{"BLAKE3", hexOf(d)}} }

func cdxLicenses(text string) []cdxLicense {
	switch {
	case text == "":
		return nil
	case !licence.Exact(text):
		return []cdxLicense{{License: &cdxNamed{Name: text}}}
	case licence.Parse(text).Name == text && !strings.HasSuffix(text, "+"):
		return []cdxLicense{{License: &cdxNamed{ID: text}}}
	}
	return []cdxLicense{{Expression: text}}
}
