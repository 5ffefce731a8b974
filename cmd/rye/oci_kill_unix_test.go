//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rye-build/rye/cas/oci/ocitest"
)

// TestRegistryKilled kills rye with SIGKILL at every request of a push and of a pull. The tag names nothing or all of
// the bundle, the store has nothing of it by name or all, and the next run goes on.
func TestRegistryKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	h := newTrustHome(t)
	project := filepath.Join(h.dir, "p")
	for name, text := range map[string]string{".ai/tools/acme/x.py": itemText("x"),
		"docs/a.txt": strings.Repeat("some text\n", 600_000), "docs/b.txt": "b",
		"bundle.yaml": "id: acme\nversion: 1.0.0\nassets: [\"docs/*\"]\n"} {
		path := filepath.Join(project, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h.must("bundle", "create", "-C", project, "--sign", "tool:acme/x")
	// run runs rye and kills it at a request, before or after that is answered. It reports whether rye was done
	// before.
	run := func(d *ocitest.Registry, at int, late bool, args ...string) (done bool) {
		cmd := h.command(args...)
		var asked atomic.Int64
		kill := func() { cmd.Process.Signal(syscall.SIGKILL) }
		d.Mu.Lock()
		d.Cue = func(w http.ResponseWriter, r *http.Request) bool {
			if asked.Add(1) != int64(at) {
				return false
			}
			if late {
				go func() { <-r.Context().Done(); kill() }()
				return false
			}
			kill()
			return true
		}
		d.Mu.Unlock()
		out, err := cmd.CombinedOutput()
		d.Mu.Lock()
		d.Cue = nil
		d.Mu.Unlock()
		told := bytes.Contains(out, []byte(`"success":true`)) // and then killed, where that comes late
		if err != nil && len(out) > 0 && !(late && told) {
			t.Fatalf("%q: %v, %s", args, err, out)
		}
		return err == nil || told
	}
	steps := 0
	for at := 1; ; at++ {
		d := ocitest.New(t)
		d.Referrers = at%2 == 0
		to := "oci://" + d.Host() + "/acme/deploy"
		pushed := run(d, at, at%3 == 0, "bundle", "push", "-C", project, "acme", to)
		store := filepath.Join(h.dir, fmt.Sprintf("store%d", at))
		d.Mu.Lock()
		named := d.Tags["1.0.0"] != ""
		d.Mu.Unlock()
		if named {
			h.must("bundle", "pull", to, "--store", store+"-now")
		} else if pushed {
			t.Fatalf("step %d: the push was acknowledged", at)
		}
		h.must("bundle", "push", "-C", project, "acme", to)
		pulled := run(d, at, at%3 == 0, "bundle", "pull", to, "--store", store)
		if out := h.must("bundle", "list", "--all", "--store", store); pulled &&
			!strings.Contains(out, `"where":"store"`) {
			t.Fatalf("step %d: the pull was acknowledged: %s", at, out)
		}
		h.must("bundle", "pull", to, "--store", store)
		h.must("bundle", "verify", "acme@1.0.0", "--store", store)
		if steps = at; pushed && pulled && at%3 != 0 {
			break
		}
	}
	if steps < 8 {
		t.Errorf("only %d steps", steps)
	}
}
