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
