package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/rows"
)

// TestMetrics: what was done is counted.
func TestMetrics(t *testing.T) {
	w := newWorld(t)
	w.o.Metrics = registry.NewMetrics()
	w.open()
	ada := w.caller("ada")
	w.claim(ada, "acme")
	v := w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	for range 2 {
		if _, err := w.Publish(t.Context(), ada, strings.NewReader("nonsense")); err == nil {
			t.Fatal("published")
		}
	}
	text, err := w.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"ryed_published_total 1", fmt.Sprintf("ryed_published_bytes_total %d", v.Size),
		`ryed_publish_refused_total{code="INTEGRITY_FAILED"} 2`, "ryed_log_entries 2", "ryed_log_shown_entries 2",
		"ryed_log_signing 1", "ryed_flush_duration_seconds_count 2",
		`ryed_rows_duration_seconds_count{kind="update"} `} {
		if !strings.Contains(string(text), "\n"+line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	if err := w.o.Rows.Update(t.Context(), func(in rows.Writer) error {
		in.Put("halt/public", []byte(`{"since":"2026-11-20T12:00:00Z","least":1}`))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if text, err := w.Metrics(t.Context()); err != nil || !strings.Contains(string(text), "ryed_log_signing 0") {
		t.Errorf("%s, %v", text, err)
	}
}
