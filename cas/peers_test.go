//go:build peers

package cas

import (
	"bytes"
	"encoding/hex"
	"os/exec"
	"strings"
	"testing"
)

// TestPeerB3sum compares digests with those of b3sum, the program of BLAKE3's authors.
func TestPeerB3sum(t *testing.T) {
	lengths := []int{2047, 2048, 2049, 31743, 31744, 31745, 65536, 102400, 1<<20 - 1, 1 << 20, 5<<20 + 3}
	for n := range 1026 {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		b := pattern(n)
		cmd := exec.Command("b3sum", "--no-names")
		cmd.Stdin = bytes.NewReader(b)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("b3sum: %v", err)
		}
		d := Sum(b)
		if got, want := hex.EncodeToString(d[:]), strings.TrimSpace(string(out)); got != want {
			t.Errorf("%d bytes: %s, b3sum says %s", n, got, want)
		}
	}
}

// TestPeerB3sumStream compares the digest of 1 GiB, hashed as it is made.
func TestPeerB3sumStream(t *testing.T) {
	block := pattern(251 << 10)
	cmd := exec.Command("b3sum", "--no-names")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatalf("b3sum: %v", err)
	}
	h := NewHasher()
	for left := 1 << 30; left > 0; left -= len(block) {
		b := block[:min(left, len(block))]
		h.Write(b)
		if _, err := in.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("b3sum: %v", err)
	}
	d := h.Digest()
	if got, want := hex.EncodeToString(d[:]), strings.TrimSpace(out.String()); got != want {
		t.Errorf("%s, b3sum says %s", got, want)
	}
}
