package main

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cmd/rye/functions"
)

// What a call needs is what it asks for, and all of it where that can't be said.
func TestFunctionNeeds(t *testing.T) {
	needs := func(list []capability.Capability) string {
		var texts []string
		for _, c := range list {
			texts = append(texts, c.String())
		}
		return strings.Join(texts, " ")
	}
	for want, got := range map[string]string{
		"load:system:time": needs(functions.SystemNeeds(functions.SystemParams{Item: "time"}).Permissions),
		"load:system:paths load:system:time load:system:runtime": needs(functions.SystemNeeds(functions.SystemParams{Item: "all"}).Permissions),
		"":                      needs(functions.SystemNeeds(functions.SystemParams{Item: "x"}).Permissions),
		"load:audit":            needs(functions.TelemetryNeeds(functions.TelemetryParams{}).Permissions),
		"sign:bundle:acme/a":    needs(functions.BundlerNeeds(functions.BundlerParams{Action: "create", ID: "acme/a"}).Permissions),
		"sign:bundle:*":         needs(functions.BundlerNeeds(functions.BundlerParams{Action: "create-package"}).Permissions),
		"load:bundle:acme/a":    needs(functions.BundlerNeeds(functions.BundlerParams{Action: "verify", ID: "acme/a"}).Permissions),
		"load:bundle:*":         needs(functions.BundlerNeeds(functions.BundlerParams{Action: "inspect", ID: "../a"}).Permissions),
		"load:bundle:*, of all": needs(functions.BundlerNeeds(functions.BundlerParams{Action: "list"}).Permissions) + ", of all",
	} {
		if got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	if !functions.BundlerNeeds(functions.BundlerParams{Action: "create"}).Own || functions.BundlerNeeds(functions.BundlerParams{Action: "list"}).Own {
		t.Error("bundles are made for the user's own calls, and listed for others, too")
	}
}

// Many faults are cut, and of two linters that say the same one counts.
func TestLintTold(t *testing.T) {
	l := &functions.Linting{Project: "/p", File: "/p/a.txt"}
	pattern := regexp.MustCompile(`^(?P<line>\d+) (?P<message>.+)$`)
	var text strings.Builder
	for i := range 2 * functions.LintFound {
		fmt.Fprintf(&text, "%d x\n", i+1)
	}
	one := l.Read("one", &functions.Linter{}, pattern, "/p", text.String())
	if len(one) != functions.LintFound+1 {
		t.Errorf("%d are kept of %d", len(one), 2*functions.LintFound)
	}
	l.Found = slices.Concat(one, l.Read("two", &functions.Linter{}, pattern, "/p", "1 x\n1 y\n"))
	found, more := l.Told()
	if len(found) != functions.LintFound || !more || found[0].Linter != "one" || found[1].Message != "y" {
		t.Errorf("%d, %v, %+v", len(found), more, found[:2])
	}
	for text, want := range map[string]string{"äöü": "äö", "ä": "ä", "abc": "ab", "": ""} {
		if got := functions.FirstRunes(text, 2); got != want {
			t.Errorf("%q is cut to %q", text, got)
		}
	}
}

// Whatever a linter writes, what is told of it is about the file, on a line.
func FuzzLintRead(f *testing.F) {
	for _, s := range []string{"a.txt:1:2: x", "b.txt:1:2: x", "a.txt:99999999999999999999:-1: x", "a.txt:1:2: \xff", "./a.txt:3:0: y\r\nz", "/a.txt:1:1: x", "a.txt\n"} {
		f.Add(s)
	}
	dir, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	l := &functions.Linting{Project: dir, File: filepath.Join(dir, "a.txt")}
	pattern := regexp.MustCompile(`^(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<message>.+)$`)
	f.Fuzz(func(t *testing.T, text string) {
		found := l.Read("x", &functions.Linter{}, pattern, dir, text)
		if len(found) > strings.Count(text, "\n")+1 {
			t.Errorf("%d faults in %q", len(found), text)
		}
		for _, d := range found {
			if d.Line < 1 || d.Line > math.MaxInt32 || d.Column < 0 || d.Column > math.MaxInt32 || d.Message == "" || !utf8.ValidString(d.Message) || !strings.Contains(text, "a.txt") {
				t.Errorf("%+v of %q", d, text)
			}
		}
	})
}
