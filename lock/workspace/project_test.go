package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// TestFindProject lays trees out and searches from "at". A path ending in / is a directory.
func TestFindProject(t *testing.T) {
	for _, test := range []struct {
		name, tree, at, want string
		user                 string // the user base
		foreign              string // what another user owns
	}{
		{name: "here", tree: ".git/ rye.yaml", at: ".", want: ". rye.yaml"},
		{name: "above", tree: ".git/ rye.yaml a/b/", at: "a/b", want: ". rye.yaml"},
		{name: "nearest", tree: ".git/ rye.yaml a/rye.yaml a/b/", at: "a/b", want: "a rye.yaml"},
		{name: "rye.yaml before a nearer .ai", tree: ".git/ rye.yaml a/.ai/ a/b/", at: "a/b", want: ". rye.yaml"},
		{name: "else .ai", tree: ".git/ .ai/ a/", at: "a", want: ". .ai"},
		{name: "both", tree: ".git/ .ai/ rye.yaml", at: ".", want: ". rye.yaml"},
		{name: "none", tree: ".git/ a/", at: "a", want: "none"},
		{name: "not above .git", tree: ".git/ rye.yaml a/.git/ a/b/", at: "a/b", want: "none"},
		{name: "beside .git", tree: ".git/ a/.git/ a/rye.yaml a/b/", at: "a/b", want: "a rye.yaml"},
		{name: ".git is a file in a worktree", tree: ".git/ rye.yaml a/.git a/b/", at: "a/b", want: "none"},
		{name: "the user space is no project", tree: ".git/ .ai/ a/", at: "a", user: ".", want: "none"},
		{name: "rye.yaml doesn't make the user base one", tree: ".git/ rye.yaml a/", at: "a", user: ".", want: "none"},
		{name: "above the user base", tree: ".git/ rye.yaml u/.ai/ u/a/", at: "u/a", user: "u", want: ". rye.yaml"},
		{name: "below the user base", tree: ".git/ .ai/ a/.ai/", at: "a", user: ".", want: "a .ai"},
		{name: ".ai is a file", tree: ".git/ .ai", at: ".", want: "none"},
		{name: "rye.yaml is a directory", tree: ".git/ rye.yaml/", at: ".", want: "none"},
		{name: "another's directory", tree: ".git/ a/rye.yaml a/b/", at: "a/b", foreign: "a", want: "refused a"},
		{name: "another's rye.yaml in a shared directory", tree: ".git/ rye.yaml a/", at: "a", foreign: "rye.yaml",
			want: "refused rye.yaml"},
		{name: "another's .ai", tree: ".git/ .ai/", at: ".", foreign: ".ai", want: "refused .ai"},
		{name: "no way round by a nearer .ai", tree: ".git/ rye.yaml a/.ai/", at: "a", foreign: "rye.yaml",
			want: "refused rye.yaml"},
		{name: "another's .git doesn't matter", tree: ".git/ rye.yaml", at: ".", foreign: ".git", want: ". rye.yaml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			top := layOut(t, test.tree)
			s := Search{foreign: foreignIn(top, test.foreign)}
			if test.user != "" {
				s.UserBase = filepath.Join(top, test.user)
			}
			p, err := s.Find(filepath.Join(top, test.at))
			if got := shown(top, p, err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestNamedProject: the project that -C names itself may belong to anybody, one above it may not.
func TestNamedProject(t *testing.T) {
	top := layOut(t, ".git/ rye.yaml a/b/ a/.ai/ c/")
	s := Search{foreign: func(fs.FileInfo) bool { return true }}
	for at, want := range map[string]string{".": ". rye.yaml", "a": "refused .", "a/b": "refused .",
		"c": "refused ."} {
		s.Named = filepath.Join(top, at)
		p, err := s.Find(s.Named)
		if got := shown(top, p, err); got != want {
			t.Errorf("%s: got %q, want %q", at, got, want)
		}
	}
}

// TestProjectByLink: the directories as they lie on disk count, not the way they were reached.
func TestProjectByLink(t *testing.T) {
	top := layOut(t, ".git/ rye.yaml real/.git/ real/a/ real/.ai/")
	if err := os.Symlink(filepath.Join(top, "real", "a"), filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	s := Search{}
	p, err := s.Find(filepath.Join(top, "link"))
	if got := shown(top, p, err); got != "real .ai" {
		t.Errorf("got %q", got)
	}
}

func layOut(t *testing.T, tree string) string {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(tree) {
		path := filepath.Join(top, filepath.FromSlash(name))
		dir := path
		if !strings.HasSuffix(name, "/") {
			dir = filepath.Dir(path)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir != path {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return top
}

// foreignIn says that one path below top belongs to another user.
func foreignIn(top, path string) func(fs.FileInfo) bool {
	return func(fi fs.FileInfo) bool {
		if path == "" {
			return false
		}
		other, err := os.Lstat(filepath.Join(top, path))
		return err == nil && os.SameFile(fi, other)
	}
}

func shown(top string, p Project, err error) string {
	var f *fault.Error
	switch {
	case errors.Is(err, ErrNoProject):
		return "none"
	case errors.Is(err, fs.ErrNotExist):
		return "absent"
	case errors.As(err, &f) && f.Code == fault.Denied:
		rel, _ := filepath.Rel(top, f.Details["path"].(string))
		return "refused " + filepath.ToSlash(rel)
	case err != nil:
		return err.Error()
	}
	rel, _ := filepath.Rel(top, p.Root)
	return filepath.ToSlash(rel) + " " + p.Marker
}

// A project that asks for a newer rye is refused by a release, and by no other rye.
func TestProjectVersion(t *testing.T) {
	p := Project{Root: t.TempDir(), Marker: MarkerFile}
	if err := os.WriteFile(filepath.Join(p.Root, MarkerFile), []byte("rye: \"0.4.0\"\nnew: word\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	_, err := p.File("0.3.9")
	if f := fault.Of(err); f.Code != fault.VersionMismatch || f.Line().Exit != fault.ExitRefused ||
		!strings.HasSuffix(f.Text, "requires rye 0.4.0 or newer; this is 0.3.9") {
		t.Errorf("an older one: %v", err)
	}
	for _, running := range []string{"0.4.0", "devel"} {
		_, err := p.File(running)
		if f := fault.Of(err); f.Code != fault.Config || f.Details["line"] != 2 {
			t.Errorf("%s: %v", running, err)
		}
	}
}
