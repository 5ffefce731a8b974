package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/search/query"
)

// The caret stands below the column, also where characters before it are shown by more than one.
func TestQueryFault(t *testing.T) {
	for _, c := range []struct {
		text  string
		ascii bool
		caret string
	}{
		{`a AND`, false, "  ^"}, {`"a`, false, "^"}, {`é AND`, false, "  ^"}, {`é AND`, true, "       ^"}, {"x\ty AND", false, "     ^"},
	} {
		_, err := query.Parse(c.text)
		if err == nil {
			t.Fatalf("%q has a meaning", c.text)
		}
		f := queryFault(c.text, err, c.ascii)
		if len(f.Why) < 2 || f.Why[0] != c.text || f.Why[1] != c.caret {
			t.Errorf("%q: %q", c.text, f.Why)
		}
	}
}

// Nothing that is found can repaint the terminal, and the marks stand where they belong.
func TestSnippetPaint(t *testing.T) {
	s := snippet{Text: "a \x1b[2J word\nb", Marks: []mark{{7, 11}}, Before: true, After: true}
	term := newTerminal(stream{color: true}, stream{})
	if got, want := string(s.paint(term)), "...a \\x1b[2J \x1b[33mword\x1b[0m\\nb..."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// An index that nobody asks any more goes; others, and other files, stay.
func TestIndexAge(t *testing.T) {
	a, _, _ := itemApp(t, "a")
	a.environ = append(a.environ, "XDG_CACHE_HOME="+t.TempDir())
	dir, err := a.indexes()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	now := a.now()
	for name, age := range map[string]time.Duration{"old.db": 2 * indexAge, "new.db": indexAge / 2, "old.txt": 2 * indexAge} {
		path, at := filepath.Join(dir, name), now.Add(-age)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (&searchRun{Query: []string{"a"}, Limit: 1}).run(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"old.db": false, "new.db": true, "old.txt": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(indexFiles(dir)); n != 2 {
		t.Errorf("%d indexes", n)
	}
}
