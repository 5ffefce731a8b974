package ai_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/cas/statcache"
)

// list returns the paths that a listing has, and its problems, those of the library left out.
func list(t testing.TB, v *ai.View, kinds ...string) (names, problems []string) {
	t.Helper()
	l, err := v.Files(t.Context(), kinds...)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range l.Files {
		if !f.Space.Builtin {
			names = append(names, f.Space.Label+" "+f.Ref.String()+" "+strings.TrimPrefix(f.Path, f.Kind.Dir+"/"))
		}
	}
	for _, p := range l.Problems {
		text := p.Error()
		if p.Space.Dir != "" {
			text = strings.ReplaceAll(text, p.Space.Dir, ".")
		}
		problems = append(problems, p.Path+": "+text)
	}
	return names, problems
}

func wantLines(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got\n\t%s\nwant\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestFiles(t *testing.T) {
	project := files{
		"tools/acme/fetch.py":             pyTool("acme/fetch", python),
		"tools/acme/fetch.yaml":           "timeout: 3\n", // beside a tool, not one
		"tools/acme/_private.py":          pyTool("acme/_private", python),
		"tools/acme/_lib/x.py":            pyTool("acme/_lib/x", python),
		"tools/acme/.x/y.py":              pyTool("acme/.x/y", python),
		"tools/acme/__pycache__/y.py":     pyTool("y", python),
		"tools/acme/node_modules/z/z.js":  "// ---\n// executor_id: x\n// ---\n",
		"tools/acme/README.md":            "# not a tool",
		"tools/acme/data.json":            "{}",
		"directives/acme/scrape.md":       "<directive name=\"scrape\" version=\"1.0.0\"></directive>\n",
		"knowledge/acme/k.md":             "---\nid: k\n---\n",
		"knowledge/acme/notes.txt":        "text",
		"config/agent.yaml":               "a: 1\n",
		"threads/t.py":                    pyTool("t", python),
		"policy.yaml":                     "rye: policy/2\n",
		"tools/rye/core/runtimes/bash.sh": "#!/bin/sh\n# ---\n# executor_id: x\n# ---\n",
	}
	v := view(t, noOverride, space("project", project),
		space("user", files{"tools/acme/fetch.py": pyTool("acme/fetch", python), "tools/a.yaml": "executor_id: x\n"}))
	names, problems := list(t, v)
	wantLines(t, "files", names,
		"project config:agent agent.yaml",
		"project directive:acme/scrape acme/scrape.md",
		"project knowledge:acme/k acme/k.md",
		"user tool:a a.yaml",
		"project tool:acme/fetch acme/fetch.py",
		"user tool:acme/fetch acme/fetch.py",
		"project tool:rye/core/runtimes/bash rye/core/runtimes/bash.sh",
	)
	wantLines(t, "problems", problems)
	names, _ = list(t, v, "config", "knowledge")
	wantLines(t, "two kinds", names, "project config:agent agent.yaml", "project knowledge:acme/k acme/k.md")
	// A file alone in its place is listed unread, and no item when it is read.
	f, err := v.At(v.Spaces()[0], "tools/acme/fetch.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Load(t.Context(), f); !errors.Is(err, ai.ErrAsset) {
		t.Errorf("an asset: %v", err)
	}
}

// TestHostileNames: what can't be an item is reported, and stops nothing.
func TestHostileNames(t *testing.T) {
	project := files{
		"tools/ok.py":         pyTool("ok", python),
		"tools/twice.py":      pyTool("twice", python),
		"tools/twice.sh":      "# ---\n# executor_id: x\n# ---\n",
		"tools/Case.py":       pyTool("Case", python),
		"tools/case.py":       pyTool("case", python),
		"tools/Dir/x.py":      pyTool("Dir/x", python),
		"tools/dir/x.py":      pyTool("dir/x", python),
		"tools/CON.py":        pyTool("CON", python),
		"tools/aux/x.py":      pyTool("aux/x", python),
		"tools/my tool.py":    pyTool("my tool", python),
		"tools/my notes.py":   "print('an asset')\n",
		"tools/UPPER.PY":      pyTool("UPPER", python),
		"tools/e\u0301.py":    pyTool("x", python),
		"tools/\u202egnp.py":  pyTool("x", python),
		"tools/a\x1b[31mb.py": pyTool("x", python),
	}
	v := view(t, noOverride, space("project", project))
	names, problems := list(t, v)
	wantLines(t, "files", names, "project tool:ok ok.py")
	twice := `tool:twice is ambiguous: 2 files have this id; project/tools/twice.py; project/tools/twice.sh`
	cases := `tool:Case is ambiguous: 2 files have this id; project/tools/Case.py; project/tools/case.py`
	folder := "differs from %q in upper and lower case alone, and is the same directory on some systems"
	dirs := `tool:Dir/x is ambiguous: 2 files have this id; project/tools/Dir/x.py; project/tools/dir/x.py`
	wantLines(t, "problems", problems,
		`tools/CON.py: "project/tools/CON.py": path "tools/CON.py": "CON.py" is a device on Windows`,
		`tools/Case.py: "project/tools/Case.py": `+cases,
		`tools/Dir: "project/tools/Dir": `+fmt.Sprintf(folder, "dir"),
		`tools/Dir/x.py: "project/tools/Dir/x.py": `+dirs,
		`tools/UPPER.PY: "project/tools/UPPER.PY": has the extension ".PY", which a tool has in lower case`,
		"tools/a\x1b[31mb.py: "+
			`"project/tools/a\x1b[31mb.py": path "tools/a\x1b[31mb.py": "a\x1b[31mb.py" has U+001B in it, which is a control character or a line separator`,
		`tools/aux: "project/tools/aux": path "tools/aux": "aux" is a device on Windows`,
		`tools/case.py: "project/tools/case.py": `+cases,
		`tools/dir: "project/tools/dir": `+fmt.Sprintf(folder, "Dir"),
		`tools/dir/x.py: "project/tools/dir/x.py": `+dirs,
		"tools/e\u0301.py: "+
			`"project/tools/e\u0301.py": path "tools/e\u0301.py": "e\u0301.py" is not in Unicode Normalization Form C, expected "\u00e9.py"`,
		`tools/my tool.py: "project/tools/my tool.py": invalid item name: path "my tool" is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by "/"`,
		`tools/twice.py: "project/tools/twice.py": `+twice,
		`tools/twice.sh: "project/tools/twice.sh": `+twice,
		"tools/\u202egnp.py: "+
			`"project/tools/\u202egnp.py": path "tools/\u202egnp.py": "\u202egnp.py" has U+202E in it, which is invisible`,
	)
	_, err := v.Find(t.Context(), ref("tool:twice"))
	if _, ok := errors.AsType[*ai.AmbiguousError](err); !ok {
		t.Errorf("twice: %v", err)
	}
}

// TestLinks: no link is an item, a directory of items, or a way to either.
func TestLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // making links needs a privilege there
	}
	s := onDisk(t, files{"tools/ok.py": pyTool("ok", python), "tools/real/x.py": pyTool("real/x", python)})
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret.py"), pyTool("secret", python))
	in := func(name string) string { return filepath.Join(s.Dir, name) }
	for name, to := range map[string]string{
		"tools/link.py":  "ok.py",
		"tools/out.py":   filepath.Join(outside, "secret.py"),
		"tools/gone.py":  "nowhere",
		"tools/inside":   "real",
		"tools/outside":  outside,
		"tools/bash.txt": "ok.py",
		"knowledge":      "tools",
	} {
		if err := os.Symlink(to, in(name)); err != nil {
			t.Fatal(err)
		}
	}
	v := view(t, noOverride, s)
	names, problems := list(t, v)
	wantLines(t, "files", names, "project tool:ok ok.py", "project tool:real/x real/x.py")
	const link = "is a symbolic link, which is never an item"
	want := []string{"knowledge: \"./knowledge\": " + link}
	for _, name := range []string{"bash.txt", "gone.py", "inside", "link.py", "out.py", "outside"} {
		want = append(want, fmt.Sprintf("tools/%s: \"./tools/%s\": %s", name, name, link))
	}
	wantLines(t, "problems", problems, want...)
	for _, name := range []string{"tool:link", "tool:out", "tool:gone", "tool:inside/x", "tool:outside/secret",
		"knowledge:ok"} {
		_, err := v.Find(t.Context(), ref(name))
		if err == nil || !strings.HasSuffix(err.Error(), link) {
			t.Errorf("%s: %v", name, err)
		}
		if _, ok := errors.AsType[*ai.ItemError](err); !ok {
			t.Errorf("%s: %T", name, err)
		}
	}
	for _, name := range []string{"tools/link.py", "tools/inside/x.py", "tools/outside/secret.py", "../x",
		"/etc/passwd", `tools\ok.py`} {
		if f, err := s.FS.Open(name); err == nil {
			f.Close()
			t.Errorf("%s can be opened", name)
		}
		if _, err := fs.ReadDir(s.FS, name); err == nil {
			t.Errorf("%s can be listed", name)
		}
		if info, err := fs.Lstat(s.FS, name); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s can be looked at", name)
		}
		if _, err := fs.ReadLink(s.FS, name); err == nil {
			t.Errorf("%s can be followed", name)
		}
	}
}

