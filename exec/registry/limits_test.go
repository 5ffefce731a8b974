package registry_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/manifest"
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

// TestIndexLimits: a version that no index can have is refused before the log has it. Otherwise the log's files could
// never be written again.
func TestIndexLimits(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	var many []manifest.Require
	for i := range 400 {
		many = append(many, manifest.Require{BundleID: fmt.Sprintf("acme/%0180d", i), Version: "^1.0.0"})
	}
	heavy := w.archive(pack{id: "acme/heavy", version: "1.0.0", requires: many})
	_, err := w.Publish(t.Context(), ada, bytes.NewReader(heavy))
	wants(t, err, fault.Validation, "can't be in an index")
	_, err = w.Stage(t.Context(), ada, "", bytes.NewReader(heavy))
	wants(t, err, fault.Validation, "can't be in an index")

	// As many versions of a bundle as fill an index.
	if err := w.o.Rows.Update(t.Context(), func(in rows.Writer) error {
		for i := range 70 {
			in.Put(fmt.Sprintf("version/acme/full@0.0.%d", i), fmt.Appendf(nil,
				`{"bundle":"acme/full","version":"0.0.%d","unpublished":1,"about":"%s"}`, i, strings.Repeat("a", 250_000)))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_, err = w.Publish(t.Context(), ada, bytes.NewReader(w.archive(pack{id: "acme/full", version: "1.0.0"})))
	wants(t, err, fault.Limit, "the index of \"acme/full\" would have more than")
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
}
