package bundle_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

func TestVerifyProvenance(t *testing.T) {
	envelope := func(d cas.Digest, kind string, keys ...key.Private) []byte {
		s := &attest.Statement{Subjects: []attest.Subject{{Name: "demo", Digests: attest.DigestsOf(d)}},
			PredicateType: kind, Predicate: []byte("{}")}
		b, err := s.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		e, err := attest.NewEnvelope(attest.StatementPayload, b)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Sign(keys...); err != nil {
			t.Fatal(err)
		}
		if b, err = e.Append(nil); err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, c := range map[string]struct {
		require []string
		add     func(p *pack, subject cas.Digest)
		want    []string
	}{
		"good": {[]string{"provenance"}, func(p *pack, s cas.Digest) {
			p.prove("p.json", bundle.TypeEnvelope, envelope(s, bundle.ProvenanceType, alice))
		}, nil},
		"another": {[]string{"provenance"}, func(p *pack, s cas.Digest) {
			p.prove("p.json", bundle.TypeEnvelope, envelope(cas.Sum(nil), bundle.ProvenanceType, alice))
		}, []string{"evidence: expected provenance, found none: \"p.json\": "}},
		"eve's": {[]string{"provenance"}, func(p *pack, s cas.Digest) {
			p.prove("p.json", bundle.TypeEnvelope, envelope(s, bundle.ProvenanceType, eve))
		}, []string{"evidence: expected provenance, found none: \"p.json\": "}},
		"bob's": {[]string{"provenance"}, func(p *pack, s cas.Digest) {
			p.prove("p.json", bundle.TypeEnvelope, envelope(s, bundle.ProvenanceType, bob))
		}, []string{"evidence: expected provenance, found none: \"p.json\": \"bundle:acme/demo@1.0.0\" "}},
		"other kind": {[]string{"provenance"}, func(p *pack, s cas.Digest) {
			p.prove("p.json", bundle.TypeEnvelope, envelope(s, "https://example.com/x", alice))
		},
			[]string{"evidence: expected provenance, found none: \"p.json\": "}},
		"no envelope": {[]string{"provenance"}, func(p *pack, s cas.Digest) {
			p.prove("p.json", bundle.TypeEnvelope, []byte("{}"))
		}, []string{"evidence: expected provenance, found none: \"p.json\": "}},
		"not required": {nil, func(p *pack, s cas.Digest) {
			p.prove("p.json", bundle.TypeEnvelope, []byte("{}"))
		}, nil},
		"another's parts": {[]string{"sbom"}, func(p *pack, s cas.Digest) {
			p.prove("p.json", bundle.TypeCycloneDX, partsOf(cas.Sum(nil)))
		},
			[]string{"evidence: expected sbom, found none: \"p.json\": the SBOM describes another bundle"}},
		"no parts": {[]string{"sbom"}, func(p *pack, s cas.Digest) {
			p.prove("p.json", bundle.TypeCycloneDX, []byte("{"))
		},
			[]string{"evidence: expected sbom, found none: \"p.json\": unreadable SBOM"}},
		"parts": {[]string{"sbom"}, func(p *pack, s cas.Digest) {
			p.prove("p.json", bundle.TypeSPDX, spdxOf(s, "DESCRIBES"))
		}, nil},
		"a part of them": {[]string{"sbom"}, func(p *pack, s cas.Digest) {
			p.prove("p.json", bundle.TypeSPDX, spdxOf(s, "CONTAINS"))
		},
			[]string{"evidence: expected sbom, found none: \"p.json\": the SBOM describes another bundle"}},
		"parts of the other kind": {[]string{"sbom"}, func(p *pack, s cas.Digest) {
			p.prove("p.json", bundle.TypeCycloneDX, spdxOf(s, "DESCRIBES"))
		},
			[]string{"evidence: expected sbom, found none: \"p.json\": the SBOM describes another bundle"}},
		"nothing": {[]string{"sbom", "provenance", "magic"}, func(*pack, cas.Digest) {},
			[]string{"evidence: expected sbom", "evidence: expected provenance",
				"evidence: expected magic, found none: unknown evidence: expected sbom or provenance"}},
	} {
		p := newPack(t)
		p.signItems(alice)
		subject := p.make(manifest.FileList{}, alice).list.ID
		c.add(p, subject)
		p.make(manifest.FileList{}, alice)
		if p.list.Subject != subject {
			t.Fatal("the subject isn't the document without evidence")
		}
		for where, src := range p.sources() {
			o := p.options()
			o.Require = c.require
			failures(t, name+" in "+where, verify(t, src, o), c.want...)
		}
	}
}

func spdxOf(subject cas.Digest, relation string) []byte {
	return fmt.Appendf(nil, `{"packages": [{"SPDXID": "SPDXRef-X", "checksums": [{"algorithm": "BLAKE3", "checksumValue": %q}]}],
		"relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": %q, "relatedSpdxElement": "SPDXRef-X"}]}`, attest.DigestsOf(subject)["blake3"], relation)
}

// TestVerifyEveryByte changes each byte of a manifest and of what it lists.
func TestVerifyEveryByte(t *testing.T) {
	p := newPack(t)
	clear(p.files)
	p.files["a.txt"] = &fstest.MapFile{Data: []byte("content\n"), Mode: 0o644}
	p.files["b/c.sh"] = &fstest.MapFile{Data: []byte("#!/bin/sh\n"), Mode: 0o755}
	p.make(manifest.FileList{}, alice)
	dir := p.dir()
	o := p.options()
	o.Below = nil
	for _, name := range []string{".ai/bundles/acme/demo/manifest.yaml", "a.txt", "b/c.sh"} {
		at := filepath.Join(dir, filepath.FromSlash(name))
		good, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(at, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range good {
			if _, err := f.WriteAt([]byte{c ^ 1}, int64(i)); err != nil {
				t.Fatal(err)
			}
			if r := verify(t, bundle.InDir(dir, "acme/demo"), o); r.OK() {
				t.Errorf("%s: byte %d can be changed", name, i)
			}
			if _, err := f.WriteAt(good[i:i+1], int64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	failures(t, "as it was", verify(t, bundle.InDir(dir, "acme/demo"), o))
}

func BenchmarkVerify(b *testing.B) {
	p := newPack(b)
	clear(p.files)
	clear(p.refs)
	for i := range 2000 {
		name, ref := fmt.Sprintf(".ai/knowledge/acme/note%d.md", i), fmt.Sprintf("knowledge:acme/note%d", i)
		text := fmt.Appendf(nil, "---\nid: note%d\ntitle: Note\nversion: 2.0.0\nentry_type: reference\n---\n%s\n", i,
			strings.Repeat("text ", 200))
		signed, err := sign.Sign(text, sign.Angle, sign.Claim{Domain: sign.Item, Name: ref}, alice, noon, nil)
		if err != nil {
			b.Fatal(err)
		}
		p.files[name], p.refs[name] = &fstest.MapFile{Data: signed, Mode: 0o644}, ref+" 2.0.0"
	}
	p.make(manifest.FileList{}, alice)
	dir, archive, o := p.dir(), p.archive(), p.options()
	for name, src := range map[string]func() bundle.Source{
		"directory": func() bundle.Source { return bundle.InDir(dir, "acme/demo") },
		"archive":   func() bundle.Source { return bundle.InArchive(bytes.NewReader(archive)) },
		"store":     func() bundle.Source { return bundle.InStore(&p.store, p, p.list.ID) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r := verify(b, src(), o); !r.OK() || len(r.Vouched) != 2000 {
					b.Fatal(lines(r.Failures))
				}
			}
		})
	}
}
