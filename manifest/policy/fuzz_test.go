package policy

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

// What is accepted can be formatted: once, with one meaning, every comment kept.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(vectorDir, "good", "*"))
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	var cases []badCase
	if err := json.Unmarshal(mustRead(f, "bad.json"), &cases); err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		f.Add([]byte(fill(c.Text)))
	}
	for _, text := range []string{rootText, listText, editText, rotateText,
		"exec:\n  floor:\n    none # a\n  # b\n  audit: on\n# c\n   # d\n", "exec: {audit: \"on\"#x\n}"} {
		f.Add([]byte(fill(text)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		checkStable(t, p)
		stripped, err := sign.Strip(b, sign.Hash)
		if err != nil || p.ID() != cas.Sum(stripped) {
			t.Fatal("the id is not that of the stripped bytes")
		}
		if got, want := hashes(p.Format()), hashes(stripped); got < want {
			t.Fatalf("%d of %d lines with comments in\n%s", got, want, p.Format())
		}
		Decide(Request{Name: "tool:a/b", Raw: digest("x"), Signers: v2(1), Now: noon}, Side{Policy: p}, nil)
	})
}

// hashes counts the lines that are comments and nothing else, which no text can look like.
func hashes(b []byte) (n int) {
	for line := range bytes.Lines(b) {
		if bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("#")) {
			n++
		}
	}
	return n
}

func FuzzDecide(f *testing.F) {
	f.Add("tool:acme/x", byte(1))
	f.Add("bundle:a/b@1", byte(2))
	f.Fuzz(func(t *testing.T, name string, signer byte) {
		d := Decide(Request{Name: name, Raw: digest("x"), Signers: v2(signer % 10), Now: noon},
			Side{Policy: mustParse(t, rootText)}, nil)
		if d.Allowed != (d.Code == Admitted) || d.Reason() == "" {
			t.Fatal(d)
		}
	})
}

// mutants returns each text that differs from b in one byte, and each that lacks one.
func mutants(b []byte, f func(at int, mutant []byte)) {
	for i := range b {
		for _, c := range []byte{b[i] ^ 1, b[i] ^ 4, b[i] ^ 32, ' ', '\n', '"', '#', '*'} {
			if c != b[i] {
				m := bytes.Clone(b)
				m[i] = c
				f(i, m)
			}
		}
		f(i, append(bytes.Clone(b[:i]), b[i+1:]...))
	}
}

// A changed byte is refused, means nothing, or shows: as another id always, and as a change of the very entry it
// stands in. Nothing that one entry says can reach into another.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	text := []byte(fill(rootText[1:]))
	p := mustParse(t, string(text))
	var refused, same, shown int
	mutants(text, func(at int, m []byte) {
		q, err := Parse(m)
		if err != nil {
			refused++
			return
		}
		if q.ID() == p.ID() {
			t.Fatalf("one id: %q", m)
		}
		changes := Diff(p, q)
		if len(changes) == 0 {
			same++
			return
		}
		shown++
		sections, entries := owner(text, at)
		for _, c := range changes {
			if !strings.Contains(sections, c.Section) {
				t.Fatalf("byte %d, in %s, changed %v in\n%s", at, sections, c, m)
			}
			// What was there before and isn't now, or is different, is the entry of that line.
			if c.Old != "" && !strings.Contains(entries, c.Entry) {
				t.Fatalf("byte %d, in %s, changed %v in\n%s", at, entries, c, m)
			}
		}
	})
	if refused < 1000 || same < 20 || shown < 1000 {
		t.Errorf("%d refused, %d mean the same, %d are shown", refused, same, shown)
	}
}

// owner returns the section and the entries around a byte: its line, and the next, from which a line end keeps it.
func owner(text []byte, at int) (sections, entries string) {
	row := bytes.Count(text[:at], []byte("\n"))
	section := ""
	for i, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, " ") && line != "" {
			section = line
		}
		if i == row || i == row+1 {
			sections += section
			entries += line
		}
	}
	return sections, entries
}

// Of a signed policy every changed byte is refused, or its id and so its meaning are what was signed.
func TestSignedMutants(t *testing.T) {
	text := []byte(fill(listText[1:]))
	claim := sign.Claim{Domain: sign.Policy, Name: "policy:home"}
	find := func(f key.Fingerprint) (key.Public, bool) { return pub(1), f == pub(1).Fingerprint() }
	signed, err := sign.Sign(text, sign.Hash, claim, keytest.Seeded(1), time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		find)
	if err != nil {
		t.Fatal(err)
	}
	accept := func(file []byte) (*Policy, error) {
		s, err := sign.ReadBytes(file, sign.Hash)
		if err != nil {
			return nil, err
		}
		if _, err := sign.Check(s, claim, find); err != nil {
			return nil, err
		}
		return Parse(file)
	}
	want, err := accept(signed)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	mutants(signed, func(at int, m []byte) {
		n++
		if p, err := accept(m); err == nil && p.ID() != want.ID() {
			t.Fatalf("byte %d: accepted as\n%s", at, m)
		}
	})
	if n < 1000 {
		t.Errorf("only %d mutants", n)
	}
}
