package sbom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest"
)

var noon = Options{Time: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Rye: "0.3.0"}

func made(t testing.TB, l manifest.FileList, files ...manifest.File) *bundle.Bundle {
	t.Helper()
	body, _, err := manifest.AppendFileList(nil, &l, files)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func file(path string, mode cas.Mode, ref, version string) manifest.File {
	return manifest.File{Path: path, Digest: cas.Sum([]byte(path)), Size: int64(len(path)), Mode: mode, Ref: ref,
		Version: version}
}

func demo(t testing.TB) *bundle.Bundle {
	return made(t, manifest.FileList{BundleID: "acme/deploy", Version: "1.4.0+linux",
		Description: "Deploys — with <care> & \"joy\"", License: "MIT OR (Apache-2.0 WITH LLVM-exception)",
		Entrypoint: "directive:acme/deploy", Requires: []manifest.Require{{BundleID: "acme/base", Version: "^2.0.0"},
			{BundleID: "zeta", Version: "*"}}},
		file(".ai/directives/acme/deploy.md", cas.File, "directive:acme/deploy", ""),
		file(".ai/tools/acme/run.sh", cas.Exec, "tool:acme/run", "1.0.0"), file("docs/Größe.md", cas.File, "", ""))
}

type form struct {
	name  string
	write func(io.Writer, *bundle.Bundle, Options) error
	check func(*testing.T, any)
}

var forms = []form{{CycloneDXName, CycloneDX, checkCycloneDX}, {SPDXName, SPDX, checkSPDX}}

func write(t testing.TB, f form, b *bundle.Bundle) []byte {
	t.Helper()
	var w bytes.Buffer
	if err := f.write(&w, b, noon); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

func TestVectors(t *testing.T) {
	for _, f := range forms {
		got := write(t, f, demo(t))
		goldentest.File(t, filepath.Join("testdata", f.name), got)
	}
}

// What the standards ask for holds whatever the manifest says.
func TestForm(t *testing.T) {
	big := []manifest.File{}
	for i := range 500 {
		big = append(big, file(fmt.Sprintf("docs/%d", i), cas.File, "", ""))
	}
	for name, b := range map[string]*bundle.Bundle{
		"demo":  demo(t),
		"small": made(t, manifest.FileList{BundleID: "a", Version: "0.0.1"}, file("a", cas.File, "", "")),
		"big":   made(t, manifest.FileList{BundleID: "a", Version: "0.0.1", License: "MIT"}, big...),
		"own": made(t, manifest.FileList{BundleID: "a", Version: "0.0.1", License: "Proprietary; ask \"us\""},
			file("a", cas.File, "", "")),
	} {
		for _, f := range forms {
			t.Run(name+" "+f.name, func(t *testing.T) {
				text := write(t, f, b)
				if !bytes.Equal(text, write(t, f, b)) {
					t.Error("it depends on something else")
				}
				var v any
				if err := json.Unmarshal(text, &v); err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				f.check(t, v)
				for _, file := range b.Files {
					if !bytes.Contains(text, []byte(hexOf(file.Digest))) {
						t.Errorf("the digest of %s is not there", file.Path)
					}
				}
			})
		}
	}
}

// A shape is what a standard says of an object: its members with what they look like; those with "!" must be there.
type shape map[string]any

func (s shape) check(t *testing.T, at string, v any) {
	t.Helper()
	o, ok := v.(map[string]any)
	if !ok {
		t.Errorf("%s is %T", at, v)
		return
	}
	for name := range s {
		if n, must := strings.CutSuffix(name, "!"); must && o[n] == nil {
			t.Errorf("%s: %s is missing", at, n)
		}
	}
	for name, m := range o {
		want, ok := s[name]
		if !ok {
			want, ok = s[name+"!"]
		}
		if !ok {
			t.Errorf("%s: %s is not in the standard", at, name)
			continue
		}
		look(t, at+"."+name, want, m)
	}
}

func look(t *testing.T, at string, want, v any) {
	t.Helper()
	switch want := want.(type) {
	case shape:
		want.check(t, at, v)
	case []shape:
		list, ok := v.([]any)
		if !ok {
			t.Errorf("%s is %T", at, v)
		}
		seen := map[string]bool{}
		for i, e := range list {
			text, _ := json.Marshal(e)
			if seen[string(text)] {
				t.Errorf("%s: %s twice", at, text)
			}
			seen[string(text)] = true
			want[0].check(t, fmt.Sprintf("%s[%d]", at, i), e)
		}
	case string:
		if s, ok := v.(string); !ok || !regexp.MustCompile("^(?:"+want+")$").MatchString(s) {
			t.Errorf("%s is %q, want %s", at, v, want)
		}
	case float64, bool:
		if v != want {
			t.Errorf("%s is %v, want %v", at, v, want)
		}
	case nil:
	}
}

const (
	second = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`
	purl   = `pkg:rye/[A-Za-z0-9._/-]+(@[A-Za-z0-9.%-]+)?`
	some   = `(?s).+`
)

func checkCycloneDX(t *testing.T, v any) {
	component := shape{"type!": "application|file", "bom-ref": some, "name!": some, "version": some,
		"description": some, "purl": purl,
		"hashes":     []shape{{"alg!": "BLAKE3", "content!": "[0-9a-f]{64}"}},
		"licenses":   []shape{{"license": shape{"id": "[A-Za-z0-9.-]+", "name": some}, "expression": some}},
		"properties": []shape{{"name!": "rye:[a-z]+", "value!": some}}}
	shape{"bomFormat!": "CycloneDX", "specVersion!": `1\.6`,
		"serialNumber!": "urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
		"version!":      1.0,
		"metadata!": shape{"timestamp!": second, "tools!": shape{"components!": []shape{component}},
			"component!": component},
		"components!":   []shape{component},
		"dependencies!": []shape{{"ref!": some, "dependsOn": nil}}}.check(t, "bom", v)
	// Each bom-ref is there once, and what depends is there.
	o := v.(map[string]any)
	refs := map[string]int{o["metadata"].(map[string]any)["component"].(map[string]any)["bom-ref"].(string): 1}
	for _, c := range o["components"].([]any) {
		refs[c.(map[string]any)["bom-ref"].(string)]++
	}
	for ref, n := range refs {
		if n != 1 {
			t.Errorf("%s is there %d times", ref, n)
		}
	}
	for _, d := range o["dependencies"].([]any) {
		d := d.(map[string]any)
		on, _ := d["dependsOn"].([]any)
		for _, ref := range append(slices.Clone(on), d["ref"]) {
			if refs[ref.(string)] == 0 {
				t.Errorf("%s is not there", ref)
			}
		}
	}
}

func checkSPDX(t *testing.T, v any) {
	const id = "SPDXRef-[A-Za-z0-9.-]+"
	license := `NOASSERTION|LicenseRef-[A-Za-z0-9.-]+|[A-Za-z0-9.() +-]+`
	shape{"spdxVersion!": `SPDX-2\.3`, "dataLicense!": `CC0-1\.0`, "SPDXID!": "SPDXRef-DOCUMENT", "name!": some,
		"documentNamespace!": `https://[^#\s]+`,
		"creationInfo!":      shape{"created!": second, "creators!": nil},
		"hasExtractedLicensingInfos": []shape{{"licenseId!": "LicenseRef-[A-Za-z0-9.-]+", "extractedText!": some,
			"name": some}},
		"packages!": []shape{{"SPDXID!": id, "name!": some, "versionInfo": some, "packageFileName": some,
			"summary":               some,
			"primaryPackagePurpose": "APPLICATION|FILE", "downloadLocation!": "NOASSERTION", "filesAnalyzed!": false,
			"checksums":        []shape{{"algorithm!": "BLAKE3", "checksumValue!": "[0-9a-f]{64}"}},
			"licenseConcluded": license, "licenseDeclared": license, "copyrightText": "NOASSERTION", "comment": some,
			"externalRefs": []shape{{"referenceCategory!": "PACKAGE-MANAGER", "referenceType!": "purl",
				"referenceLocator!": purl}}}},
		"relationships!": []shape{{"spdxElementId!": id, "relationshipType!": "DESCRIBES|CONTAINS|DEPENDS_ON",
			"relatedSpdxElement!": id}}}.check(t, "spdx", v)
	o := v.(map[string]any)
	ids := map[string]int{"SPDXRef-DOCUMENT": 1}
	for _, p := range o["packages"].([]any) {
		ids[p.(map[string]any)["SPDXID"].(string)]++
	}
	related := map[string]bool{}
	for _, r := range o["relationships"].([]any) {
		r := r.(map[string]any)
		from, to := r["spdxElementId"].(string), r["relatedSpdxElement"].(string)
		if ids[from] != 1 || ids[to] != 1 {
			t.Errorf("%s and %s are there %d and %d times", from, to, ids[from], ids[to])
		}
		related[to] = true
	}
	if len(related) != len(ids)-1 {
		t.Errorf("of %d packages %d are related to something", len(ids)-1, len(related))
	}
	for _, c := range o["creationInfo"].(map[string]any)["creators"].([]any) {
		look(t, "creator", `Tool: \S+`, c)
	}
}

// A list of parts is about what the manifest says without evidence, so that it can be evidence.
func TestEvidenceChangesNothing(t *testing.T) {
	b := demo(t)
	head := *b.FileList
	head.Evidence = []manifest.Evidence{{Name: "x", Digest: cas.Sum(nil), Size: 0, Type: "text/plain"}}
	with := made(t, head, b.Files...)
	if with.ID == b.ID {
		t.Fatal("it is the same manifest")
	}
	for _, f := range forms {
		if !bytes.Equal(write(t, f, b), write(t, f, with)) {
			t.Errorf("%s is another one", f.name)
		}
	}
}

func TestNoTime(t *testing.T) {
	for _, f := range forms {
		for _, at := range []time.Time{{}, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
			err := f.write(io.Discard, demo(t), Options{Time: at})
			if err == nil || fault.CodeOf(err) != fault.Validation {
				t.Errorf("%s: %v", f.name, err)
			}
		}
	}
	var w bytes.Buffer
	if err := SPDX(&w, demo(t), Options{Time: noon.Time}); err != nil ||
		!strings.Contains(w.String(), `["Tool: rye"]`) {
		t.Errorf("%v, %s", err, w.String())
	}
}

// A full writes so many bytes and no more.
type full int

var errFull = errors.New("full")

func (f *full) Write(b []byte) (int, error) {
	if *f -= full(len(b)); *f < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriteErrors(t *testing.T) {
	var files []manifest.File
	for i := range 200 {
		files = append(files, file(fmt.Sprintf("docs/%d", i), cas.File, "", ""))
	}
	b := made(t, manifest.FileList{BundleID: "a", Version: "0.0.1"}, files...)
	for _, f := range forms {
		for _, n := range []full{0, 5000, 20000} {
			if err := f.write(&n, b, noon); err != errFull {
				t.Errorf("%s: %v", f.name, err)
			}
		}
	}
	w := newWriter(io.Discard)
	w.value(func() {})
	w.value(1)
	if w.end() == nil {
		t.Error("a function was written")
	}
}

func TestURL(t *testing.T) {
	for want, got := range map[string]string{
		"pkg:rye/acme/deploy@1.4.0":            URL("acme/deploy", "1.4.0"),
		"pkg:rye/x@1.0.0-rc.1%2Blinux.2":       URL("x", "1.0.0-rc.1+linux.2"),
		"pkg:rye/acme/base":                    URL("acme/base", ""),
		"00000000-0000-8000-8000-000000000000": serial(cas.Digest{}),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestLicense(t *testing.T) {
	deep := strings.Repeat("(", 21) + "MIT" + strings.Repeat(")", 21)
	for text, want := range map[string]string{
		"":                        "null",
		"MIT":                     `[{"license":{"id":"MIT"}}]`,
		"MIT OR Apache-2.0":       `[{"expression":"MIT OR Apache-2.0"}]`,
		"MPL-2.0+":                `[{"expression":"MPL-2.0+"}]`,
		"(MIT AND ISC) OR (Zlib)": `[{"expression":"(MIT AND ISC) OR (Zlib)"}]`,
		"GPL-2.0-only WITH Classpath-exception-2.0": `[{"expression":"GPL-2.0-only WITH Classpath-exception-2.0"}]`,
		"mit":          `[{"license":{"name":"mit"}}]`,
		"MIT OR":       `[{"license":{"name":"MIT OR"}}]`,
		"MIT ISC":      `[{"license":{"name":"MIT ISC"}}]`,
		"(MIT":         `[{"license":{"name":"(MIT"}}]`,
		"MIT)":         `[{"license":{"name":"MIT)"}}]`,
		"MIT WITH MIT": `[{"license":{"name":"MIT WITH MIT"}}]`,
		"see LICENSE":  `[{"license":{"name":"see LICENSE"}}]`,
		deep:           `[{"license":{"name":"` + deep + `"}}]`,
	} {
		if got, _ := json.Marshal(cdxLicenses(text)); string(got) != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func BenchmarkCycloneDX(b *testing.B) {
	var files []manifest.File
	for i := range 10000 {
		files = append(files, file(fmt.Sprintf(".ai/tools/acme/t%d.yaml", i), cas.File,
			fmt.Sprintf("tool:acme/t%d", i), "1.0.0"))
	}
	m := made(b, manifest.FileList{BundleID: "a", Version: "0.0.1"}, files...)
	b.ReportAllocs()
	for b.Loop() {
		if err := CycloneDX(io.Discard, m, noon); err != nil {
			b.Fatal(err)
		}
	}
}
