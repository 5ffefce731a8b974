package registry_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
)

// TestEvidenceLimits: evidence counts as the files do.
func TestEvidenceLimits(t *testing.T) {
	for name, limits := range map[string]registry.Limits{
		"larger than":       {},
		"have more":         {Unpacked: 1 << 20},
		"more than 1 files": {Files: 1},
	} {
		w := newWorld(t)
		w.o.Limits = limits
		w.open()
		ada := w.caller("ada")
		w.claim(ada, "acme")
		_, err := w.Publish(t.Context(), ada, bytes.NewReader(w.archive(pack{id: "acme/base", version: "1.0.0",
			evidence: strings.Repeat("a", 20<<20)})))
		wants(t, err, fault.Limit, name)
	}
}
