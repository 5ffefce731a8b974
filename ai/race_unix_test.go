//go:build unix

package ai_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
)

// TestFIFO: opening a FIFO waits for a writer, so none is opened.
func TestFIFO(t *testing.T) {
	s := onDisk(t, files{"tools/a/__init__.py": "", "tools/a/a.py": pyTool("a/a", python)})
	for _, name := range []string{"tools/fifo.py", "tools/a/fifo"} {
		if err := syscall.Mkfifo(filepath.Join(s.Dir, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		v := view(t, noOverride, s)
		if _, err := v.Find(t.Context(), ref("tool:fifo")); err == nil ||
			!strings.HasSuffix(err.Error(), "is not a regular file") {
			t.Errorf("found: %v", err)
		}
		_, problems := list(t, v)
		wantLines(t, "problems", problems, `tools/a/fifo: "./tools/a/fifo": is not a regular file`,
			`tools/fifo.py: "./tools/fifo.py": is not a regular file`)
		if _, err := admit(t, v, trust(t, noOverride), "tool:a/a"); err == nil ||
			!strings.HasSuffix(err.Error(), `"fifo": is neither a file nor a directory`) {
			t.Errorf("admitted: %v", err)
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("a reader waits")
	}
}

// meanwhile does something again and again until what it returns is called.
func meanwhile(t *testing.T, do func(i int) error) (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := do(i); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

// TestSwapped puts a link to another place where a directory is, again and again, while items are read.
func TestSwapped(t *testing.T) {
	s := onDisk(t, files{"tools/d/x.py": pyTool("d/x", python), "tools/inside/x.py": pyTool("inside/x", python)})
	outside := t.TempDir()
	write(t, filepath.Join(outside, "x.py"), pyTool("outside", python))
	v := view(t, noOverride, s)
	in := func(name string) string { return filepath.Join(s.Dir, "tools", name) }
	end := meanwhile(t, func(i int) error {
		to := []string{"inside", outside}[i%2]
		// No other process overtakes the steps: what they leave is a directory or a link.
		return errors.Join(os.Rename(in("d"), in("aside")), os.Symlink(to, in("d")), os.Remove(in("d")),
			os.Rename(in("aside"), in("d")))
	})
	for range 2000 {
		it, err := v.Resolve(t.Context(), model.Ref{Kind: "tool", ID: "d/x"}, nil)
		if err == nil && it.Model.Category != "d" {
			t.Errorf("read the category %q", it.Model.Category)
		}
	}
	end()
}

// TestReplaced reads an item while it is replaced by another file again and again: it is one of them.
func TestReplaced(t *testing.T) {
	s := onDisk(t, files{"tools/d/x.py": pyTool("d/x", python)})
	path := filepath.Join(s.Dir, "tools/d/x.py")
	v := view(t, noOverride, s)
	end := meanwhile(t, func(int) error {
		write(t, path+"~", pyTool("d/x", python))
		return os.Rename(path+"~", path)
	})
	for range 5000 {
		if _, err := v.Resolve(t.Context(), model.Ref{Kind: "tool", ID: "d/x"}, nil); err != nil {
			t.Error(err)
			break
		}
	}
	end()
}

// TestSwappedTree swaps a directory of helpers as TestSwapped does: its tree stays as it was, or there is none.
func TestSwappedTree(t *testing.T) {
	s := onDisk(t, files{"tools/d/x.py": pyTool("d/x", python), "tools/d/__init__.py": "",
		"tools/d/lib/a.py": "a = 1\n", "tools/inside/a.py": "a = 2\n"})
	outside := t.TempDir()
	write(t, filepath.Join(outside, "a.py"), "a = 3\n")
	v := view(t, noOverride, s)
	it := find(t, v, "tool:d/x")
	want, err := ai.NewAdmitter(v, nil).Tree(t.Context(), it)
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(s.Dir, "tools/d", name) }
	end := meanwhile(t, func(i int) error {
		to := []string{"../inside", outside}[i%2]
		return errors.Join(os.Rename(in("lib"), in("../aside")), os.Symlink(to, in("lib")), os.Remove(in("lib")),
			os.Rename(in("../aside"), in("lib")))
	})
	for range 300 {
		got, err := ai.NewAdmitter(v, nil).Tree(t.Context(), it)
		// In the middle of a change the directory isn't there at all.
		if err == nil && got.Digest != want.Digest && len(got.Files) != 1 {
			t.Errorf("read %v", got.Files)
		}
	}
	end()
}
