package bundle_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
)

// A saying is a manifest with what is to stand where it is said: the files of a good bundle, whatever it says of them.
type saying struct {
	b     *breeder
	head  manifest.FileList
	files []manifest.File
	proof []byte // the envelope
}

var everywhere = []string{"directory", "archive", "store"}

// say makes a document, signs it, and puts it where bundles can be.
func (s *saying) say(keys ...key.Private) map[string]bundle.Source {
	t, p := s.b.t, s.b.p
	t.Helper()
	body, list, err := manifest.AppendFileList(nil, &s.head, s.files)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if err := list.Sign(k, noon); err != nil {
			t.Fatal(err)
		}
	}
	made, err := p.store.Put(t.Context(), cas.Document, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	lines := list.Signatures.Append(nil)
	p.names[bundle.SignaturesRef(made.Digest)] = cas.ID{Kind: cas.Blob, Digest: p.put(lines)}
	if len(keys) == 0 {
		delete(p.names, bundle.SignaturesRef(made.Digest))
	}

	home := filepath.Join(s.b.dir, filepath.FromSlash(".ai/bundles/acme/demo"))
	overwrite(t, filepath.Join(home, "manifest.yaml"), manifest.Join(nil, body, list.Signatures))
	overwrite(t, filepath.Join(home, "provenance.dsse.json"), s.proof)

	tar := slices.Concat(tarEntry("manifest.yaml", cas.File, body), tarEntry("manifest.yaml.sig", cas.File, lines))
	sized := func(b []byte, size int64) []byte {
		return append(bytes.Clone(b), make([]byte, size)...)[:size]
	}
	files := slices.SortedFunc(slices.Values(s.files), func(a, b manifest.File) int {
		return strings.Compare(a.Path, b.Path)
	})
	for _, f := range files {
		tar = append(tar, tarEntry("files/"+f.Path, f.Mode, sized(s.content(f), f.Size))...)
	}
	for _, e := range list.Evidence {
		content := s.proof
		if e.Type != bundle.TypeEnvelope && e.Name != "provenance.dsse.json" {
			content = p.get(p.evidence["sbom.cdx.json"].Digest)
		}
		tar = append(tar, tarEntry("evidence/"+e.Name, cas.File, sized(content, e.Size))...)
	}
	return map[string]bundle.Source{
		"directory": bundle.InDir(s.b.dir, "acme/demo"),
		"archive":   bundle.InArchive(bytes.NewReader(frameOf(t, append(tar, make([]byte, 1024)...)))),
		"store":     bundle.InStore(&p.store, p, made.Digest),
	}
}

// content is what the good bundle has under a path.
func (s *saying) content(f manifest.File) []byte {
	if good := s.b.p.files[f.Path]; good != nil {
		return good.Data
	}
	return []byte("nothing")
}

