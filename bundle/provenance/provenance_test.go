package provenance

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
)

var update = flag.Bool("update", false, "rewrite testdata")

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var alice, eve = drawn(1), drawn(3)

func drawn(seed byte) key.Private {
	k, err := key.Generate(bytes.NewReader(bytes.Repeat([]byte{seed}, 32)))
	if err != nil {
		panic(err)
	}
	return k
}

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

var build = Build{Type: BuildType, Builder: "https://ci.example.com/release", Recipe: cas.Sum([]byte("id: acme/deploy\n")),
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
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if string(got)+"\n" != string(want) {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestVerify(t *testing.T) {
	b, other := demo(t, "1.4.0"), demo(t, "1.4.1")
	envelope := attested(t, b, Inside, alice)
	got, signers, err := Verify(envelope, b.FileList, Inside, []key.Public{eve.Public(), alice.Public()}, 1)
	if err != nil || len(signers) != 1 || signers[0].Fingerprint() != alice.Public().Fingerprint() {
		t.Fatalf("%v, %v", signers, err)
	}
	if *got != build {
		t.Errorf("%+v, want %+v", *got, build)
	}
	if _, _, err := Verify(envelope, other.FileList, Inside, []key.Public{alice.Public()}, 1); !isA[*attest.SubjectError](err) {
		t.Errorf("about another bundle: %v", err)
	}
	if _, _, err := Verify(envelope, b.FileList, Inside, []key.Public{eve.Public()}, 1); !isA[*attest.ThresholdError](err) {
		t.Errorf("signed by a stranger: %v", err)
	}
	for i := range envelope {
		bad := slices.Clone(envelope)
		bad[i] ^= 1
		if _, _, err := Verify(bad, b.FileList, Inside, []key.Public{alice.Public()}, 1); err == nil {
			t.Errorf("with byte %d changed it verifies", i)
		}
	}
	if _, err := Attest(b.FileList, Inside, build); err != errNoKey {
		t.Errorf("without a key: %v", err)
	}
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// A statement about something else that the same keys signed is no provenance.
func TestVerifyWantsProvenance(t *testing.T) {
	b := demo(t, "1.4.0")
	for predicateType, want := range map[string]string{
		bundle.ProvenanceType:          "provenance: buildDefinition is missing",
		"https://example.com/other/v1": "other/v1",
	} {
		s := attest.Statement{Subjects: []attest.Subject{{Digests: attest.DigestsOf(b.Subject)}}, PredicateType: predicateType, Predicate: []byte("{}")}
		payload, err := s.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := attest.NewEnvelope(attest.StatementPayload, payload)
		if err := e.Sign(alice); err != nil {
			t.Fatal(err)
		}
		envelope, _ := e.Append(nil)
		if _, _, err := Verify(envelope, b.FileList, Inside, []key.Public{alice.Public()}, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", predicateType, err)
		}
	}
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
	sbom := fmt.Appendf(nil, `{"metadata": {"component": {"hashes": [{"alg": "BLAKE3", "content": %q}]}}}`, attest.DigestsOf(b.Subject)["blake3"])
	put(sbom)
	body, _, err := Embed(b, Evidence(Name, bundle.TypeEnvelope, []byte("an old one")), Evidence("sbom.cdx.json", bundle.TypeCycloneDX, sbom))
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
	if _, _, err := Verify(envelope, embedded.FileList, Inside, []key.Public{alice.Public()}, 1); err != nil {
		t.Error(err)
	}
	report, err := bundle.Verify(t.Context(), bundle.Given(embedded, store), bundle.VerifyOptions{Trust: trusting(t), Require: []string{bundle.SBOM, bundle.Provenance}})
	if err != nil || !report.OK() {
		t.Errorf("%v, %+v", err, report)
	}
	// Beside it, it is the id that counts, of the manifest as it is now.
	if _, _, err := Verify(envelope, embedded.FileList, Beside, []key.Public{alice.Public()}, 1); !isA[*attest.SubjectError](err) {
		t.Errorf("%v", err)
	}
	if _, _, err := Verify(attested(t, embedded, Beside, alice), embedded.FileList, Beside, []key.Public{alice.Public()}, 1); err != nil {
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
		r, err := bundle.Verify(t.Context(), bundle.Given(b, store), bundle.VerifyOptions{Trust: trusting(t), Require: []string{bundle.Provenance},
			Statements: []bundle.Statement{{Name: "x.json", Envelope: envelope}}, Progress: func(n, bytes int64) { files, size = n, bytes }})
		if err != nil || files != 1 || size != 6 {
			t.Errorf("%d files, %d bytes, %v", files, size, err)
		}
		return r
	}
	r := verified(attested(t, b, Beside, alice))
	if !r.OK() || len(r.Evidence) != 1 || !r.Evidence[0].Beside || r.Evidence[0].Name != "x.json" || len(r.Evidence[0].Signers) != 1 {
		t.Errorf("%v, %+v", r.Failures, r.Evidence)
	}
	for want, envelope := range map[string][]byte{
		"the statement is about \"bundle:acme/deploy@1.4.1\"": attested(t, other, Beside, alice),
		"signed by 0 of the keys":                             attested(t, b, Beside, eve),
		"evidence":                                            []byte("{}"),
	} {
		r := verified(envelope)
		if len(r.Failures) != 2 || r.Failures[1].Check != bundle.CheckEvidence || r.Failures[1].Path != "x.json" || !strings.Contains(r.Failures[1].Error(), want) {
			t.Errorf("%v lacks %q", r.Failures, want)
		}
	}
}

func trusting(t testing.TB) *exam.Trust {
	t.Helper()
	p, err := policy.Parse(fmt.Appendf(nil, "rye: policy/2\n\nkeys:\n  alice: {key: %q}\n\nnames:\n  \"**\": {keys: [alice]}\n", alice.Public()))
	if err != nil {
		t.Fatal(err)
	}
	return &exam.Trust{Root: policy.Side{Policy: p}, Now: noon}
}

func TestAttestRefuses(t *testing.T) {
	b := demo(t, "1.4.0")
	for want, change := range map[string]func(*Build){
		`provenance: runDetails.builder.id is "", want a URI with a scheme`:              func(b *Build) { b.Builder = "" },
		`provenance: runDetails.builder.id is "ci/release", want a URI with a scheme`:    func(b *Build) { b.Builder = "ci/release" },
		`provenance: runDetails.builder.id is "https://a b", want a URI with a scheme`:   func(b *Build) { b.Builder = "https://a b" },
		`provenance: runDetails.builder.id is "https:\u00e9/", want a URI with a scheme`: func(b *Build) { b.Builder = "https:é/" },
		`provenance: runDetails.metadata.finishedOn is before it started`:                func(b *Build) { b.Finished = noon.Add(-1) },
		`provenance: runDetails.metadata.startedOn is in no year of four digits`:         func(b *Build) { b.Started, b.Finished = noon.AddDate(9999, 0, 0), time.Time{} },
		"json: text that is not UTF-8: \"\\xff\"":                                        func(b *Build) { b.Invocation = "\xff" },
	} {
		bad := build
		change(&bad)
		if _, err := Attest(b.FileList, Inside, bad, alice); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	small := Build{Type: BuildType, Builder: "urn:x"}
	e, err := Attest(b.FileList, Inside, small, alice)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := Verify(e, b.FileList, Inside, []key.Public{alice.Public()}, 1); err != nil || *got != small {
		t.Errorf("%+v, %v", got, err)
	}
}

// What others write is read as far as it is SLSA's.
func TestParse(t *testing.T) {
	theirs := `{"buildDefinition":{"buildType":"https://slsa-framework.github.io/github-actions-buildtypes/workflow/v1","externalParameters":{"recipe":7},
		"internalParameters":{},"resolvedDependencies":[{"uri":"git+https://example.com/x"}]},
		"runDetails":{"builder":{"id":"https://example.com/b","version":{}},"metadata":null,"byproducts":[]}}`
	b, err := Parse([]byte(theirs))
	if err != nil || b.Builder != "https://example.com/b" || !b.Recipe.IsZero() || !b.Started.IsZero() {
		t.Errorf("%+v, %v", b, err)
	}
	const ours = `"buildType":"https://github.com/rye-build/rye/bundle/v1"`
	for text, want := range map[string]string{
		`[]`:                                     `predicate is no object`,
		`{`:                                      `predicate can't be read: json: byte 1: `,
		`{}`:                                     `buildDefinition is missing`,
		`{"buildDefinition":1}`:                  `buildDefinition is no object`,
		`{"buildDefinition":{}}`:                 `runDetails is missing`,
		`{"buildDefinition":{},"runDetails":{}}`: `buildDefinition.buildType is missing`,
		`{"buildDefinition":{"buildType":7},"runDetails":{}}`:                                                                                   `buildDefinition.buildType is no text`,
		`{"buildDefinition":{"buildType":"x:y"},"runDetails":{}}`:                                                                               `buildDefinition.externalParameters is missing`,
		`{"buildDefinition":{"buildType":"x:y","externalParameters":{}},"runDetails":{}}`:                                                       `runDetails.builder is missing`,
		`{"buildDefinition":{"buildType":"x:y","externalParameters":{}},"runDetails":{"builder":{}}}`:                                           `runDetails.builder.id is missing`,
		`{"buildDefinition":{"buildType":"x","externalParameters":{}},"runDetails":{"builder":{"id":"x:y"}}}`:                                   `buildDefinition.buildType is "x", want a URI with a scheme`,
		`{"buildDefinition":{"buildType":"x:y","externalParameters":{}},"runDetails":{"builder":{"id":"x"}}}`:                                   `runDetails.builder.id is "x", want a URI with a scheme`,
		`{"buildDefinition":{"buildType":"x:y","externalParameters":{}},"runDetails":{"builder":{"id":"x:y"},"metadata":[]}}`:                   `runDetails.metadata is no object`,
		`{"buildDefinition":{"buildType":"x:y","externalParameters":{}},"runDetails":{"builder":{"id":"x:y"},"metadata":{"startedOn":"noon"}}}`: `runDetails.metadata.startedOn is "noon", want a time by RFC 3339`,
		`{"buildDefinition":{` + ours + `,"externalParameters":{"recipe":{}}},"runDetails":{"builder":{"id":"x:y"}}}`:                           `buildDefinition.externalParameters.recipe.digest is missing`,
		`{"buildDefinition":{` + ours + `,"externalParameters":{"recipe":{"digest":{"blake3":"ff"}}}},"runDetails":{"builder":{"id":"x:y"}}}`:   `buildDefinition.externalParameters.recipe.digest.blake3 is no digest`,
	} {
		if _, err := Parse([]byte(text)); !isA[*Error](err) || !strings.HasPrefix(err.Error(), "provenance: "+want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// What is read and written again is read as the same.
func FuzzParse(f *testing.F) {
	p, err := build.predicate()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	f.Add([]byte(`{"buildDefinition":{"buildType":"x:y","externalParameters":{}},"runDetails":{"builder":{"id":"x:y"}}}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		b, err := Parse(p)
		if err != nil || b.Type != BuildType {
			return
		}
		again, err := b.predicate()
		if err != nil {
			if b.Finished.Before(b.Started) || b.Started.Year() > 9999 || b.Finished.Year() > 9999 || b.Started.Year() < 0 || b.Finished.Year() < 0 {
				return
			}
			t.Fatalf("%s: %v", p, err)
		}
		second, err := Parse(again)
		b.Started, b.Finished = b.Started.Truncate(time.Second), b.Finished.Truncate(time.Second)
		if err != nil || *second != *b {
			t.Fatalf("%s is read as %+v and then %+v, %v", p, b, second, err)
		}
	})
}
