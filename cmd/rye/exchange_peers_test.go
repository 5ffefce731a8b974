//go:build peers

package main

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/exec/npmtest"
)

// skillShapes writes the skills of every shape somewhere, as a repository has them.
func skillShapes(t *testing.T) (dir string, skills []*skill.Skill) {
	t.Helper()
	skills, err := skill.ReadDir("../../bundle/skill/testdata/shapes")
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "repo")
	for _, s := range skills {
		if err := skill.WriteDir(filepath.Join(dir, "skills", s.Name), s.Files); err != nil {
			t.Fatal(err)
		}
	}
	return dir, skills
}

// TestSkillsRef: what is written is a skill for the format's own library, as far as the shapes keep to the format:
// fields of other clients, and lists in the place of texts, are none of it.
func TestSkillsRef(t *testing.T) {
	program := filepath.Join(npmtest.Install(t, "skills-ref@0.1.5"), "dist", "cli.js")
	dir, skills := skillShapes(t)
	d := &skill.Directive{Version: "1.0.0", Description: "Reviews: \"one\" file", Body: "Review."}
	d.Ref.Kind, d.Ref.ID = "directive", "acme/re_view"
	if err := skill.WriteDir(filepath.Join(dir, "skills", "re-view"), d.Skill()); err != nil {
		t.Fatal(err)
	}
	skills = append(skills, &skill.Skill{Text: skill.Text{Name: "re-view"}})
	for _, s := range skills {
		out, err := osexec.Command("node", program, "validate", filepath.Join(dir, "skills", s.Name)).CombinedOutput()
		if valid := s.Name != "listed"; (err == nil) != valid {
			t.Errorf("%s: %v\n%s", s.Name, err, out)
		}
	}
}

// TestArchivers: skills come out of archives as other programs make them, byte for byte.
func TestArchivers(t *testing.T) {
	dir, skills := skillShapes(t)
	out := t.TempDir()
	run := func(in string, args ...string) {
		t.Helper()
		cmd := osexec.Command(args[0], args[1:]...)
		cmd.Dir = in
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, b)
		}
	}
	up := filepath.Dir(dir)
	run(up, "/usr/bin/python3", "-c", "import shutil; shutil.make_archive("+`"`+filepath.ToSlash(filepath.Join(out,
		"python"))+`"`+", 'zip', '.', 'repo')")
	run(up, "tar", "-czf", filepath.Join(out, "gnu.tar.gz"), "repo")
	run(dir, "tar", "--format=pax", "-czf", filepath.Join(out, "pax.tar.gz"), ".")
	run(dir, "git", "init", "-q")
	run(dir, "git", "-c", "core.autocrlf=false", "add", "-A", "-f")
	run(dir, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "x")
	for _, format := range []string{"zip", "tar.gz"} {
		run(dir, "git", "archive", "--format="+format, "--prefix=repo-main/", "-o", filepath.Join(out, "git."+format),
			"HEAD")
	}
	all, err := os.ReadDir(out)
	if err != nil || len(all) != 5 {
		t.Fatal(all, err)
	}
	for _, e := range all {
		b, err := os.ReadFile(filepath.Join(out, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := skill.ReadArchive(b)
		if err != nil || len(got) != len(skills) {
			t.Fatal(e.Name(), len(got), err)
		}
		for i, s := range got {
			for k, f := range s.Files {
				// Python's module has no modes.
				want := skills[i].Files[k]
				if f.Path != want.Path || string(f.Bytes) != string(want.Bytes) || f.Exec != want.Exec &&
					!strings.HasPrefix(e.Name(), "python") {
					t.Errorf("%s: %s/%s differs", e.Name(), s.Name, f.Path)
				}
			}
			if len(s.Files) != len(skills[i].Files) {
				t.Errorf("%s: %s has %d files", e.Name(), s.Name, len(s.Files))
			}
		}
	}
}