// TestMutateSigned signs mutants: by a stranger, whatever they say, and by those who may, where what they say isn't
// so.
func TestMutateSigned(t *testing.T) {
	t.Parallel()
	b := newBreeder(t)
	b.dir = b.p.dir()
	full := fullHead()
	full.Evidence = b.p.list.Evidence
	proof := b.p.get(b.p.evidence["provenance.dsse.json"].Digest)
	for where, src := range (&saying{b, full, b.p.all, proof}).say(alice, bob) {
		b.sound("the bundle itself in "+where, src)
	}
	try := func(op, what string, l manifest.FileList, files []manifest.File, places []string, keys ...key.Private) {
		t.Helper()
		sources := (&saying{b, l, files, proof}).say(keys...)
		for _, where := range places {
			b.refused(op+" in "+where, what, sources[where], nil)
		}
	}
	for name, keys := range map[string][]key.Private{"eve": {eve}, "eve and alice": {eve, alice},
		"bob and eve": {bob, eve}, "alice": {alice}, "none": nil} {
		try("stranger", name, full, b.p.all, everywhere, keys...)
	}

	// Here nothing but the files says that the manifest is wrong.
	b.o.Require = nil
	for i := range b.p.all {
		f := b.p.all[i]
		helper := strings.HasPrefix(f.Path, ".ai/tools/acme/multi/")
		changed := func(op string, places []string, change func(*manifest.File)) {
			t.Helper()
			all := slices.Clone(b.p.all)
			change(&all[i])
			try(op, f.Path, full, all, places, alice, bob)
			try("stranger", op+" "+f.Path, full, all, everywhere, eve)
		}
		// An asset can be called otherwise, or be executed, where nothing but the manifest says what it is.
		places := everywhere
		if f.Ref == "" && !helper {
			places = everywhere[:1]
		}
		changed("path", places, func(f *manifest.File) { f.Path += ".x" })
		if f.Ref == "" {
			changed("mode", places, func(f *manifest.File) { f.Mode = cas.File + cas.Exec - f.Mode })
		}
		changed("digest", everywhere, func(f *manifest.File) { f.Digest = cas.Sum([]byte("other")) })
		changed("swap digests", everywhere, func(f *manifest.File) { f.Digest = b.p.all[(i+1)%len(b.p.all)].Digest })
		changed("larger", everywhere, func(f *manifest.File) { f.Size++ })
		if f.Size > 0 {
			changed("smaller", everywhere, func(f *manifest.File) { f.Size-- })
		}
		if f.Ref == "" {
			changed("ref of an asset", everywhere, func(f *manifest.File) { f.Ref = "knowledge:acme/more" })
			continue
		}
		changed("no ref", everywhere, func(f *manifest.File) { f.Ref, f.Version = "", "" })
		changed("other ref", everywhere, func(f *manifest.File) { f.Ref += "x" })
		changed("other kind", everywhere, func(f *manifest.File) {
			f.Ref = "directive" + f.Ref[strings.Index(f.Ref, ":"):]
		})
		changed("no version", everywhere, func(f *manifest.File) { f.Version = "" })
		changed("other version", everywhere, func(f *manifest.File) { f.Version = "9.9.9" })
	}
	for _, name := range []string{".ai/tools/acme/multi/helper.py", ".ai/tools/acme/multi/__init__.py",
		".ai/tools/acme/hello.sh", "docs/guide.txt"} {
		all := slices.DeleteFunc(slices.Clone(b.p.all), func(f manifest.File) bool { return f.Path == name })
		places := everywhere // the tool is another one without it, and the entrypoint is gone
		if name == "docs/guide.txt" {
			places = everywhere[:1]
		}
		try("drop file", name, full, all, places, alice, bob)
	}
	for _, name := range []string{".ai/policy.yaml", ".ai/keys/x.pem", ".ai/vendor/x", ".ai/bundles/x/manifest.yaml",
		".ai/Threads/x", ".ai/Config/x"} {
		all := append(slices.Clone(b.p.all), manifest.File{Path: name, Digest: cas.Sum([]byte("nothing")), Size: 7,
			Mode: cas.File})
		b.p.put([]byte("nothing"))
		at := filepath.Join(b.dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755),
			os.WriteFile(at, []byte("nothing"), 0o644)); err != nil {
			t.Fatal(err)
		}
		try("place", name, full, all, everywhere, alice, bob)
	}
	for _, name := range []string{".AI/tools/x.py", ".Ai", ".ai"} {
		files := []manifest.File{{Path: name, Digest: cas.Sum([]byte("nothing")), Size: 7, Mode: cas.File}}
		try("place", name, manifest.FileList{BundleID: "acme/demo", Version: "1.0.0"}, files, everywhere, alice, bob)
	}
	b.heads(full, try)
	b.envelopes(full)

	least := map[string]int{"mode in directory": 7, "mode in archive": 2, "mode in store": 2, "path in directory": 10,
		"path in archive": 5, "path in store": 5,
		"drop file in directory": 4, "drop file in archive": 3, "drop file in store": 3, "id in directory": 1}
	for op, n := range map[string]int{"stranger": 80, "digest": 12, "larger": 12, "smaller": 11, "swap digests": 10,
		"ref of an asset": 7, "no ref": 3, "other ref": 3,
		"other kind": 3, "no version": 3, "other version": 3, "type": 2, "drop evidence": 2, "head": 2,
		"head under provenance": 5, "envelope": 15, "place": 9} {
		for _, where := range everywhere {
			least[op+" in "+where] = n
		}
	}
	b.enough(least)
}

