package install

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

// Forged signature lines never replace a valid signature, however the signer is trusted.
func TestSignaturesOfStrangers(t *testing.T) {
	w := newWorld(t)
	l, _ := packed(t, "acme/demo", "1.0.0", "one", alice)
	real := l.Signatures[0]
	b := &bundle.Bundle{FileList: l}
	for i := range 3 {
		l.Signatures = nil
		for n := range sign.MaxLines - 1 {
			line := real
			if err := line.Key.UnmarshalText(fmt.Appendf(nil, "%064x", 100*i+n+1)); err != nil {
				t.Fatal(err)
			}
			l.Signatures = append(l.Signatures, line)
		}
		l.Signatures = append(l.Signatures, real)
		if err := KeepSignatures(t.Context(), w.store, b, options()); err != nil {
			t.Fatal(err)
		}
	}
	forged := real
	forged.Time, forged.Sig[3] = forged.Time.Add(time.Hour), forged.Sig[3]^1
	l.Signatures = manifest.Signatures{forged}
	if err := KeepSignatures(t.Context(), w.store, b, options()); err != nil {
		t.Fatal(err)
	}
	s, err := bundle.ReadSignatures(t.Context(), w.store, w.store, l.ID)
	if err != nil || len(s) != sign.MaxLines || !slices.Contains(s, real) {
		t.Errorf("%d signatures, %v; the one that counts: %v", len(s), err, slices.Contains(s, real))
	}
}
