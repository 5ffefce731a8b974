package key_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rye-build/rye/manifest/key"
)

// A private key is found, whatever tool made it, and what only mentions one is not.
func TestIsPrivate(t *testing.T) {
	k, err := key.Generate(bytes.NewReader(bytes.Repeat([]byte{1}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	block := func(label string) string {
		return "-----BEGIN " + label +
			"-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END " + label + "-----\n"
	}
	for text, want := range map[string]bool{
		string(k.PEM()):                                              true,
		block("RSA PRIVATE KEY"):                                     true,
		block("ENCRYPTED PRIVATE KEY"):                               true,
		block("OPENSSH PRIVATE KEY"):                                 true,
		"note\n" + block("PRIVATE KEY"):                              true,
		block("CERTIFICATE") + block("EC PRIVATE KEY"):               true,
		"-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n":                 true,
		"# created: 2026\nAGE-SECRET-KEY-1QQQ\n":                     true,
		"":                                                           false,
		string(k.Public().PEM()):                                     false,
		"\t " + block("PRIVATE KEY"):                                 true,
		block("CERTIFICATE"):                                         false,
		"-----BEGIN PRIVATE KEY-----, says the manual":               false,
		"-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----": false,
		block("PRIVATE KEY") + strings.Repeat("x", 1<<20):            false,
	} {
		if got := key.IsPrivate([]byte(text)); got != want {
			t.Errorf("%.60q: %v, want %v", text, got, want)
		}
	}
}

func FuzzIsPrivate(f *testing.F) {
	f.Add([]byte(
		"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := key.ParsePrivatePEM(b); err == nil && !key.IsPrivate(b) {
			t.Fatalf("%q opens and is none", b)
		}
	})
}

// TestDerive: a key of a context is always the same, and another one for each key and each context. The text is what
// HKDF makes, so that no later version derives other keys.
func TestDerive(t *testing.T) {
	k, err := key.Generate(bytes.NewReader(bytes.Repeat([]byte{1}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	other, err := key.Generate(bytes.NewReader(bytes.Repeat([]byte{2}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{k.Public().String(): true, other.Public().String(): true}
	for _, of := range []key.Private{k, other} {
		for _, context := range []string{"", "a", "b", "a\x00"} {
			made, err := of.Derive(context)
			again, err2 := of.Derive(context)
			if err != nil || err2 != nil || made.Public() != again.Public() || seen[made.Public().String()] ||
				strings.HasPrefix(made.Public().String(), "-") {
				t.Errorf("%q: %v, %v, %v", context, made, err, err2)
			}
			seen[made.Public().String()] = true
			if sig := made.Sign([]byte("m")); !made.Public().Verify([]byte("m"), sig[:]) {
				t.Error("it doesn't sign")
			}
		}
	}
	made, err := k.Derive("rye")
	if err != nil || made.Public().String() != "JTaUU6cxtca8KHZz1CO2vg2P_fn6VJ2tu1VFDLPgy5k" {
		t.Errorf("%v, %v", made, err)
	}
}
