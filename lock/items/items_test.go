package items_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
)

const tool = "executor_id: rye/core/primitives/subprocess\ntool_type: program\nversion: 1.0.0\nconfig: {command: x}\n"

// open opens a new project with some files, whose user has nothing.
func open(t *testing.T, files map[string]string) *items.Items {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w, err := workspace.Open(context.Background(), projecttest.Paths(dir, home), workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	v, err := items.Open(context.Background(), w, func(p string) (string, error) { return filepath.Join(dir, p), nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

func TestFindNamed(t *testing.T) {
	ctx := context.Background()
	v := open(t, map[string]string{"rye.yaml": "", ".ai/tools/acme/a.yaml": tool, ".ai/tools/acme/note.yaml": "x: 1\n",
		"other.yaml": ""})
	for text, want := range map[string]fault.Code{
		"tool:acme/a": "", ".ai/tools/acme/a.yaml": "", "tool:acme/b": fault.ToolNotFound,
		"tool:acme/*":  fault.Validation,
		"tools:acme/a": fault.Validation, "acme/a": "", "acme/b": fault.NotFound, "other.yaml": fault.Validation,
		".ai/tools":                fault.Validation,
		".ai/tools/acme/note.yaml": fault.Validation, "tool:-": fault.Validation, "tool:[*": fault.Validation,
		"no:*": fault.Validation,
	} {
		it, err := v.FindNamed(ctx, text)
		switch {
		case want == "" && (err != nil || it.Ref.String() != "tool:acme/a"):
			t.Errorf("%q: %v", text, err)
		case want != "" && (err == nil || fault.CodeOf(err) != want):
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	v.Abs = nil // as for a caller that may not name files
	if _, err := v.FindNamed(ctx, ".ai/tools/acme/a.yaml"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a path was taken: %v", err)
	}
}

func TestCheck(t *testing.T) {
	ctx := context.Background()
	v := open(t, map[string]string{"rye.yaml": "", ".ai/tools/acme/a.yaml": tool + "packages: missing.txt\n",
		".ai/tools/acme/b.yaml": "executor_id: acme/none\n", ".ai/tools/acme/note.yaml": "x: 1\n"})
	var ruled []string
	c, err := v.Check(ctx, []check.Rule{func(_ context.Context, _ *check.Checker, it *check.Checked) []check.Problem {
		ruled = append(ruled, it.Ref.String())
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := c.Report()
	if r.Items != 2 || r.Wrong != 2 || r.Warnings == 0 || !slices.Contains(ruled, "tool:acme/a") {
		t.Errorf("%+v, rules asked for %v", r, ruled)
	}
	f := r.Fault("nothing was done")
	if f.Code != fault.Validation || f.Exit != 0 || r.Fault("").Exit != fault.ExitNo {
		t.Errorf("%+v", f)
	}
	fields := map[string]bool{}
	for _, p := range r.Problems {
		fields[p.Field] = true
		if p.File == "" || p.Message == "" {
			t.Errorf("%+v", p)
		}
	}
	if !fields["packages"] || !fields["executor_id"] {
		t.Errorf("%+v", r.Problems)
	}
}

func TestWorth(t *testing.T) {
	ctx := context.Background()
	v := open(t, map[string]string{"rye.yaml": "", ".ai/tools/acme/a.yaml": tool})
	it, err := v.FindNamed(ctx, "tool:acme/a")
	if err != nil {
		t.Fatal(err)
	}
	if w, _ := v.Worth(ctx, it); w.Trust != "unsigned" || w.Words() != "unsigned" || v.Locked(it, cas.Digest{}) != "" {
		t.Errorf("%+v", w)
	}
	library, err := v.FindNamed(ctx, "tool:rye/core/primitives/subprocess")
	if err != nil {
		t.Fatal(err)
	}
	if w, found := v.Worth(ctx, library); w.Trust != "builtin" || found == nil {
		t.Errorf("%+v", w)
	}
}

// TestReaches: a glob reaches what lies below a directory if it can cover an item there.
func TestReaches(t *testing.T) {
	v := open(t, map[string]string{"rye.yaml": ""})
	for _, c := range []struct {
		glob, kind, id string
		want           bool
	}{
		{"**", "", "acme/base", true},
		{"acme/**", "tool", "acme/base", true},
		{"acme/*", "", "acme/base", true},
		{"acme/b*", "", "acme/base", true},
		{"acme/base/*", "", "acme/base", true},
		{"*/base/x", "", "acme/base", true},
		{"acm*", "", "acme/base", false},
		{"ac*/x", "", "acme/base", false},
		{"acme/base2/*", "", "acme/base", false},
		{"acme*", "", "acme", true},
		{"other/**", "", "acme/base", false},
		{"tool:*", "tool", "", true},
		{"tool:**", "tool", "acme", true},
		{"tool:**", "directive", "acme", false},
		{"tool:acme/base", "tool", "acme", false}, // no glob
	} {
		arg, err := v.Parse(c.glob)
		if err != nil {
			t.Fatal(err)
		}
		if got := arg.Reaches(c.kind, c.id); got != c.want {
			t.Errorf("%s, %s: %t", c.glob, c.id, got)
		}
	}
}

// closed is a file system with a directory that this user may not read.
type closed struct {
	fs.FS
	dir string
}

func (c closed) Open(name string) (fs.File, error) {
	if name == c.dir {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return c.FS.Open(name)
}

// TestUnreadable: what may be in a directory that can't be read isn't left out in silence.
func TestUnreadable(t *testing.T) {
	v := open(t, map[string]string{"rye.yaml": "", ".ai/tools/acme/a.yaml": tool, ".ai/tools/other/b.yaml": tool})
	v.Project.FS = closed{v.Project.FS, "tools/acme"}
	for text, want := range map[string]int{"**": 1, "tool:**": 1, "tool:acme/*": 1, "acme/a*": 1, "tool:other/*": 0,
		"directive:**": 0} {
		sel, err := v.Selected(t.Context(), nil, text)
		if err != nil || len(sel.Problems) != want {
			t.Errorf("%s: %+v, %v", text, sel, err)
		}
	}
}
