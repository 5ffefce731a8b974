package session

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/lock/workspace"
)

// Copies that no tool has run from for long are removed about once a day, and never one in use.
func TestClean(t *testing.T) {
	root, now, said := t.TempDir(), time.Now(), 0
	w := workspace.Unread(workspace.Paths{Cache: workspace.Place{Path: root}}, workspace.Options{
		Now: func() time.Time { return now },
		Detail: func(what string, err error) {
			if what == "removed 1 unused copy" && err == nil {
				said++
			}
		}})
	dir := CopiesIn(w.Cache).Path
	c, err := materialise.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]*materialise.Copy{}
	for _, word := range []string{"used", "unused"} {
		id := cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte(word))}
		if held[word], err = c.Copy(t.Context(), oneWord(word),
			[]materialise.Part{{Path: "a", ID: id, Mode: cas.File, Size: int64(len(word))}}); err != nil {
			t.Fatal(err)
		}
	}
	files := func() int {
		all, err := os.ReadDir(filepath.Join(dir, "copies"))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if err := held["unused"].Close(); err != nil {
		t.Fatal(err)
	}
	s := &Session{w: w}
	for _, step := range []struct {
		later time.Duration
		left  int
		why   string
	}{
		{0, 2, "both were made now"},
		{maxCopyAge + time.Hour, 1, "one is in use"},
		{cleanEvery / 2, 1, "they are cleaned once a day"},
		{cleanEvery, 0, "none is in use"},
	} {
		now = now.Add(step.later)
		s.clean(c)
		if got := files(); got != step.left {
			t.Errorf("%d copies are left, want %d: %s", got, step.left, step.why)
		}
		if step.left == 1 && step.later > cleanEvery {
			if err := held["used"].Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if said != 2 {
		t.Errorf("%d times it was said that a copy is removed, want 2", said)
	}
	if _, err := os.Stat(dir + ".cleaned"); err != nil {
		t.Error(err)
	}
}

// A oneWord has one object, whatever is asked for.
type oneWord string

func (w oneWord) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	return cas.Verify(cas.Info{ID: id, Size: int64(len(w))}, io.NopCloser(strings.NewReader(string(w)))), nil
}