// heads changes what the manifest says of the bundle as a whole, and of its evidence.
func (b *breeder) heads(full manifest.FileList,
	try func(op, what string, l manifest.FileList, files []manifest.File, places []string, keys ...key.Private)) {
	changed := func(op, what string, places []string, change func(*manifest.FileList)) {
		b.t.Helper()
		l := full
		l.Evidence = slices.Clone(full.Evidence)
		change(&l)
		try(op, what, l, b.p.all, places, alice, bob)
	}
	evidence := func(op string, change func(*manifest.Evidence)) {
		b.t.Helper()
		for i, e := range full.Evidence {
			changed(op, "evidence "+e.Name, everywhere, func(l *manifest.FileList) { change(&l.Evidence[i]) })
		}
	}
	evidence("digest", func(e *manifest.Evidence) { e.Digest = cas.Sum([]byte("other")) })
	evidence("larger", func(e *manifest.Evidence) { e.Size++ })
	evidence("smaller", func(e *manifest.Evidence) { e.Size-- })
	changed("head", "entrypoint", everywhere, func(l *manifest.FileList) { l.Entrypoint = "tool:acme/gone" })
	changed("head", "expires", everywhere, func(l *manifest.FileList) { l.Expires = noon })
	changed("id", "other", everywhere[:1], func(l *manifest.FileList) { l.BundleID = "acme/other" })

	b.o.Require = []string{bundle.SBOM, bundle.Provenance}
	evidence("type", func(e *manifest.Evidence) { e.Type = "text/plain" })
	for i, e := range full.Evidence {
		changed("drop evidence", e.Name, everywhere, func(l *manifest.FileList) {
			l.Evidence = slices.Delete(l.Evidence, i, i+1)
		})
	}
	for name, change := range map[string]func(*manifest.FileList){
		"id":          func(l *manifest.FileList) { l.BundleID = "acme/other" },
		"version":     func(l *manifest.FileList) { l.Version = "1.0.1" },
		"description": func(l *manifest.FileList) { l.Description += "!" },
		"license":     func(l *manifest.FileList) { l.License = "" },
		"requires":    func(l *manifest.FileList) { l.Requires = nil },
		"entrypoint":  func(l *manifest.FileList) { l.Entrypoint = "" },
	} {
		changed("head under provenance", name, everywhere, change)
	}
}

// envelopes names provenance that doesn't hold, in a manifest that does.
func (b *breeder) envelopes(full manifest.FileList) {
	subject := b.p.list.Subject
	good := b.p.get(b.p.evidence["provenance.dsse.json"].Digest)
	replace := func(old, by string) []byte { return bytes.Replace(good, []byte(old), []byte(by), 1) }
	payload := func(old, by string) []byte {
		_, rest, _ := bytes.Cut(good, []byte(`"payload":"`))
		text, _, _ := bytes.Cut(rest, []byte(`"`))
		plain, err := base64.StdEncoding.DecodeString(string(text))
		if err != nil {
			b.t.Fatal(err)
		}
		changed := strings.Replace(string(plain), old, by, 1)
		return replace(string(text), base64.StdEncoding.EncodeToString([]byte(changed)))
	}
	signatures := bytes.Index(good, []byte(`"signatures":[`)) + len(`"signatures":[`)
	for name, text := range map[string][]byte{
		"predicate": payload(`"predicate":{}`, `"predicate":{"x":1}`),
		"kind":      payload("slsa.dev/provenance/v1", "slsa.dev/provenance/v2"),
		"statement": payload("Statement/v1", "Statement/v0.1"), "name": payload("demo", "omed"),
		"space":   payload("{", "{ "),
		"subject": payload(attest.DigestsOf(subject)["blake3"], strings.Repeat("0", 64)),
		"empty":   {}, "half": good[:len(good)/2], "twice": append(bytes.Clone(good), good...),
		"a stranger signs":                 provenanceOf(b.t, subject, eve),
		"another's":                        provenanceOf(b.t, cas.Sum(nil), alice, bob),
		"about the manifest that names it": provenanceOf(b.t, b.p.list.ID, alice, bob),
		"payload type":                     replace("vnd.in-toto+json", "vnd.in-toto+jsoN"),
		"other signature":                  replace(`"sig":"`, `"sig":"AAAA`),
		"no signatures":                    append(bytes.Clone(good[:signatures]), "]}"...),
	} {
		if bytes.Equal(text, good) {
			b.t.Fatalf("%s: nothing was changed", name)
		}
		l := full
		l.Evidence = slices.Clone(full.Evidence)
		for i := range l.Evidence {
			if e := &l.Evidence[i]; e.Type == bundle.TypeEnvelope {
				e.Digest, e.Size = b.p.put(text), int64(len(text))
			}
		}
		sources := (&saying{b, l, b.p.all, text}).say(alice, bob)
		for where, src := range sources {
			b.refused("envelope in "+where, name, src, nil)
		}
	}
}
