//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFetchProgress: whoever looks at a terminal is told of all bytes that come, from sources and from .ai/vendor.
func TestFetchProgress(t *testing.T) {
	p := newLockedProject(t, 2)
	p.in("add", "base", "--from", p.archive("base", "1.0.0"))
	fetched := func() {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(p.dir, ".local")); err != nil {
			t.Fatal(err)
		}
		h, _, _ := testHost("HOME="+p.dir, "XDG_STATE_HOME="+filepath.Join(p.dir, "state"), "XDG_CACHE_HOME="+filepath.Join(p.dir, "cache"))
		a := &app{host: h, term: h.terminal(true), clock: h.now}
		a.term.live = true
		a.globals.Project = p.project
		l, err := a.locking(false)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		if err := l.open(); err != nil {
			t.Fatal(err)
		}
		var ans fetchAnswer
		if err := l.fetch(t.Context(), &ans); err != nil {
			t.Fatal(err)
		}
		if shown := l.shown.done.Load(); ans.Fetched == 0 || shown == 0 {
			t.Errorf("%d objects of %d bytes were fetched, and %d bytes shown", ans.Fetched, ans.Bytes, shown)
		}
	}
	fetched()
	p.in("vendor")
	fetched()
}
