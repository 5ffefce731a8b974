package tlog_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

func witnessKey(t testing.TB, name string, private key.Private) tlog.Key {
	t.Helper()
	k, err := tlog.NewWitnessKey(name, private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func cosign(t testing.TB, c *tlog.Checkpoint, name string, private key.Private, at time.Time) []byte {
	t.Helper()
	text, err := tlog.Cosign(c, witnessKey(t, name, private), private, at)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCheckpointGolden(t *testing.T) {
	h := newHistory(t, 1)
	c := h.grow(t, 300)
	text := cosign(t, c, "witness.example/w1", keytest.Seeded(7), at)
	goldentest.File(t, filepath.Join("testdata", "checkpoint"), text)
	w1 := witnessKey(t, "witness.example/w1", keytest.Seeded(7))
	goldentest.File(t, filepath.Join("testdata", "keys"), []byte(h.log.String()+"\n"+w1.String()+"\n"))
	c, err := tlog.Open(text, h.log, w1, w1)
	if err != nil {
		t.Fatal(err)
	}
	if seen, ok := c.CosignedAt(w1); !ok || !seen.Equal(at) {
		t.Errorf("cosigned at %v, %v", seen, ok)
	}
	if c.Size != 300 || c.Origin != origin || c.Root != h.tail.Root() || !bytes.Equal(c.Text, text) {
		t.Errorf("%+v", c)
	}
	// A witness that isn't asked about doesn't count, and stays in the text.
	c, err = tlog.Open(text, h.log)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := c.CosignedAt(w1); ok || c.Cosigned() != 0 || !bytes.Equal(c.Text, text) {
		t.Error("a witness counts that wasn't asked about")
	}
	for _, k := range []tlog.Key{h.log, w1} {
		if again, err := tlog.ParseKey(k.String()); err != nil || again != k {
			t.Errorf("%s: %v", k, err)
		}
	}
}

// TestCheckpointRefused opens checkpoints with one thing wrong.
func TestCheckpointRefused(t *testing.T) {
	h := newHistory(t, 1)
	c := h.grow(t, 300)
	text := string(c.Text)
	w1, w2 := witnessKey(t, "w1", keytest.Seeded(7)), witnessKey(t, "w2", keytest.Seeded(8))
	cosigned := string(cosign(t, c, "w1", keytest.Seeded(7), at))
	eve, err := tlog.NewKey(origin, keytest.Eve().Public())
	if err != nil {
		t.Fatal(err)
	}
	body, _, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(body, "\n")
	signed := func(lines ...string) string {
		text, err := tlog.SignBody(h.log, h.private, strings.Join(lines, "\n")+"\n")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if _, err := tlog.Open([]byte(signed(lines...)), h.log); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		log  tlog.Key
		code fault.Code
	}{
		"another key":        {text, eve, fault.Unsigned},
		"a changed size":     {strings.Replace(text, "\n300\n", "\n301\n", 1), h.log, fault.SignatureInvalid},
		"a changed witness":  {strings.Replace(cosigned, "— w1 ", "— w2 ", 1), h.log, ""},
		"a leading zero":     {signed(lines[0], "0300", lines[2]), h.log, fault.Parsing},
		"a negative size":    {signed(lines[0], "-1", lines[2]), h.log, fault.Parsing},
		"a short hash":       {signed(lines[0], lines[1], "AAAA"), h.log, fault.Parsing},
		"a loose hash":       {signed(lines[0], lines[1], lines[2][:42]+"9="), h.log, fault.Parsing},
		"a fourth line":      {signed(append(lines, "more")...), h.log, fault.Parsing},
		"two lines":          {signed(lines[:2]...), h.log, fault.Parsing},
		"another origin":     {signed("evil.example/log", lines[1], lines[2]), h.log, fault.Integrity},
		"no signature":       {body + "\n", h.log, fault.Parsing},
		"nothing":            {"", h.log, fault.Parsing},
		"too many bytes":     {text + strings.Repeat("— x AAAAAAAA\n", 6000), h.log, fault.Parsing},
		"a cosignature only": {strings.Replace(cosigned, text[len(body)+2:], "", 1), h.log, fault.Unsigned},
	} {
		_, err := tlog.Open([]byte(c.text), c.log, w1, w2)
		if c.code == "" && err != nil || c.code != "" && fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A wrong signature of a known witness spoils the checkpoint.
	i := len(cosigned) - 20 // in the signature
	bad := cosigned[:i] + string(cosigned[i]^1) + cosigned[i+1:]
	if cosigned[i]^1 == '.' || cosigned[i]^1 == ',' || cosigned[i] == '+' || cosigned[i] == '/' {
		t.Fatalf("%q", bad)
	}
	if _, err := tlog.Open([]byte(bad), h.log, w1); err == nil {
		t.Error("a forged cosignature went unnoticed")
	}
}

func TestParseKeyRefused(t *testing.T) {
	h := newHistory(t, 1)
	good := h.log.String()
	name, rest, _ := strings.Cut(good, "+")
	hash, encoded, _ := strings.Cut(rest, "+")
	for _, text := range []string{
		"", name, name + "+" + hash, "+" + hash + "+" + encoded, name + "+00000000+" + encoded,
		name + "+" + strings.ToUpper(hash) + "x+" + encoded, name + "+" + hash + "+" + encoded + "=",
		name + "+" + hash + "+" + encoded[:40], "a b+" + hash + "+" + encoded, name + "x+" + hash + "+" + encoded,
		name + "+0" + hash + "+" + encoded, good + "\n", " " + good,
	} {
		if k, err := tlog.ParseKey(text); err == nil {
			t.Errorf("%q is %v", text, k)
		}
	}
	if _, err := tlog.NewKey("with space", keytest.Alice().Public()); err == nil {
		t.Error("a name with a space was accepted")
	}
}

// TestMerge adds what witnesses answer.
func TestMerge(t *testing.T) {
	h := newHistory(t, 1)
	c := h.grow(t, 5)
	w1, w2 := witnessKey(t, "w1", keytest.Seeded(7)), witnessKey(t, "w2", keytest.Seeded(8))
	lines := func(private key.Private, name string) []byte {
		return cosign(t, c, name, private, at)[len(c.Text):]
	}
	both, err := c.Merge(append(lines(keytest.Seeded(7), "w1"), lines(keytest.Seeded(9), "stranger")...), h.log, w1)
	if err != nil {
		t.Fatal(err)
	}
	if both, err = both.Merge(lines(keytest.Seeded(8), "w2"), h.log, w2, w1); err != nil {
		t.Fatal(err)
	}
	if _, ok := both.CosignedAt(w1); !ok {
		t.Error("the first witness is gone")
	}
	if _, ok := both.CosignedAt(w2); !ok || strings.Contains(string(both.Text), "stranger") {
		t.Errorf("%s", both.Text)
	}
	for name, answer := range map[string][]byte{
		"of another witness": lines(keytest.Seeded(8), "w2"),
		"of another time":    bytes.Replace(lines(keytest.Seeded(7), "w1"), []byte("AAAA"), []byte("AAAB"), 1),
		"nothing":            nil,
		"no line":            []byte("hello\n"),
	} {
		if _, err := c.Merge(answer, h.log, w1); err == nil {
			t.Errorf("an answer was taken: %s", name)
		}
	}
}

func FuzzOpen(f *testing.F) {
	h := newHistory(f, 1)
	c := h.grow(f, 300)
	w1 := witnessKey(f, "w1", keytest.Seeded(7))
	f.Add([]byte(c.Text))
	f.Add(cosign(f, c, "w1", keytest.Seeded(7), at))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := tlog.Open(b, h.log, w1)
		if err == nil && got.Body != c.Body {
			t.Fatalf("%q was never signed", got.Body)
		}
	})
}

func FuzzKey(f *testing.F) {
	h := newHistory(f, 1)
	f.Add(h.log.String())
	f.Add(witnessKey(f, "w1", keytest.Seeded(7)).String())
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := tlog.ParseKey(text); err == nil && k.String() != text {
			t.Fatalf("%q becomes %q", text, k)
		}
	})
}
