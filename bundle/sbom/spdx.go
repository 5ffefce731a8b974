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

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxLicense struct {
	ID   string `json:"licenseId"`
	Text string `json:"extractedText"`
	Name string `json:"name"`
}

type spdxPackage struct {
	ID         string         `json:"SPDXID"`
	Name       string         `json:"name"`
	Version    string         `json:"versionInfo,omitempty"`
	File       string         `json:"packageFileName,omitempty"`
	Summary    string         `json:"summary,omitempty"`
	Purpose    string         `json:"primaryPackagePurpose,omitempty"`
	Download   string         `json:"downloadLocation"`
	Analyzed   bool           `json:"filesAnalyzed"`
	Checksums  []spdxChecksum `json:"checksums,omitempty"`
	Concluded  string         `json:"licenseConcluded"`
	Declared   string         `json:"licenseDeclared"`
	Copyright  string         `json:"copyrightText"`
	References []spdxExternal `json:"externalRefs,omitempty"`
	Comment    string         `json:"comment,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxExternal struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelation struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const (
	noAssertion = "NOASSERTION"
	ownLicense  = "LicenseRef-bundle"

	spdxDocument = "SPDXRef-DOCUMENT"
	spdxBundle   = "SPDXRef-Bundle"
)

// SPDX writes the SBOM of a bundle in SPDX 2.3.
func SPDX(writer io.Writer, bundle *bundle.Bundle, options Options) error {
	at, err := options.time()
	if err != nil {
		return err
	}
	main := spdxNew(spdxBundle, bundle.BundleID, "APPLICATION")
	main.Version, main.Summary, main.Checksums = bundle.Version, bundle.Description, spdxChecksums(bundle.Subject)
	main.References = spdxURL(URL(bundle.BundleID, bundle.Version))
	var own []spdxLicense
	switch {
	case bundle.License == "":
	case licence.Exact(bundle.License):
		main.Declared = bundle.License
	default:
		main.Declared = ownLicense
		own = []spdxLicense{{ownLicense, bundle.License, bundle.License}}
	}
	out := newWriter(writer)
	out.text(`{"spdxVersion":"SPDX-2.3","dataLicense":"CC0-1.0","SPDXID":"` + spdxDocument + `","name":`)
	out.value(bundle.BundleID + "@" + bundle.Version)
	out.text(`,"documentNamespace":`)
	// A path may contain every character of versions, even "+".
	out.value("https://github.com/rye-build/rye/spdx/" + bundle.BundleID + "/" + bundle.Version + "/" +
		hexOf(bundle.Subject))
	out.text(`,"creationInfo":`)
	out.value(spdxCreation{at, []string{strings.TrimSuffix("Tool: rye-"+options.Rye, "-")}})
	if own != nil {
		out.text(`,"hasExtractedLicensingInfos":`)
		out.value(own)
	}
	out.text(`,"packages":`)
	out.list(entries(bundle, []any{main}, spdxRequire, spdxFile))
	out.text(`,"relationships":`)
	out.list(entries(bundle, []any{spdxRelation{spdxDocument, "DESCRIBES", spdxBundle}},
		func(i int, _ manifest.Require) spdxRelation {
			return spdxRelation{spdxBundle, "DEPENDS_ON", spdxID("Require", i)}
		},
		func(i int, _ *manifest.File) spdxRelation {
			return spdxRelation{spdxBundle, "CONTAINS", spdxID("File", i)}
		}))
	return out.end()
}

func spdxID(what string, i int) string { return "SPDXRef-" + what + "-" + strconv.Itoa(i+1) }

func spdxNew(id, name, purpose string) spdxPackage {
	return spdxPackage{ID: id, Name: name, Purpose: purpose, Download: noAssertion, Concluded: noAssertion,
		Declared: noAssertion, Copyright: noAssertion}
}

func spdxRequire(i int, r manifest.Require) spdxPackage {
	p := spdxNew(spdxID("Require", i), r.BundleID, "APPLICATION")
	p.References, p.Comment = spdxURL(URL(r.BundleID, "")), "requires "+r.Version
	return p
}

func spdxFile(i int, f *manifest.File) spdxPackage {
	p := spdxNew(spdxID("File", i), f.Path, "FILE")
	p.File, p.Version, p.Checksums = "./"+f.Path, f.Version, spdxChecksums(f.Digest)
	var about []string
	if f.Mode == cas.Exec {
		about = append(about, "executable")
	}
	if f.Ref != "" {
		about = append(about, f.Ref)
	}
	p.Comment = strings.Join(append(about, strconv.FormatInt(f.Size, 10)+" bytes"), ", ")
	return p
}

func spdxChecksums(d cas.Digest) []spdxChecksum { return []spdxChecksum{{"BLAKE3", hexOf(d)}} }

func spdxURL(url string) []spdxExternal {
	return []spdxExternal{{"PACKAGE-MANAGER", "purl", url}}
}
