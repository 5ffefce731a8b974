package workspace

import (
	"slices"
	"testing"
	"time"

	lockfile "github.com/rye-build/rye/lock/file"
)

// TestYoung: Over shows the newest version that was left out of each locked bundle, unless the lock has a newer one.
func TestYoung(t *testing.T) {
	var y young
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for _, v := range []Young{{"b/b", "1.2.0", at}, {"b/b", "1.10.0", at}, {"b/b", "1.9.0", at}, {"a/a", "2.0.1", at},
		{"c/c", "1.0.0", at}, {"c/c", "1.1.0", at}, {"d/d", "1.0.0", at}} {
		y.add(v.Bundle, v.Version, v.Since)
	}
	lock := &lockfile.Lock{Bundles: []lockfile.Bundle{{ID: "a/a", Version: "2.0.0"}, {ID: "b/b", Version: "1.0.0"},
		{ID: "c/c", Version: "1.1.0"}}}
	want := []Young{{"a/a", "2.0.1", at}, {"b/b", "1.10.0", at}}
	if got := y.Over(lock); !slices.Equal(got, want) {
		t.Error(got)
	}
}
