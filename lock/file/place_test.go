package file

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestLine: a change is about the line of its entry in the older lock, and what is new in the younger is on none.
func TestLine(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/full.lock")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	seen := map[string]bool{}
	changes := Diff(l, new(Lock))
	changes = append(changes, Change{SourceChanged, "acme/base", "", ""},
		Change{GrantsChanged, "tool:acme/base/fetch", "", ""})
	for _, c := range changes {
		n := c.Line(b)
		if n == 0 || !strings.HasPrefix(lines[n-1], fmt.Sprintf("  %q: {", c.Name)) {
			t.Errorf("%s %s: line %d", c.Kind, c.Name, n)
		}
		section := n
		for lines[section-1][0] == ' ' {
			section--
		}
		seen[lines[section-1]] = true
	}
	if len(seen) != 6 {
		t.Errorf("sections: %v", seen)
	}
	for _, c := range Diff(new(Lock), l) {
		if n := c.Line([]byte("rye: \"lock/2\"\nend:\n  \"rye.lock\": {}\n")); n != 0 {
			t.Errorf("%s %s: line %d", c.Kind, c.Name, n)
		}
	}
}
