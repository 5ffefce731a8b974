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
			if err != nil || !bytes.Equal(body, again) || !reflect.DeepEqual(sigs, doc.Signatures) ||
				!bytes.Equal(Join(nil, body, sigs), b) {
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
