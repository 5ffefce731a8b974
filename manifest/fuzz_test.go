package manifest

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

func addVectors(f *testing.F, names ...string) {
	for _, name := range names {
		files, err := filepath.Glob(filepath.Join(vectorDir, name))
		if err != nil || len(files) == 0 {
			f.Fatal(name, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
}

// What is accepted as any type of document has one form, with its signatures and without.
func FuzzDocument(f *testing.F) {
	addVectors(f, "*.yaml")
	archive, err := txtar.ParseFile(filepath.Join(vectorDir, "bad.txtar"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range archive.Files {
		f.Add(file.Data)
	}
	all := samples(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		accepted := 0
		for _, s := range all {
			doc, meaning, again, err := s.read(b)
			if err != nil {
				if doc != nil {
					t.Fatalf("%s: %v and %v", s.name, doc, err)
				}
				continue
			}
			accepted++
			body, sigs, err := Split(b)
			if err != nil || !bytes.Equal(body, again) || !reflect.DeepEqual(sigs, doc.Signatures) || !bytes.Equal(Join(nil, body, sigs), b) {
				t.Fatalf("%s: %q says %+v, written as %q; split: %v", s.name, b, meaning, again, err)
			}
		}
		if accepted > 1 {
			t.Fatalf("%q is of two types", b)
		}
	})
}

func FuzzSignatures(f *testing.F) {
	addVectors(f, "*.sig", "*.yaml")
	id := samples(f)[0].doc.ID
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := ParseSignatures(b, id); err == nil && !bytes.Equal(s.Append(nil), b) {
			t.Fatalf("%q is written as %q", b, s.Append(nil))
		}
		if body, s, err := Split(b); err == nil && !bytes.Equal(Join(nil, body, s), b) {
			t.Fatalf("%q is split into %q and %q", b, s.Append(nil), body)
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	addVectors(f, "envelope.json")
	f.Add([]byte(`{"payload":"","payloadType":"t","signatures":[{"sig":""}]}`))
	keys := publics(testKey(f, 1), testKey(f, 2))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseEnvelope(b)
		if err != nil {
			return
		}
		out, err := e.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseEnvelope(out)
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("%q is written as %q: %v", b, out, err)
		}
		_, p, signers, err := e.Verify(keys, 1)
		if _, p2, signers2, err2 := again.Verify(keys, 1); (err == nil) != (err2 == nil) || !bytes.Equal(p, p2) || !reflect.DeepEqual(signers, signers2) {
			t.Fatalf("%q verifies otherwise than %q", b, out)
		}
	})
}

func FuzzStatement(f *testing.F) {
	addVectors(f, "statement.json")
	f.Add([]byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"uri":"u","digest":{"gitCommit":"da39a3ee5e6b4b0d3255bfef95601890afd80709"}}],"predicateType":"p"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseStatement(b)
		if err != nil {
			return
		}
		out, err := s.Append(nil)
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if again, err := ParseStatement(out); err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%q is written as %q: %v", b, out, err)
		}
		if s.About(s.Subjects[0].Digests) != nil {
			t.Fatalf("%q isn't about its subject", b)
		}
	})
}
