//go:build unix

package main

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/lock/restore"
)

// TestFetchProgress: the progress line counts all bytes, those from sources and those from .ai/vendor.
func TestFetchProgress(t *testing.T) {
	p := newLockedProject(t, 2)
	p.in("add", "base", "--from", p.archive("base", "1.0.0"))
	fetched := func() {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(p.dir, ".local")); err != nil {
			t.Fatal(err)
		}
		h, _, _ := testHost("HOME="+p.dir, "XDG_STATE_HOME="+filepath.Join(p.dir, "state"),
			"XDG_CACHE_HOME="+filepath.Join(p.dir, "cache"))
		a := &cli.App{Host: h, Term: h.Terminal(true), Clock: h.Now}
		a.Term.Live = true
		if err := a.Enter(p.project); err != nil {
			t.Fatal(err)
		}
		l, err := paths.OpenLock(a, false)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := l.Open(); err != nil {
			t.Fatal(err)
		}
		var shown atomic.Int64
		l.Progress = func(n int64) { shown.Add(n) }
		ans, err := restore.Fetch(t.Context(), l.Lock)
		if err != nil {
			t.Fatal(err)
		}
		if ans.Fetched == 0 || shown.Load() == 0 {
			t.Errorf("%d objects of %d bytes were fetched, and %d bytes shown", ans.Fetched, ans.Bytes, shown.Load())
		}
	}
	fetched()
	p.in("vendor")
	fetched()
}
