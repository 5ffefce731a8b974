package policy

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/sign"
)

const vectorDir = "../../testdata/vectors/manifest/policy"

// pub returns the public key of a seed that is all one byte.
func pub(seed byte) key.Public { return pubs[seed] }

var pubs = func() (all [10]key.Public) {
	for i := range all {
		all[i] = makePub(byte(i))
	}
	return all
}()

func makePub(seed byte) key.Public {
	p, err := key.NewPublic(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32)).Public().(ed25519.PublicKey))
	if err != nil {
		panic(err)
	}
	return p
}

func digest(s string) cas.Digest { return cas.Sum([]byte(s)) }

// fill puts keys, fingerprints and digests where a text says $key1, $print1 and $digest(a).
func fill(text string) string {
	for _, n := range []string{"1", "2", "3", "4", "5"} {
		p := pub(n[0] - '0')
		text = strings.ReplaceAll(text, "$key"+n, p.String())
		text = strings.ReplaceAll(text, "$print"+n, p.Fingerprint().String())
	}
	for {
		before, rest, ok := strings.Cut(text, "$digest(")
		if !ok {
			return text
		}
		name, after, _ := strings.Cut(rest, ")")
		text = before + digest(name).String() + after
	}
}

func mustParse(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := Parse([]byte(fill(text)))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return p
}

func mustRead(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectorDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every good file means what its formatted form means, and that form is stable.
func TestGood(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(vectorDir, "good", "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			goldentest.File(t, strings.TrimSuffix(name, ".yaml")+".formatted", p.Format())
			checkStable(t, p)
			if got, want := strings.Count(string(p.Format()), "# "),
				strings.Count(string(b), "# ")-bytes.Count(b, []byte("# rye:signed:")); got != want {
				t.Errorf("%d comments, want %d", got, want)
			}
		})
	}
}

// checkStable wants the formatted form to be a fixpoint that means the same.
func checkStable(t *testing.T, p *Policy) {
	t.Helper()
	text := p.Format()
	q, err := Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if again := q.Format(); !bytes.Equal(again, text) {
		t.Fatalf("formatted:\n%s\nagain:\n%s", text, again)
	}
	if d := Diff(p, q); len(d) > 0 {
		t.Fatalf("formatting changed the meaning: %v in\n%s", d, text)
	}
}

// The example of the package comment is a vector, and formatted already.
func TestDocExample(t *testing.T) {
	src, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(src), "// # The file\n//\n")
	text, _, _ := strings.Cut(rest, "// It is YAML read strictly")
	var example strings.Builder
	for line := range strings.Lines(strings.TrimSuffix(text, "//\n")) {
		example.WriteString(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "//"), "\t") + "\n")
	}
	if got := string(mustRead(t, "good/example.yaml")); got != example.String() {
		t.Errorf("the vector:\n%s\nthe comment:\n%s", got, example.String())
	}
	if got := string(mustRead(t, "good/example.formatted")); got != example.String() {
		t.Errorf("formatted:\n%s", got)
	}
}

type badCase struct {
	Name  string `json:"name"`
	Text  string `json:"text"`
	Error string `json:"error"`
}

func TestBad(t *testing.T) {
	var cases []badCase
	if err := json.Unmarshal(mustRead(t, "bad.json"), &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 80 {
		t.Fatalf("only %d cases", len(cases))
	}
	for i, c := range cases {
		p, err := Parse([]byte(fill(c.Text)))
		if err == nil {
			t.Errorf("%s: accepted as\n%s", c.Name, p.Format())
			continue
		}
		if goldentest.Update() {
			cases[i].Error = err.Error()
		} else if err.Error() != c.Error {
			t.Errorf("%s:\n got %s\nwant %s", c.Name, err, c.Error)
		}
	}
	goldentest.JSON(t, filepath.Join(vectorDir, "bad.json"), cases)
}

// A policy of another format is called that, whatever else is strange about it.
func TestVersion(t *testing.T) {
	var e *canon.VersionError
	if _, err := Parse([]byte("news: 1\nrye: policy/3\n")); !errors.As(err, &e) || e.Found != "policy/3" ||
		e.Want != "policy/2" {
		t.Errorf("got %v", err)
	}
}

// Hostile files cost little: what grows in memory is bounded by the file.
func TestBounded(t *testing.T) {
	for name, text := range map[string]string{
		"size":     strings.Repeat("# 4567890123456789012345678901234567890\n", 1<<15),
		"flow":     "keys: " + strings.Repeat("[", 1<<19),
		"maps":     "keys: " + strings.Repeat("{a: ", 1<<17),
		"dashes":   "keys:\n" + strings.Repeat("- ", 1<<18) + "a\n",
		"question": "keys:\n  " + strings.Repeat("? ", 1<<18) + "a\n",
		"laughs":   "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n",
		"rules":    "keys:\n  a: {key: $key1}\nnames:\n" + manyRules(1001),
		"comments": strings.Repeat("#\n", 1<<18) + "x",
		"anchors":  strings.Repeat("&a ", 1<<17),
		"quotes":   "keys: \"" + strings.Repeat(`\`, 1<<19),
		"key":      strings.Repeat("k", 1<<19) + ": 1\n",
	} {
		allocs := testing.AllocsPerRun(1, func() {
			if _, err := Parse([]byte(fill(text))); err == nil {
				t.Errorf("%s: accepted", name)
			}
		})
		if allocs > 4_000_000 {
			t.Errorf("%s: %.0f allocations", name, allocs)
		}
	}
}

func manyRules(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("  \"a" + strings.Repeat("b", i%100) + string(rune('a'+i/100)) + "/**\": {keys: [a]}\n")
	}
	return b.String()
}

func TestSignedPolicy(t *testing.T) {
	file := []byte(fill("---\nkeys:\n  a: {key: $key1}\n  b: {kye: 1}\n"))
	private := keytest.Seeded(1)
	claim := sign.Claim{Domain: sign.Policy, Name: "policy:home"}
	signed, err := sign.Sign(file, sign.Hash, claim, private, time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		func(key.Fingerprint) (key.Public, bool) { return key.Public{}, false })
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse(signed)
	var e *yamltree.Error
	if !errors.As(err, &e) || e.Line != 5 {
		t.Errorf("an error below a signature: %v, want line 5", err)
	}
	good := bytes.Replace(file, []byte("kye: 1"), []byte("key: "+pub(2).String()), 1)
	signed, err = sign.Sign(good, sign.Hash, claim, private, time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		func(key.Fingerprint) (key.Public, bool) { return key.Public{}, false })
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse(signed)
	if err != nil {
		t.Fatal(err)
	}
	if p.ID() != cas.Sum(good) {
		t.Error("the id depends on signature lines")
	}
	if bytes.Contains(p.Format(), []byte("rye:signed")) {
		t.Error("a void signature line was kept")
	}
}
