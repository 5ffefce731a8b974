//go:build peers

package key_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/manifest/key"
)

func run(t *testing.T, in []byte, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, stderr.Bytes())
	}
	return out
}

// The openssl program and we read each other's keys and signatures, and b3sum finds our fingerprints.
func TestPeersOpenSSL(t *testing.T) {
	dir := t.TempDir()
	for range 20 {
		b := run(t, nil, "openssl", "genpkey", "-algorithm", "ed25519")
		p, err := key.ParsePrivatePEM(b)
		if err != nil || !bytes.Equal(p.PEM(), b) {
			t.Fatalf("%s: %v", b, err)
		}
		pub := run(t, p.PEM(), "openssl", "pkey", "-pubout")
		if !bytes.Equal(pub, p.Public().PEM()) {
			t.Errorf("openssl says\n%s, we\n%s", pub, p.Public().PEM())
		}
		raw := p.Public().Bytes()
		if sum := run(t, raw[:], "b3sum", "--no-names"); strings.TrimSpace(string(sum)) != p.Public().Fingerprint().
			String() {
			t.Errorf("b3sum says %s, we %s", sum, p.Public().Fingerprint())
		}
		if sum := run(t, p.Public().PEM(), "sha256sum"); string(sum[:16]) != p.Public().V1ID() {
			t.Errorf("sha256sum says %s, we %s", sum, p.Public().V1ID())
		}
		file := func(name string, b []byte) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
		msg, private := file("msg", b), file("key", p.PEM())
		sig := run(t, nil, "openssl", "pkeyutl", "-sign", "-inkey", private, "-rawin", "-in", msg)
		ours := p.Sign(b)
		if !bytes.Equal(sig, ours[:]) || !p.Public().Verify(b, sig) {
			t.Errorf("openssl signs %x, we %x", sig, ours)
		}
		run(t, nil, "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", file("pub", pub), "-rawin", "-in", msg,
			"-sigfile", file("sig", ours[:]))
	}
}