// TestUnreadable: what can't be read is reported, and the others are listed.
func TestUnreadable(t *testing.T) {
	s := space("project", files{"tools/a.py": pyTool("a", python), "tools/b/x.py": pyTool("b/x", python),
		"tools/c.py": pyTool("c", python)})
	s.FS = broken{s.FS.(fstest.MapFS), map[string]bool{"tools/b": true, "tools/c.py": true}}
	v := view(t, noOverride, s)
	names, problems := list(t, v)
	wantLines(t, "files", names, "project tool:a a.py", "project tool:c c.py")
	wantLines(t, "problems", problems, `tools/b: "project/tools/b": broken`)
	_, err := v.Find(t.Context(), ref("tool:c"))
	wantError(t, err, `"project/tools/c.py": broken`)
	if !errors.Is(err, errBroken) {
		t.Error("the reason is lost")
	}
}

var errBroken = errors.New("broken")

// broken fails to open some names, and shows directories of others only by name.
type broken struct {
	fstest.MapFS
	bad map[string]bool
}

func (b broken) Open(name string) (fs.File, error) {
	if b.bad[name] {
		return nil, errBroken
	}
	return b.MapFS.Open(name)
}

func (b broken) ReadDir(name string) ([]fs.DirEntry, error) {
	if b.bad[name] {
		return nil, errBroken
	}
	return b.MapFS.ReadDir(name)
}

