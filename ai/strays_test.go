package ai_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
)

func TestStrays(t *testing.T) {
	const v1 = "rye:signed:2026-02-10T02:00:00Z:00:AA:bb"
	s := onDisk(t, files{
		"tools/acme/good.yaml":     tool("acme/good", subprocess),
		"tools/acme/v1.sh":         "#!/bin/sh\n# " + v1 + "\n# Version: 1.0.0\necho\n",
		"tools/acme/v1.js":         "// " + v1 + "\nmodule.exports = {}\n",
		"tools/acme/v1.json":       `{"_": 1,` + "\n  \"" + v1 + "\": 1}\n",
		"tools/acme/plain.json":    "{}",
		"tools/acme/plain.toml":    "x = 1\n",
		"tools/acme/lib.py":        "X = 1\n",
		"tools/acme/tree/lib.py":   "X = 1\n",
		"tools/acme/_lib.py":       "# " + v1 + "\n",
		"tools/.hidden/lib.py":     "# " + v1 + "\n",
		"tools/__pycache__/lib.py": "# " + v1 + "\n",
		"tools/acme/readme.md":     "<!-- " + v1 + " -->\n",
		"tools/acme/logo.svg":      "x",
		"knowledge/plain.md":       "Just text about rye:signed: lines, `rye:signed:` and so on\n",
		"knowledge/signed.md":      "<!-- " + v1 + " -->\n# Text\n",
		"directives/readme.md":     "Text\n",
	})
	v := view(t, noOverride, s)
	known := func(p string) bool { return strings.HasPrefix(p, "tools/acme/tree/") }
	all, err := v.Strays(t.Context(), s, known)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range all {
		got = append(got, fmt.Sprintf("%s %s signed=%t never=%t", f.Kind.Name, f.Path, f.Signed, f.Never))
	}
	want := []string{
		"knowledge knowledge/signed.md signed=true never=false",
		"tool tools/acme/lib.py signed=false never=false",
		"tool tools/acme/plain.json signed=false never=true",
		"tool tools/acme/plain.toml signed=false never=true",
		"tool tools/acme/v1.js signed=true never=false",
		"tool tools/acme/v1.json signed=true never=true",
		"tool tools/acme/v1.sh signed=true never=false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Strays(ctx, s, known); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	if all, err := v.Strays(t.Context(), space("user", nil), known); err != nil || len(all) > 0 {
		t.Errorf("an empty space: %v, %v", all, err)
	}
}

// Directories that differ in case alone are one on some systems, so what is in them has other ids there.
func TestDirectoriesOfOneName(t *testing.T) {
	s := space("project", files{
		"tools/acme/one.yaml":     tool("acme/one", subprocess),
		"tools/Acme/two.yaml":     tool("Acme/two", subprocess),
		"tools/acme/x/three.yaml": tool("acme/x/three", subprocess),
		"tools/other/four.yaml":   tool("other/four", subprocess),
		"tools/_a/x.yaml":         "",
		"tools/_A/x.yaml":         "",
	})
	l, err := view(t, noOverride, s).Files(t.Context(), "tool")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range l.Problems {
		got = append(got, p.Error())
	}
	want := []string{
		`"project/tools/Acme": differs from "acme" in upper and lower case alone, and is the same directory on some systems`,
		`"project/tools/acme": differs from "Acme" in upper and lower case alone, and is the same directory on some systems`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(l.Files) < 4 {
		t.Errorf("the files aren't listed: %v", l.Files)
	}
}

// A kind's directory in other letters is one where case doesn't count, and nothing where it does.
func TestKindDirectoryMisspelt(t *testing.T) {
	s := space("project", files{
		"tools/acme/one.yaml": tool("acme/one", subprocess),
		"Tools/acme/two.yaml": tool("acme/two", subprocess),
		"KNOWLEDGE/x.md":      "x",
		"toolS":               "a file",
		"toolbox/x.yaml":      "",
	})
	v := view(t, noOverride, s)
	for _, c := range []struct {
		kinds []string
		want  string
	}{
		{nil, "KNOWLEDGE:knowledge:knowledge Tools:tools:tool toolS:tools:tool"},
		{[]string{"tool"}, "Tools:tools:tool toolS:tools:tool"},
		{[]string{"directive"}, ""},
	} {
		l, err := v.Files(t.Context(), c.kinds...)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, w := range strings.Fields(c.want) {
			p := strings.Split(w, ":")
			want = append(want, fmt.Sprintf("%q: differs from %q, the directory of the kind %s, in upper and lower case alone: on some systems it is the same, "+
				"on others no item in it is found", "project/"+p[0], p[1], p[2]))
		}
		for _, p := range l.Problems {
			got = append(got, p.Error())
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// The directory .ai of a project is in the project, wherever a link says that it is.
func TestOpenDirOutside(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/real/tools/x.yaml", "")
	write(t, dir+"/project/inside/tools/x.yaml", "")
	if err := os.Symlink("../real", dir+"/project/.ai"); err != nil {
		t.Fatal(err)
	}
	_, err := ai.OpenDir(dir+"/project/.ai", "project", ai.Project)
	wantError(t, err, fmt.Sprintf("%+q is a symbolic link out of the project: refusing to follow it", dir+"/project/.ai"))
	s, err := ai.OpenDir(dir+"/project/.ai", "user", ai.User)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := os.Symlink("inside", dir+"/project/.ai2"); err != nil {
		t.Fatal(err)
	}
	s, err = ai.OpenDir(dir+"/project/.ai2", "project", ai.Project)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}
