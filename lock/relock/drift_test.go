package relock_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/drift"
)

// drift is what is different now, one in a line.
func (w *world) drift(s *lock.Set, refs ...string) string {
	w.Helper()
	working := w.view()
	admit := ai.NewAdmitter(working, w.trust())
	admit.KeepTrees()
	var named []model.Ref
	for _, text := range refs {
		named = append(named, ref(text))
	}
	found, err := drift.Find(w.Context(), s, drift.Options{Pinned: w.use(s).view, Working: working, Admit: admit},
		named...)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, d := range found {
		lines = append(lines, fmt.Sprintf("%s %s", d.Kind, d))
	}
	return strings.Join(lines, "\n")
}

func TestDrift(t *testing.T) {
	const help = "tools/acme/shop/lib/help.py"
	short := func(text string) string { return cas.Sum([]byte(text)).Short() }
	hello := "tool:acme/hello"
	for name, c := range map[string]struct {
		change func(w *world, p fstest.MapFS)
		refs   []string
		want   string // $NAME is how a file is pinned, and @NAME what it is now, both in short
	}{
		"nothing": {},
		"nothing of this": {change: func(w *world, p fstest.MapFS) {
			p[help].Data = []byte("x = 2\n")
		}, refs: []string{hello}},
		"an unpinned file": {change: func(w *world, p fstest.MapFS) { delete(p, "tools/acme/unused.sh") }},
		"an item": {change: func(w *world, p fstest.MapFS) {
			w.edit("tools/acme/hello.sh", "echo hello", "echo again")
		}, refs: []string{hello},
			want: `changed "tool:acme/hello": "tools/acme/hello.sh" is locked as $tools/acme/hello.sh, but is @tools/acme/hello.sh`},
		"line endings": {change: func(w *world, p fstest.MapFS) {
			for _, name := range []string{"tools/acme/hello.sh", "knowledge/acme/note.md", help} {
				p[name].Data = []byte(strings.ReplaceAll(string(p[name].Data), "\n", "\r\n"))
			}
		}, want: `changed "knowledge:acme/note": "knowledge/acme/note.md" is locked as $knowledge/acme/note.md, but is @knowledge/acme/note.md: only line endings differ
changed "tool:acme/hello": "tools/acme/hello.sh" is locked as $tools/acme/hello.sh, but is @tools/acme/hello.sh: only line endings differ
changed "tool:acme/shop/run": "tools/acme/shop/lib/help.py" is locked as $tools/acme/shop/lib/help.py, but is @tools/acme/shop/lib/help.py: only line endings differ`},
		"carriage returns": {change: func(w *world, p fstest.MapFS) {
			p[help].Data = []byte("x\r = 1\n\r")
		}, refs: []string{"tool:acme/shop/walk"},
			want: `changed "tool:acme/shop/walk": "tools/acme/shop/lib/help.py" is locked as $tools/acme/shop/lib/help.py, but is @tools/acme/shop/lib/help.py`},
		"modes": {change: func(w *world, p fstest.MapFS) {
			p["tools/acme/hello.sh"].Mode, p["tools/acme/shop/lib/go.sh"].Mode = 0o644, 0o600
		}, want: `changed "tool:acme/hello": the executable bit of "tools/acme/hello.sh" differs
changed "tool:acme/shop/run": the executable bit of "tools/acme/shop/lib/go.sh" differs`},
		"gone": {change: func(w *world, p fstest.MapFS) {
			delete(p, "tools/acme/hello.sh")
			delete(p, help)
			delete(p, "config/net.yaml")
		}, want: `gone "config:net": "config/net.yaml" is missing
gone "tool:acme/hello": "tools/acme/hello.sh" is missing
gone "tool:acme/shop/run": "tools/acme/shop/lib/help.py" is missing`},
		"a directory": {change: func(w *world, p fstest.MapFS) {
			p["tools/acme/hello.sh/x"] = &fstest.MapFile{}
			delete(p, "tools/acme/hello.sh")
		}, want: `unreadable "tool:acme/hello": "project/tools/acme/hello.sh": not a regular file`},
		"a link": {change: func(w *world, p fstest.MapFS) {
			p["tools/acme/hello.sh"] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte("/etc/passwd")}
			p["knowledge/acme/see.md"] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte("/etc/passwd")}
		}, want: `unreadable "tool:acme/hello": "project/tools/acme/hello.sh": not a regular file`},
		"everything": {change: func(w *world, p fstest.MapFS) {
			clear(p)
		}, refs: []string{hello, "knowledge:acme/note"},
			want: `gone "config:net": "config/net.yaml" is missing
gone "knowledge:acme/note": "knowledge/acme/note.md" is missing
gone "tool:acme/hello": "tools/acme/hello.sh" is missing`},
		"no project": {change: func(w *world, p fstest.MapFS) {
			delete(w.spaces, "project")
		}, refs: []string{hello, "tool:acme/base/fetch"},
			want: `gone "config:net": "config/net.yaml" is missing
gone "tool:acme/hello": "tools/acme/hello.sh" is missing`},
		"a new file of a tree": {change: func(w *world, p fstest.MapFS) {
			p["tools/acme/shop/more.txt"] = &fstest.MapFile{Data: []byte("a")}
		},
			want: `added "tool:acme/shop/run": "tools/acme/shop/more.txt" is a new file of the tool, not in the lock`},
		"a tool gets a tree": {change: func(w *world, p fstest.MapFS) {
			p["tools/acme/hello.yaml"] = &fstest.MapFile{Data: []byte("a: 1\n")}
		}},
		"a tool of the tree": {change: func(w *world, p fstest.MapFS) {
			p["tools/acme/shop/idle.py"].Data = []byte("x")
		}, refs: []string{"tool:acme/shop/walk"},
			want: `changed "tool:acme/shop/walk": "tools/acme/shop/idle.py" is locked as $tools/acme/shop/idle.py, but is @tools/acme/shop/idle.py`},
		"no marker": {change: func(w *world, p fstest.MapFS) { delete(p, "tools/acme/shop/__init__.py") },
			want: `gone "tool:acme/shop/run": "tools/acme/shop/__init__.py" is missing`},
		"a file that no tree may have": {change: func(w *world, p fstest.MapFS) {
			p["tools/acme/shop/a|b"] = &fstest.MapFile{}
		}, refs: []string{"tool:acme/shop/run"},
			want: `unreadable "tool:acme/shop/run": "project/tools/acme/shop": "a|b": path "a|b" has '|' in it, which some systems don't allow in a name`},
		"an executor": {change: func(w *world, p fstest.MapFS) {
			p["tools/rye/core/runtimes/bash_runtime.yaml"] = &fstest.MapFile{Data: []byte(tool(bash,
				"rye/core/primitives/subprocess"))}
		}, refs: []string{hello}, want: `unpinned "tool:` + bash +
			`": "tools/rye/core/runtimes/bash_runtime.yaml" is not in the lock but would be used`},
		"a chain that is none": {change: func(w *world, p fstest.MapFS) {
			p["tools/rye/core/runtimes/python_script_runtime.yaml"] = &fstest.MapFile{Data: []byte(tool(python,
				"rye/core/primitives/none"))}
		}, refs: []string{"tool:acme/shop/run"}, want: `unpinned "tool:` + python +
			`": "tools/rye/core/runtimes/python_script_runtime.yaml" is not in the lock but would be used`},
		"not its executor": {change: func(w *world, p fstest.MapFS) {
			p["tools/rye/core/runtimes/python_script_runtime.yaml"] = &fstest.MapFile{Data: []byte(tool(python,
				"rye/core/primitives/subprocess"))}
		}, refs: []string{hello}},
		"in front of a bundle": {change: func(w *world, p fstest.MapFS) {
			p["knowledge/see.md"] = &fstest.MapFile{Data: []byte(note("see"))}
			p["tools/acme/base/fetch.sh"] = &fstest.MapFile{Data: []byte(shTool("acme/base/fetch"))}
			p["tools/acme/base/fetch.js"] = &fstest.MapFile{Data: []byte("// an asset\n")}
		}, want: `unpinned "knowledge:see": "knowledge/see.md" is not in the lock but would be used
unpinned "tool:acme/base/fetch": "tools/acme/base/fetch.sh" is not in the lock but would be used`},
		"two of one id": {change: func(w *world, p fstest.MapFS) {
			p["tools/acme/hello.py"] = &fstest.MapFile{Data: []byte(pyTool("acme/hello"))}
		},
			want: `unpinned "tool:acme/hello": "tools/acme/hello.py" is not in the lock but would be used`},
		"too large to tell": {change: func(w *world, p fstest.MapFS) {
			p["knowledge/see.md"] = &fstest.MapFile{Data: make([]byte, 9<<20)}
		},
			want: `unreadable "knowledge:see": "project/knowledge/see.md": is larger than the 8 MiB that an item may have`},
		"a config": {change: func(w *world, p fstest.MapFS) {
			p["config/more.yaml"] = &fstest.MapFile{Data: []byte("a: 1\n")}
		}, refs: []string{hello},
			want: `unpinned "config:more": "config/more.yaml" is not in the lock but would be used`},
		"config that can't be read": {change: func(w *world, p fstest.MapFS) {
			p["config/more.YAML"] = &fstest.MapFile{}
		}, refs: []string{hello},
			want: `unreadable "project/config/more.YAML": has the extension ".YAML", which a config has in lower case`},
		"not pinned": {refs: []string{"tool:acme/unused"}, want: `"tool:acme/unused" is not locked`},
	} {
		t.Run(name, func(t *testing.T) {
			w := shop(t).build()
			s := w.set()
			want := c.want
			replace := func(sign string) {
				for path, f := range w.project() {
					want = strings.ReplaceAll(want, sign+path, short(string(f.Data)))
				}
			}
			replace("$")
			if c.change != nil {
				c.change(w, w.project())
			}
			if w.spaces["project"] != nil {
				replace("@")
			}
			if got := w.drift(s, c.refs...); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestDriftOfKinds: an extractor of the project takes the place of one that was pinned.
func TestDriftOfKinds(t *testing.T) {
	w := shop(t)
	w.policy = "\noverride:\n  - \"**\"\n"
	w.files[base]["tools/rye/core/extractors/prompt_extractor.yaml"] = prompt
	w.files["project"]["prompts/acme/hi.txt"] = "# Hi\n"
	w.roots = []string{"prompt:acme/hi"}
	w.build()
	s := w.set()
	if got := w.drift(s); got != "" {
		t.Error(got)
	}
	w.project()["tools/rye/core/extractors/other_extractor.yaml"] = &fstest.MapFile{
		Data: []byte(strings.Replace(prompt, "'^# (.*)$'", "'^(.*)$'", 1)), Mode: 0o644}
	w.resign()
	if got, want := w.drift(s, "prompt:acme/hi"),
		`unpinned "tool:rye/core/extractors/other_extractor": "" is not in the lock but would be used`; got != want {
		t.Errorf("got %s", got)
	}
}

// TestDriftIsBounded: what was stopped says so, and finds nothing.
func TestDriftIsBounded(t *testing.T) {
	w := shop(t).build()
	s := w.set()
	working := w.view()
	o := drift.Options{Pinned: w.use(s).view, Working: working, Admit: ai.NewAdmitter(working, w.trust())}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if found, err := drift.Find(ctx, s, o); !errors.Is(err, context.Canceled) || found != nil {
		t.Errorf("got %v, %v", found, err)
	}
	if d := (&drift.Difference{Kind: drift.Unreadable, Err: fs.ErrPermission}); !errors.Is(d, fs.ErrPermission) {
		t.Error("it isn't said why")
	}
	// The same is found however often it is looked.
	for name := range w.project() {
		w.project()[name].Data = append(slices.Clone(w.project()[name].Data), '\n')
	}
	first := w.drift(s)
	for range 5 {
		if again := w.drift(s); again != first || again == "" {
			t.Errorf("got\n%s\nthen\n%s", first, again)
		}
	}
}
