package project

import (
	"strings"
	"testing"
)

var (
	commit1   = strings.Repeat("0123456789", 4)
	commit256 = strings.Repeat("0123456789abcdef", 4)
)

func TestGit(t *testing.T) {
	for text, want := range map[string]Git{
		"git+https://h.example/r": {Address: "https://h.example/r"},
		"git+https://h.example/team/r.git@main": {Address: "https://h.example/team/r.git",
			Revision: "main"},
		"git+https://h.example:8443/r.git@refs/heads/a/b": {Address: "https://h.example:8443/r.git",
			Revision: "refs/heads/a/b"},
		"git+https://h.example/r?dir=a/b@v1.2.0-rc.1+2": {Address: "https://h.example/r", Dir: "a/b",
			Revision: "v1.2.0-rc.1+2"},
		"git+https://h.example/r?dir=a": {Address: "https://h.example/r", Dir: "a"},
		"git+https://h.example/%40team/r@" + commit1: {Address: "https://h.example/%40team/r",
			Revision: commit1},
		"git+https://h.example/r.git?dir=a@" + commit256: {Address: "https://h.example/r.git", Dir: "a",
			Revision: commit256},
		"git+https://h.example/r@" + commit1[:39]: {Address: "https://h.example/r",
			Revision: commit1[:39]},
		"git+https://h.example/r@release/" + commit1 + "/final": {Address: "https://h.example/r",
			Revision: "release/" + commit1 + "/final"},
	} {
		s, err := ParseSource(text, false)
		if err != nil || s.Where != text || !s.Remote() {
			t.Errorf("%q: %+v, %v", text, s, err)
			continue
		}
		g, ok := s.Git()
		if !ok || g != want || g.At(g.Revision) != s ||
			s.Pinned() != (want.Revision == commit1 || want.Revision == commit256) {
			t.Errorf("%q: %+v, %t", text, g, ok)
		}
	}
	for text, want := range map[string]string{
		"git+http://h.example/r":                              "by https only",
		"git+ssh://git@h.example/r":                           "by https only",
		"git+file:///r":                                       "by https only",
		"git+https:///r":                                      "invalid address",
		"git+https://h.example":                               "repository",
		"git+https://h'.example/r":                            "a host consists of",
		"git+https://h\"\".example/r":                         "a host consists of",
		"git+https://h.example?a@b/r":                         "repository",
		"git+https://h.example/":                              "repository",
		"git+https://h.example/r/":                            "without a slash",
		"git+https://h.example/r's":                           "consists of letters, digits",
		"git+https://git@h.example/r":                         "a user name or password",
		"git+https://H.example/r":                             "lower case",
		"git+https://h.example/r#main":                        "a fragment",
		"git+https://h.example/../r":                          `not contain "."`,
		"git+https://h.example/r?ref=main":                    "only dir=DIRECTORY",
		"git+https://h.example/r?dir=":                        "path",
		"git+https://h.example/r?dir=../x":                    "path",
		"git+https://h.example/r?dir=a&x=y":                   "a directory consists of",
		"git+https://h.example/r?dir=a%2Fb":                   "a directory consists of",
		"git+https://h.example/r@":                            "expected a branch",
		"git+https://h.example/r@main?dir=a":                  "letters, digits",
		"git+https://h.example/r@a@{1}":                       "letters, digits",
		"git+https://h.example/r@--upload-pack=touch":         "letters, digits",
		"git+https://h.example/r@-x":                          "valid branch or tag name",
		"git+https://h.example/r@a..b":                        "valid branch or tag name",
		"git+https://h.example/r@a//b":                        "valid branch or tag name",
		"git+https://h.example/r@a/.b":                        "valid branch or tag name",
		"git+https://h.example/r@a.lock":                      "valid branch or tag name",
		"git+https://h.example/r@a.":                          "valid branch or tag name",
		"git+https://h.example/r@/a":                          "valid branch or tag name",
		"git+https://h.example/r@HEAD":                        "leave out @HEAD",
		"git+https://h.example/r@" + commit1[:39] + "A":       "in lower case",
		"git+https://h.example/r@" + strings.Repeat("a", 201): "longer than 200",
		"git+https://h.example/r@ä":                           "letters, digits",
		"git+https://h.example/ä":                             "ASCII",
		"git+ext::sh":                                         "by https only",
	} {
		s, err := ParseSource(text, false)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, s, err, want)
		}
	}
	if _, err := ParseSource("git+https://h.example/r", true); err == nil ||
		!strings.Contains(err.Error(), "not an index") {
		t.Errorf("an index: %v", err)
	}
	for _, s := range []Source{{true, "https://h.example/i.yaml"}, {false, "https://h.example/a"},
		{false, "../git+x"}} {
		if g, ok := s.Git(); ok || !s.Pinned() {
			t.Errorf("%+v is the repository %+v", s, g)
		}
	}
}

func TestAllows(t *testing.T) {
	at := func(more string) Source {
		t.Helper()
		if strings.HasPrefix(more, "..") {
			return Source{Where: more}
		}
		s, err := ParseSource("git+https://h.example/"+more, false)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		from, locked string
		same, allows bool
	}{
		{"r@main", "r@" + commit1, true, true},
		{"r", "r@" + commit256, true, true},
		{"r@" + commit1, "r@" + commit1, true, true},
		{"r@" + commit1, "r@" + commit256, true, false},
		{"r@main", "r@next", true, false},
		{"r@main", "r.git@" + commit1, false, false},
		{"r@main", "r?dir=a@" + commit1, false, false},
		{"r?dir=a@main", "r?dir=a@" + commit1, true, true},
		{"r@main", "../r", false, false},
		{"../r", "r@" + commit1, false, false},
		{"../r", "../r", true, true},
		{"../r", "../q", false, false},
	} {
		from, locked := at(c.from), at(c.locked)
		if same, allows := from.SamePlace(locked), from.Allows(locked); same != c.same || allows != c.allows {
			t.Errorf("%s and %s: same place %t, allows %t", c.from, c.locked, same, allows)
		}
	}
}

func FuzzSource(f *testing.F) {
	for _, text := range []string{"git+https://h.example/r?dir=a@main", "git+https://h.example/r@" + commit1,
		"git+https://h.example/r'", "https://h.example/a?b=c", "../a",
		"oci://h.example/r:1.0.0@sha256:" + commit256, "oci-layout:./a:b", "oci-layout:../a"} {
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, index bool) {
		s, err := ParseSource(text, index)
		if err != nil {
			return
		}
		again, err := ParseSource(s.Where, index)
		if err != nil || again != s {
			t.Fatalf("%q is %+v, and that is %+v, %v", text, s, again, err)
		}
		g, ok := s.Git()
		if !ok {
			return
		}
		if g.At(g.Revision) != s || !strings.HasPrefix(g.Address, "https://") || strings.HasPrefix(g.Revision, "-") ||
			strings.ContainsAny(g.Address+g.Revision, " \t\n'\"\\@") {
			t.Errorf("%q is the repository %+v", text, g)
		}
		if pinned := g.At(commit1); !pinned.Pinned() || !s.SamePlace(pinned) {
			t.Errorf("%q is not the place of %+v", text, pinned)
		}
	})
}
