package tlog_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// proven returns a log with real entries, and the proof of one of them.
func proven(t testing.TB) (*history, *tlog.Proof) {
	t.Helper()
	h := newHistory(t, 1)
	encoded, err := tlog.AppendEntry(nil, goldenEntries()["publish"])
	if err != nil {
		t.Fatal(err)
	}
	c := h.growWith(t, 300, func(i int64) []byte {
		if i == 73 {
			return encoded
		}
		return entry(i)
	})
	c, err = tlog.Open(cosign(t, c, "w1", keytest.Seeded(7), at), h.log)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := tlog.NewTree(c, &h.files).Prove(t.Context(), 73, encoded)
	if err != nil {
		t.Fatal(err)
	}
	return h, proof
}

func TestProofGolden(t *testing.T) {
	h, proof := proven(t)
	b := proof.Append(nil)
	goldentest.File(t, filepath.Join("testdata", "acme-base-2.1.4.tlog-proof"), b)
	read, err := tlog.ParseProof(b)
	if err != nil {
		t.Fatal(err)
	}
	entry, c, err := read.Verify(h.log)
	if err != nil {
		t.Fatal(err)
	}
	if entry.Key() != "acme/base@2.1.4" || entry.Archive != sum("archive") || c.Size != 300 {
		t.Errorf("%+v at %d", entry, c.Size)
	}
	w1 := witnessKey(t, "w1", keytest.Seeded(7))
	policy, err := tlog.ParsePolicy([]byte("witness w " + w1.String() + "\nquorum w\n"))
	if err != nil {
		t.Fatal(err)
	}
	if read.Origin() != h.log.Name || (&tlog.Proof{}).Origin() != "" {
		t.Errorf("it claims to be of %q", read.Origin())
	}
	if c.Cosigned() != 0 {
		t.Errorf("%d witnesses that are unknown", c.Cosigned())
	}
	if _, c, err := read.Verify(h.log, policy, policy, nil); err != nil || c.Cosigned() != 1 {
		t.Errorf("the same witness in two policies: %v", err)
	}
	if _, c, err := read.Verify(h.log, policy, nil); err != nil {
		t.Errorf("with its witness: %v", err)
	} else if signed, ok := c.CosignedAt(w1); !ok || !signed.Equal(at) {
		t.Errorf("signed at %s", signed)
	}
	other, err := tlog.ParsePolicy([]byte("witness w " +
		witnessKey(t, "w2", keytest.Seeded(8)).String() + "\nquorum w\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := read.Verify(h.log, policy, other); fault.CodeOf(err) != fault.BelowThreshold {
		t.Errorf("without the other witness: %v", err)
	}
}

// TestProofForged changes one part of a proof after another.
func TestProofForged(t *testing.T) {
	h, proof := proven(t)
	eve, err := tlog.NewKey(origin, keytest.Eve().Public())
	if err != nil {
		t.Fatal(err)
	}
	other, err := tlog.AppendEntry(nil, goldenEntries()["yank"])
	if err != nil {
		t.Fatal(err)
	}
	forge := func(change func(p *tlog.Proof)) *tlog.Proof {
		p := *proof
		p.Hashes = append([]tlog.Hash(nil), p.Hashes...)
		change(&p)
		return &p
	}
	for name, c := range map[string]struct {
		proof *tlog.Proof
		code  fault.Code
	}{
		"another index":      {forge(func(p *tlog.Proof) { p.Index = 74 }), fault.Integrity},
		"behind the end":     {forge(func(p *tlog.Proof) { p.Index = 300 }), fault.Integrity},
		"another entry":      {forge(func(p *tlog.Proof) { p.Entry = other }), fault.Integrity},
		"no entry":           {forge(func(p *tlog.Proof) { p.Entry = nil }), fault.Integrity},
		"a wrong hash":       {forge(func(p *tlog.Proof) { p.Hashes[2][0] ^= 1 }), fault.Integrity},
		"a missing hash":     {forge(func(p *tlog.Proof) { p.Hashes = p.Hashes[1:] }), fault.Integrity},
		"a hash too many":    {forge(func(p *tlog.Proof) { p.Hashes = append(p.Hashes, tlog.Hash{}) }), fault.Integrity},
		"another checkpoint": {forge(func(p *tlog.Proof) { p.Checkpoint = h.grow(t, 400).Text }), fault.Integrity},
	} {
		if _, _, err := c.proof.Verify(h.log); fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := proof.Verify(eve); fault.CodeOf(err) != fault.Unsigned {
		t.Errorf("of another log: %v", err)
	}
	// What isn't an entry is in the tree, and is no evidence of anything.
	text := h.checkpoints[300]
	loose, err := tlog.NewTree(text, &h.files).Prove(t.Context(), 5, entry(5))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := loose.Verify(h.log); err == nil {
		t.Error("a leaf that isn't an entry was accepted")
	}
}

func TestParseProofRefused(t *testing.T) {
	_, proof := proven(t)
	good := string(proof.Append(nil))
	for _, c := range []struct{ old, new, says string }{
		{"proof@v1", "proof@v2", "first line"},
		{"extra ", "Extra ", "index"},
		{"extra cn", "extra c\rn", "base64"},
		{"extra cn", "extra *", "base64"},
		{"index 73", "index 073", "number"},
		{"index 73", "index -1", "number"},
		{"index 73", "index", "number"},
		{"index 73\n", "", "number"},
		{"\n\n", "\n", ""},
		{"index 73\n", "index 73\n" + strings.Repeat("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", 64), "hashes"},
		{"index 73\n", "index 73\nAAAA\n", "hash"},
		{"index 73\n", "index 73\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=\n", "hash"},
	} {
		changed := strings.Replace(good, c.old, c.new, 1)
		if changed == good {
			t.Fatalf("no %q", c.old)
		}
		p, err := tlog.ParseProof([]byte(changed))
		if c.says == "" {
			if err == nil && bytes.Contains(p.Checkpoint, []byte("c2sp")) {
				t.Errorf("%q", p.Checkpoint)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.new, err)
		}
	}
	for _, text := range []string{"", "\n\n", "c2sp.org/tlog-proof@v1\n\n",
		good + strings.Repeat("x", tlog.MaxProof)} {
		if _, err := tlog.ParseProof([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text[:min(len(text), 40)])
		}
	}
}

func FuzzProof(f *testing.F) {
	_, proof := proven(f)
	f.Add(proof.Append(nil))
	proof.Entry, proof.Hashes = nil, nil
	f.Add(proof.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := tlog.ParseProof(b)
		if err == nil && !bytes.Equal(p.Append(nil), b) {
			t.Fatalf("%q becomes %q", b, p.Append(nil))
		}
	})
}