func TestSpecialFiles(t *testing.T) {
	m := files{"tools/a.py": pyTool("a", python)}.fs()
	m["tools/fifo.py"] = &fstest.MapFile{Mode: fs.ModeNamedPipe | 0o644}
	m["tools/dir.py/x.py"] = &fstest.MapFile{Data: []byte(pyTool("dir.py/x", python))}
	m["tools/large.py"] = &fstest.MapFile{Data: append([]byte(pyTool("large", python)),
		make([]byte, parse.MaxFile)...)}
	s := space("project", nil)
	s.FS = m
	v := view(t, noOverride, s)
	names, problems := list(t, v)
	wantLines(t, "files", names, "project tool:a a.py", "project tool:dir.py/x dir.py/x.py",
		"project tool:large large.py")
	wantLines(t, "problems", problems, `tools/fifo.py: "project/tools/fifo.py": is not a regular file`)
	_, err := v.Find(t.Context(), ref("tool:fifo"))
	wantError(t, err, `"project/tools/fifo.py": is not a regular file`)
	_, err = v.Find(t.Context(), ref("tool:large"))
	wantError(t, err, `"project/tools/large.py": is larger than the 8 MiB that an item may have`)
	if _, err := v.Find(t.Context(), ref("tool:dir")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory: %v", err)
	}
	if _, err := v.Find(t.Context(), ref("tool:a.py/x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("below a file: %v", err)
	}
	it := find(t, v, "tool:dir.py/x")
	if it.Path != "tools/dir.py/x.py" {
		t.Errorf("got %s", it.Path)
	}
}

func TestStat(t *testing.T) {
	s := onDisk(t, files{"tools/a.py": pyTool("a", python)})
	v := view(t, noOverride, s)
	stat := func() statcache.Stamp {
		l, err := v.Files(t.Context(), "tool")
		if err != nil {
			t.Fatal(err)
		}
		return l.Files[0].Stat
	}
	before := stat()
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
		if before.Size == 0 || before.Mtime == 0 || before.Ctime == 0 || before.Ino == 0 {
			t.Errorf("got %+v", before)
		}
		write(t, filepath.Join(s.Dir, "tools/b"), pyTool("a", python)+"# longer\n")
		if err := os.Rename(filepath.Join(s.Dir, "tools/b"), filepath.Join(s.Dir, "tools/a.py")); err != nil {
			t.Fatal(err)
		}
		if stat() == before {
			t.Error("another file in its place looks the same")
		}
	}
	if got := find(t, v, "tool:a").Stat; got != stat() {
		t.Errorf("found with %+v, listed with %+v", got, stat())
	}
}

func TestCancelled(t *testing.T) {
	v := view(t, noOverride, space("project", files{"tools/a.py": pyTool("a", python)}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Files(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Files: %v", err)
	}
	if _, err := v.Find(ctx, ref("tool:a")); !errors.Is(err, context.Canceled) {
		t.Errorf("Find: %v", err)
	}
	if _, err := ai.Walk(ctx, v, ref("tool:a")); !errors.Is(err, context.Canceled) {
		t.Errorf("Walk: %v", err)
	}
	if _, err := ai.NewView(ctx, ai.Options{Spaces: []*ai.Space{stdSpace()}}); !errors.Is(err, context.Canceled) {
		t.Errorf("NewView: %v", err)
	}
}

func TestOpenDir(t *testing.T) {
	if _, err := ai.OpenDir(filepath.Join(t.TempDir(), "none"), "project", ai.Project); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := stdSpace().Close(); err != nil {
		t.Error(err)
	}
	for level, want := range map[ai.Level]string{ai.System: "system", ai.User: "user", ai.Project: "project"} {
		if level.String() != want {
			t.Errorf("got %s", level)
		}
	}
}
