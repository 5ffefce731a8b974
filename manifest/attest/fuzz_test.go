package attest

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rye-build/rye/manifest/key/keytest"
)

func addVectors(f *testing.F, names ...string) {
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(vectorDir, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

func FuzzEnvelope(f *testing.F) {
	addVectors(f, "envelope.json")
	f.Add([]byte(`{"payload":"","payloadType":"t","signatures":[{"sig":""}]}`))
	keys := publics(keytest.Seeded(1), keytest.Seeded(2))
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
		if _, p2, signers2, err2 := again.Verify(keys, 1); (err == nil) != (err2 == nil) || !bytes.Equal(p, p2) ||
			!reflect.DeepEqual(signers, signers2) {
			t.Fatalf("%q verifies otherwise than %q", b, out)
		}
	})
}

func FuzzStatement(f *testing.F) {
	addVectors(f, "statement.json")
	f.Add([]byte(
		`{"_type":"https://in-toto.io/Statement/v1","subject":[{"uri":"u","digest":{"gitCommit":"da39a3ee5e6b4b0d3255bfef95601890afd80709"}}],"predicateType":"p"}`))
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
