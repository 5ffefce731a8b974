package provenance

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var alice, eve = keytest.Alice(), keytest.Eve()

// demo is a bundle of one file.
func demo(t testing.TB, version string) *bundle.Bundle {
	t.Helper()
	body, l, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: "acme/deploy", Version: version},
		[]manifest.File{{Path: "README.md", Digest: cas.Sum([]byte("about\n")), Size: 6, Mode: cas.File}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Parse(body)
	if err != nil || b.ID != l.ID {
		t.Fatal(err)
	}
	return b
}

var build = Build{Builder: "https://ci.example.com/release", Recipe: cas.Sum([]byte("id: acme/deploy\n")),
	Invocation: "1234", Started: noon, Finished: noon.Add(5 * time.Second)}

func attested(t testing.TB, b *bundle.Bundle, at Place, keys ...key.Private) []byte {
	t.Helper()
	e, err := Attest(b.FileList, at, build, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The bytes of an envelope and of what is in it stay as they are.
func TestVectors(t *testing.T) {
	envelope := attested(t, demo(t, "1.4.0"), Inside, alice)
	e, err := attest.ParseEnvelope(envelope)
	if err != nil {
		t.Fatal(err)
	}
	_, payload := e.Unverified()
	for name, got := range map[string][]byte{"envelope.json": envelope, "statement.json": payload} {
		goldentest.File(t, filepath.Join("testdata", name), append(got, '\n'))
	}
}

func TestAttest(t *testing.T) {
	b, other := demo(t, "1.4.0"), demo(t, "1.4.1")
	envelope := attested(t, b, Inside, alice)
	if err := verify(envelope, b, Inside, eve, alice); err != nil {
		t.Error(err)
	}
	if err := verify(envelope, other, Inside, alice); fault.CodeOf(err) != fault.Integrity {
		t.Errorf("about another bundle: %v", err)
	}
	if err := verify(envelope, b, Inside, eve); fault.CodeOf(err) != fault.BelowThreshold {
		t.Errorf("signed by a stranger: %v", err)
	}
	if _, err := Attest(b.FileList, Inside, build); err != errNoKey {
		t.Errorf("without a key: %v", err)
	}
}

// verify holds a statement against a bundle, signed by one of the keys.
func verify(envelope []byte, b *bundle.Bundle, at Place, keys ...key.Private) error {
	var public []key.Public
	for _, k := range keys {
		public = append(public, k.Public())
	}
	_, _, err := attest.VerifyStatement(envelope, public, 1, bundle.ProvenanceType,
		attest.DigestsOf(at.about(b.FileList)))
	return err
}

// What is embedded is about the bundle that embeds it, and rye bundle verify says so too.
func TestEmbed(t *testing.T) {
	store := new(cas.Memory)
	put := func(b []byte) {
		if _, err := store.Put(t.Context(), cas.Blob, bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
	}
	put([]byte("about\n"))
	b := demo(t, "1.4.0")
	envelope := attested(t, b, Inside, alice)
	put(envelope)
	sbom := fmt.Appendf(nil, `{"metadata": {"component": {"hashes": [{"alg": "BLAKE3", "content": %q}]}}}`,
		attest.DigestsOf(b.Subject)["blake3"])
	put(sbom)
	body, _, err := Embed(b, Evidence(Name, bundle.TypeEnvelope, []byte("an old one")),
		Evidence("sbom.cdx.json", bundle.TypeCycloneDX, sbom))
	if err != nil {
		t.Fatal(err)
	}
	first, err := bundle.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	body, l, err := Embed(first, Evidence(Name, bundle.TypeEnvelope, envelope))
	if err != nil || len(l.Evidence) != 2 || l.Subject != b.Subject || l.ID == b.ID || len(l.Signatures) != 0 {
		t.Fatalf("%+v, %v", l, err)
	}
	if err := l.Sign(alice, noon); err != nil {
		t.Fatal(err)
	}
	embedded, err := bundle.Parse(manifest.Join(nil, body, l.Signatures))
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(envelope, embedded, Inside, alice); err != nil {
		t.Error(err)
	}
	report, err := bundle.Verify(t.Context(), bundle.Given(embedded, store),
		bundle.VerifyOptions{Trust: trusting(t), Require: []string{bundle.SBOM, bundle.Provenance}})
	if err != nil || !report.OK() {
		t.Errorf("%v, %+v", err, report)
	}
	// Beside it, it is the id that counts, of the manifest as it is now.
	if err := verify(envelope, embedded, Beside, alice); fault.CodeOf(err) != fault.Integrity {
		t.Errorf("%v", err)
	}
	if err := verify(attested(t, embedded, Beside, alice), embedded, Beside, alice); err != nil {
		t.Error(err)
	}
}

// A statement that travels beside a bundle is held against the manifest's id, and does for what is required.
func TestBeside(t *testing.T) {
	store := new(cas.Memory)
	if _, err := store.Put(t.Context(), cas.Blob, strings.NewReader("about\n")); err != nil {
		t.Fatal(err)
	}
	b, other := demo(t, "1.4.0"), demo(t, "1.4.1")
	if err := b.Sign(alice, noon); err != nil {
		t.Fatal(err)
	}
	verified := func(envelope []byte) *bundle.Report {
		t.Helper()
		var files, size int64
		r, err := bundle.Verify(t.Context(), bundle.Given(b, store),
			bundle.VerifyOptions{Trust: trusting(t), Require: []string{bundle.Provenance},
				Statements: []bundle.Statement{{Name: "x.json", Envelope: envelope}}, Progress: func(n, bytes int64) {
					files, size = n, bytes
				}})
		if err != nil || files != 1 || size != 6 {
			t.Errorf("%d files, %d bytes, %v", files, size, err)
		}
		return r
	}
	r := verified(attested(t, b, Beside, alice))
	if !r.OK() || len(r.Evidence) != 1 || r.Evidence[0].About.IsZero() || r.Evidence[0].Name != "x.json" ||
		len(r.Evidence[0].Signers) != 1 {
		t.Errorf("%v, %+v", r.Failures, r.Evidence)
	}
	for want, envelope := range map[string][]byte{
		"the statement is about \"bundle:acme/deploy@1.4.1\"": attested(t, other, Beside, alice),
		"signed by 0 of the keys":                             attested(t, b, Beside, eve),
		"evidence":                                            []byte("{}"),
	} {
		r := verified(envelope)
		if len(r.Failures) != 2 || r.Failures[1].Check != bundle.CheckEvidence || r.Failures[1].Path != "x.json" ||
			!strings.Contains(r.Failures[1].Error(), want) {
			t.Errorf("%v lacks %q", r.Failures, want)
		}
	}
}

func trusting(t testing.TB) *admission.Trust {
	return admissiontest.Trust(t, noon, admissiontest.ByAlice)
}

func TestAttestRefuses(t *testing.T) {
	b := demo(t, "1.4.0")
	for want, change := range map[string]func(*Build){
		`provenance: runDetails.builder.id is "", must be a URI with a scheme`: func(b *Build) {
			b.Builder = ""
		},
		`provenance: runDetails.builder.id is "ci/release", must be a URI with a scheme`: func(b *Build) {
			b.Builder = "ci/release"
		},
		`provenance: runDetails.builder.id is "https://a b", must be a URI with a scheme`: func(b *Build) {
			b.Builder = "https://a b"
		},
		`provenance: runDetails.builder.id is "https:\u00e9/", must be a URI with a scheme`: func(b *Build) {
			b.Builder = "https:é/"
		},
		`provenance: runDetails.metadata.finishedOn is before it started`: func(b *Build) {
			b.Finished = noon.Add(-1)
		},
		`provenance: runDetails.metadata.startedOn is not in a year of four digits`: func(b *Build) {
			b.Started, b.Finished = noon.AddDate(9999, 0, 0), time.Time{}
		},
		"json: text that is not UTF-8: \"\\xff\"": func(b *Build) { b.Invocation = "\xff" },
	} {
		bad := build
		change(&bad)
		if _, err := Attest(b.FileList, Inside, bad, alice); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	small := Build{Builder: "urn:x"}
	if got, err := small.predicate(); err != nil ||
		string(got) !=
			`{"buildDefinition":{"buildType":"https://github.com/rye-build/rye/bundle/v1","externalParameters":{}},"runDetails":{"builder":{"id":"urn:x"}}}` {
		t.Errorf("%s, %v", got, err)
	}
}
