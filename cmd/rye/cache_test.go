package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/stores"
	"github.com/rye-build/rye/exec/materialise"
)

// What no tool has run from for long goes, about once a day, and never what something runs from.
func TestCleanCopies(t *testing.T) {
	root := t.TempDir()
	now := time.Now()
	h, _, stderr := testHost("HOME="+root, "USERPROFILE="+root, "XDG_CACHE_HOME="+root, "LOCALAPPDATA="+root)
	h.Now = func() time.Time { return now }
	term := h.Terminal(false)
	term.Verbose = true
	a, err := cli.NewApp(h, term, cli.Globals{}, commands())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := places.Copies(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := materialise.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]*materialise.Copy{}
	for _, word := range []string{"used", "unused"} {
		id := cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte(word))}
		if held[word], err = c.Copy(t.Context(), oneWord(word), []materialise.Part{{Path: "a", ID: id, Mode: cas.File, Size: int64(len(word))}}); err != nil {
			t.Fatal(err)
		}
	}
	count := func() int64 {
		n, _ := stores.CopiesSize(t.Context(), dir)
		return n
	}
	if err := held["unused"].Close(); err != nil {
		t.Fatal(err)
	}
	stores.CleanCopies(t.Context(), a, c)
	if got := count(); got != 2 {
		t.Fatalf("%d copies are left of those that were made now, want 2", got)
	}
	now = now.Add(stores.MaxCopyAge + time.Hour)
	stores.CleanCopies(t.Context(), a, c)
	if got := count(); got != 1 {
		t.Errorf("%d copies are left, want the one that is in use", got)
	}
	if err := held["used"].Close(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(stores.CleanEvery / 2)
	stores.CleanCopies(t.Context(), a, c)
	if got := count(); got != 1 {
		t.Errorf("they were cleaned twice a day: %d copies are left", got)
	}
	now = now.Add(stores.CleanEvery)
	stores.CleanCopies(t.Context(), a, c)
	if got := count(); got != 0 {
		t.Errorf("%d copies are left, want none", got)
	}
	if n := strings.Count(stderr.String(), "removed 1 copy"); n != 2 {
		t.Errorf("it was said %d times that a copy is removed, want 2: %s", n, stderr)
	}
}

// A oneWord has one object, whatever is asked for.
type oneWord string

func (w oneWord) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	return cas.Verify(cas.Info{ID: id, Size: int64(len(w))}, io.NopCloser(strings.NewReader(string(w)))), nil
}

// TestClearBeside clears a directory into which others write.
func TestClearBeside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	var over atomic.Bool
	var others sync.WaitGroup
	for n := range 3 {
		others.Go(func() {
			for !over.Load() {
				_ = os.MkdirAll(dir, 0o700)
				_ = os.WriteFile(filepath.Join(dir, strconv.Itoa(n)), nil, 0o600)
			}
		})
	}
	for range 20000 {
		if err := stores.RemoveAll(t.Context(), dir); err != nil {
			t.Error(err)
			break
		}
	}
	over.Store(true)
	others.Wait()
}
