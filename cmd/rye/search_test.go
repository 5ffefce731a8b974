package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/find"
	"github.com/rye-build/rye/ai/search/query"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/items"
)

// The caret stands below the column, also where characters before it are shown by more than one.
func TestQueryFault(t *testing.T) {
	for _, c := range []struct {
		text  string
		ascii bool
		caret string
	}{
		{`a AND`, false, "  ^"}, {`"a`, false, "^"}, {`é AND`, false, "  ^"}, {`é AND`, true, "       ^"},
		{"x\ty AND", false, "     ^"},
	} {
		_, err := query.Parse(c.text)
		if err == nil {
			t.Fatalf("%q has a meaning", c.text)
		}
		f := items.QueryFault(c.text, err, c.ascii)
		if len(f.Why) < 2 || f.Why[0] != c.text || f.Why[1] != c.caret {
			t.Errorf("%q: %q", c.text, f.Why)
		}
	}
}

// Nothing that is found can repaint the terminal, and the marks stand where they belong.
func TestSnippetPaint(t *testing.T) {
	s := find.Snippet{Text: "a \x1b[2J word\nb", Marks: []find.Mark{{Start: 7, End: 11}}, Before: true, After: true}
	term := cli.NewTerminal(cli.Stream{Color: true}, cli.Stream{})
	if got, want := string(items.Paint(term, &s)), "...a \\x1b[2J \x1b[33mword\x1b[0m\\nb..."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// An index that is no longer used is removed; others, and other files, stay.
func TestIndexAge(t *testing.T) {
	a, _, _ := itemApp(t, "a")
	a.Environ = append(a.Environ, "XDG_CACHE_HOME="+t.TempDir())
	dir, err := items.Indexes(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	now := a.Now()
	for name, age := range map[string]time.Duration{"old.db": 2 * find.MaxAge, "new.db": find.MaxAge / 2,
		"old.txt": 2 * find.MaxAge} {
		path, at := filepath.Join(dir, name), now.Add(-age)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (&items.SearchRun{Query: []string{"a"}, Limit: 1}).Run(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"old.db": false, "new.db": true, "old.txt": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(find.Indexes(dir)); n != 2 {
		t.Errorf("%d indexes", n)
	}
}
