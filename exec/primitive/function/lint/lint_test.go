package lint

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Many faults are cut, and of two linters that say the same one counts.
func TestDiagnostics(t *testing.T) {
	l := &linting{project: "/p", file: "/p/a.txt"}
	pattern := regexp.MustCompile(`^(?P<line>\d+) (?P<message>.+)$`)
	var text strings.Builder
	for i := range 2 * maxDiagnostics {
		fmt.Fprintf(&text, "%d x\n", i+1)
	}
	one := l.read("one", &linter{}, pattern, "/p", text.String())
	if len(one) != maxDiagnostics+1 {
		t.Errorf("%d are kept of %d", len(one), 2*maxDiagnostics)
	}
	l.found = slices.Concat(one, l.read("two", &linter{}, pattern, "/p", "1 x\n1 y\n"))
	found, more := l.diagnostics()
	if len(found) != maxDiagnostics || !more || found[0].Linter != "one" || found[1].Message != "y" {
		t.Errorf("%d, %v, %+v", len(found), more, found[:2])
	}
	for text, want := range map[string]string{"äöü": "äö", "ä": "ä", "abc": "ab", "": ""} {
		if got := firstRunes(text, 2); got != want {
			t.Errorf("%q is cut to %q", text, got)
		}
	}
}

// Whatever a linter prints, each diagnostic is about the file and a line.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"a.txt:1:2: x", "b.txt:1:2: x", "a.txt:99999999999999999999:-1: x", "a.txt:1:2: \xff",
		"./a.txt:3:0: y\r\nz", "/a.txt:1:1: x", "a.txt\n"} {
		f.Add(s)
	}
	dir, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	l := &linting{project: dir, file: filepath.Join(dir, "a.txt")}
	pattern := regexp.MustCompile(`^(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<message>.+)$`)
	f.Fuzz(func(t *testing.T, text string) {
		found := l.read("x", &linter{}, pattern, dir, text)
		if len(found) > strings.Count(text, "\n")+1 {
			t.Errorf("%d faults in %q", len(found), text)
		}
		for _, d := range found {
			if d.Line < 1 || d.Line > math.MaxInt32 || d.Column < 0 || d.Column > math.MaxInt32 || d.Message == "" ||
				!utf8.ValidString(d.Message) || !strings.Contains(text, "a.txt") {
				t.Errorf("%+v of %q", d, text)
			}
		}
	})
}
