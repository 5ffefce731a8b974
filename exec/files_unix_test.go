//go:build unix

package exec_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// TestLinks: the author of a project can't decide with links or special files what a call gets.
func TestLinks(t *testing.T) {
	for name, c := range map[string]struct{ files, bad string }{
		"a link, to read":      {"{read: [link]}", `"link" is a symbolic link`},
		"a link, to write":     {"{write: [link]}", `"link" is a symbolic link`},
		"a link inside":        {"{read: [inside]}", `"inside" is a symbolic link`},
		"behind a link":        {"{read: [link/secret]}", ""},
		"behind a link inside": {"{write: [inside/x]}", `"inside" is a symbolic link`},
		"outputs are a link":   {"{write: [.ai/outputs/x]}", ""},
		"a fifo":               {"{read: [fifo]}", `"fifo" is neither a file nor a directory`},
	} {
		w := newWorld(t)
		w.put(map[string]string{"docs/x": ""})
		out := filepath.Join(w.dir, "outside")
		if err := errors.Join(os.Mkdir(out, 0o700), os.WriteFile(filepath.Join(out, "secret"), nil, 0o600),
			os.Symlink(out, filepath.Join(w.project, "link")),
			os.Symlink("docs", filepath.Join(w.project, "inside")),
			os.Symlink(out, filepath.Join(w.project, ".ai/outputs")),
			syscall.Mkfifo(filepath.Join(w.project, "fifo"), 0o600)); err != nil {
			t.Fatal(err)
		}
		e := w.with("files: " + c.files).refused(call(x, nil))
		if fault.CodeOf(e) != fault.Denied || !strings.Contains(e.Error(), c.bad) {
			t.Errorf("%s: %v", name, e)
		}
		if entries, err := os.ReadDir(out); err != nil || len(entries) != 1 {
			t.Errorf("%s: outside there are %v, %v", name, entries, err)
		}
	}
	// A missing path grants nothing, even behind a link.
	w := newWorld(t)
	w.put(map[string]string{"docs/x": ""})
	if err := os.Symlink("docs", filepath.Join(w.project, "inside")); err != nil {
		t.Fatal(err)
	}
	if read := w.with("files: {read: [inside/none]}").prepare(call(x,
		nil)).Action.Sandbox.Read; slices.ContainsFunc(read, func(p string) bool {
		return strings.HasPrefix(p, w.project)
	}) {
		t.Errorf("%q may be read", read)
	}
	// "." doesn't grant links.
	w = newWorld(t)
	w.put(map[string]string{"docs/x": ""})
	if err := os.Symlink(w.dir, filepath.Join(w.project, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range w.with("files: {write: ['.']}").prepare(call(x, nil)).Action.Sandbox.Write {
		if filepath.Base(path) == "link" {
			t.Errorf("%s may be written", path)
		}
	}
}
