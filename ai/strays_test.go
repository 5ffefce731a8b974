package ai_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
)

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
			want = append(want,
				fmt.Sprintf(
					"%q: differs from %q, the directory of the kind %s, in upper and lower case alone: on some systems it is the same, "+
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
	wantError(t, err, fmt.Sprintf("%+q is a symbolic link out of the project: refusing to follow it",
		dir+"/project/.ai"))
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
