package client

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

const greet = "---\nname: greet\ndescription: Greets\n---\nGreet.\n"

func named(t *testing.T, name string) Client {
	t.Helper()
	c, err := ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func open(t *testing.T, root string) *Place {
	t.Helper()
	p, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// TestCrash: a process that dies between the list and the files leaves what the same command completes, or removes.
func TestCrash(t *testing.T) {
	t.Parallel()
	pair := Pair{"tool:skills/greet/skill", "claude"}
	files := named(t, "claude").SkillFiles("greet",
		[]skill.File{{Path: skill.Main, Bytes: []byte(greet)}, {Path: "a.sh", Exec: true, Bytes: []byte("x")}})
	next := named(t, "claude").SkillFiles("greet", []skill.File{{Path: skill.Main, Bytes: []byte(greet + "more")}})
	for _, how := range []string{"install", "replace", "remove"} {
		root := t.TempDir()
		p := open(t, root)
		if how != "install" {
			if _, err := p.Install(pair, files, false); err != nil {
				t.Fatal(err)
			}
		}
		before, want := p.In, files
		if how == "replace" {
			want = next
		}
		// The list stands, and of the files none, or the first one.
		for n := range 2 {
			if how == "remove" {
				if _, err := p.Install(pair, files, false); err != nil {
					t.Fatal(err)
				}
				if err := p.dir.Remove(files[0].Path); n == 1 && err != nil {
					t.Fatal(err)
				}
				again := open(t, root)
				if removed, err := again.Remove(pair, false); err != nil || len(removed) != 2 || len(again.In) != 0 {
					t.Fatal(removed, err)
				}
				if _, err := os.Stat(filepath.Join(root, ".claude", "skills")); !os.IsNotExist(err) {
					t.Fatal(err)
				}
				p = open(t, root)
				continue
			}
			list := List{}
			for _, f := range want {
				list[f.Path] = Line{pair.Ref, pair.Client, cas.Sum(f.Bytes), f.Mode()}
			}
			for path := range before {
				if err := p.dir.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.save(list); err != nil {
				t.Fatal(err)
			}
			for _, f := range want[:n*(len(want)-1)] {
				if err := p.dir.Write(f.Path, 0o644, true, f.Bytes); err != nil {
					t.Fatal(err)
				}
			}
			again := open(t, root)
			if found, err := again.Compare(pair, want); err != nil || len(found) == 0 {
				t.Fatalf("%s: what is missing isn't seen: %v, %v", how, found, err)
			}
			if _, err := again.Install(pair, want, false); err != nil {
				t.Fatal(how, err)
			}
			if found, err := again.Compare(pair, want); err != nil || len(found) > 0 {
				t.Fatal(how, found, err)
			}
			if _, err := again.Remove(pair, false); err != nil {
				t.Fatal(err)
			}
			p, before = open(t, root), nil
		}
	}
}

// TestKeep: what others wrote, or changed, stays as it is, and so does everything else.
func TestKeep(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := open(t, root)
	pair := Pair{"directive:acme/review", "claude"}
	file := []skill.File{{Path: ".claude/commands/review.md", Bytes: []byte("x")}}
	if err := os.MkdirAll(filepath.Join(root, ".claude", "commands"), 0o700); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(root, filepath.FromSlash(file[0].Path))
	for _, text := range []string{"x", "other"} { // the same bytes are not ours either
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Install(pair, file, false); fault.Of(err).Details["reason"] != "exists" {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(root, ListFile)); !os.IsNotExist(err) {
			t.Fatal("something was written")
		}
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Install(pair, file, false); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Install(pair, file, false); err == nil {
		t.Fatal("a changed file was replaced")
	}
	more := filepath.Join(root, ".claude", "commands", "more.md")
	two := append(file, skill.File{Path: ".claude/commands/more.md"})
	p.In[two[1].Path] = Line{pair.Ref, pair.Client, cas.Sum(nil), cas.File}
	if err := os.WriteFile(more, []byte("changed too"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, installed := p.Install(pair, two, false)
	_, removed := p.Remove(pair, false)
	for _, err := range []error{installed, removed} {
		if names, _ := fault.Of(err).Details["files"].([]string); len(names) != 2 {
			t.Error("not all that was changed is said:", err)
		}
	}
	if err := os.Remove(more); err != nil {
		t.Fatal(err)
	}
	delete(p.In, two[1].Path)
	if _, err := p.Install(pair, []skill.File{{Path: ".claude/commands/other.md"}}, false); err == nil {
		t.Fatal("a changed file was taken away")
	}
	if _, err := p.Remove(pair, false); err == nil {
		t.Fatal("a changed file was removed")
	}
	if b, err := os.ReadFile(full); err != nil || string(b) != "changed" {
		t.Fatal(string(b), err)
	}
	if _, err := p.Install(pair, []skill.File{{Path: ".claude/commands/../../x"}}, false); err == nil {
		t.Fatal("a path led outside")
	}
	// A directory that becomes a file goes only if nothing else is in it.
	pair = Pair{"tool:skills/greet/skill", "claude"}
	if _, err := p.Install(pair, []skill.File{{Path: ".claude/skills/greet/lib/a"}}, false); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(root, ".claude", "skills", "greet", "lib", "theirs")
	if err := os.WriteFile(theirs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next := []skill.File{{Path: ".claude/skills/greet/lib"}}
	if _, err := p.Install(pair, next, false); fault.Of(err).Details["file"] != ".claude/skills/greet/lib/theirs" {
		t.Fatal(err)
	}
	if err := os.Remove(theirs); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Install(pair, next, false); err != nil {
		t.Fatal(err)
	}
}

// TestList: the format, and what is none.
func TestList(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/installed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	in, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := in.Bytes(); err != nil || string(out) != string(b) {
		t.Fatal(string(out), err)
	}
	if got := in.Pairs(); !slices.Equal(got, []Pair{{"directive:acme/review", "claude"},
		{"tool:skills/pdf/skill", "claude"}}) {
		t.Error(got)
	}
	for _, change := range [][2]string{
		{`.claude/skills/pdf/run.sh`, `src/main.go`}, {`.claude/skills/pdf/run.sh`, `.claude/skills/../../x`},
		{`"exec"`, `"link"`}, {"blake3:af", "blake3:zz"}, {`client: "claude", digest`, `client: "other", digest`},
		{`.claude/skills/pdf/run.sh`, `.claude/skills/pdf/Skill.md`}, {"installed/1", "installed/2"},
		{"rye:", "# rye:signed:x\nrye:"},
	} {
		if _, err := Parse([]byte(strings.Replace(string(b), change[0], change[1], 1))); err == nil {
			t.Errorf("%v is taken", change)
		}
	}
}

// TestDirectives: a directive becomes a file in a folder of the client, which says how its inputs are filled in.
func TestDirectives(t *testing.T) {
	t.Parallel()
	d := &skill.Directive{Ref: model.Ref{Kind: "directive", ID: "acme/a_b"}, Version: "1.0.0", Description: "é \"x\"",
		Body: "{input:a}\n", Inputs: []skill.Input{{Name: "a", Required: true}}}
	for _, c := range All {
		for _, f := range c.DirectiveFiles(d) {
			if !strings.HasPrefix(f.Path, c.Skills+"/") &&
				(c.Commands == "" || !strings.HasPrefix(f.Path, c.Commands+"/")) {
				t.Error(c.Name, f.Path)
			}
			if !strings.Contains(string(f.Bytes), "`a`") {
				t.Errorf("%s: %s", c.Name, f.Bytes)
			}
		}
	}
	if _, err := ByName("none"); err == nil {
		t.Error("a client that isn't there is known")
	}
}

// TestControls: a command in TOML has no control character that TOML doesn't take as it is.
func TestControls(t *testing.T) {
	t.Parallel()
	d := &skill.Directive{Ref: model.Ref{Kind: "directive", ID: "acme/a"}, Description: "d\x7f\x01d",
		Body: "a\tb\x00\x1b[31m\x7f\r\n\"\\\f"}
	want :=
		"description = \"d\\u007f\\u0001d\"\nprompt = \"\"\"\nWhat the user asks for: {{args}}\n\na\tb\\u0000\\u001b[31m\\u007f\\r\n\\\"\\\\\\u000c\n\"\"\"\n"
	if got := string(named(t, "gemini").DirectiveFiles(d)[0].Bytes); got != want {
		t.Errorf("%q\n%q", got, want)
	}
}
