//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBundleKilled kills rye with SIGKILL at random moments of create, import and install. After each the manifest in
// the project and what is installed are whole, old or new, and what was acknowledged is there.
func TestBundleKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	h := newTrustHome(t)
	random := rand.New(rand.NewPCG(7, 8))
	project := filepath.Join(h.dir, "p")
	write := func(name, text string) {
		path := filepath.Join(project, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	version := func(n int) {
		write("bundle.yaml", fmt.Sprintf("id: acme\nversion: 1.%d.0\nassets: [\"docs/*\"]\n", n))
		for i := range 10 {
			write(fmt.Sprintf("docs/%d.txt", i), strings.Repeat(fmt.Sprintf("line of %d\n", i), 1+i*200)+fmt.Sprint(n))
		}
	}
	write(".ai/tools/acme/x.py", itemText("x"))
	version(0)
	h.must("bundle", "create", "-C", project, "--sign", "tool:acme/x")
	archive := func(n int) string { return filepath.Join(h.dir, fmt.Sprintf("%d.tar.zst", n)) }
	h.must("bundle", "export", "-C", project, "-o", archive(0))
	// Some are to be killed and some to end, however slow the machine and the race detector are.
	began := time.Now()
	h.must("bundle", "install", archive(0))
	longest := 2 * time.Since(began)
	const rounds = 24
	killed, now := 0, 0
	for round := 1; round <= rounds; round++ {
		version(round)
		after := func() time.Duration { return time.Duration(random.Int64N(int64(longest))) }
		if !h.killed(after(), "bundle", "create", "-C", project) {
			killed++
		} else if out := h.must("bundle", "list", "-C", project); !strings.Contains(out,
			fmt.Sprintf(`"version":"1.%d.0"`, round)) {
			t.Fatalf("round %d: create was acknowledged: %s", round, out)
		}
		// Whole, whichever it is: what isn't is an error here, not a difference.
		if out := h.must("bundle", "inspect", "-C", project, "acme"); !strings.Contains(out, `"signed_by":["`) {
			t.Fatalf("round %d: no signature: %s", round, out)
		}
		h.must("bundle", "create", "-C", project)
		h.must("bundle", "verify", "-C", project, "acme")
		h.must("bundle", "export", "-C", project, "-o", archive(round))
		if !h.killed(after(), "bundle", "import", archive(round)) {
			killed++
		}
		done := h.killed(after(), "bundle", "install", archive(round))
		if !done {
			killed++
		}
		out := h.must("bundle", "verify", "acme")
		is := func(n int) bool { return strings.Contains(out, fmt.Sprintf(`"version":"1.%d.0"`, n)) }
		switch {
		case is(round):
			now = round
		case done || !is(now):
			t.Fatalf("round %d, installed before: %d, acknowledged: %v: %s", round, now, done, out)
		}
		if round%6 == 0 {
			h.must("store", "gc", "--grace", "0s")
			h.must("store", "fsck")
		}
	}
	if killed == 0 || killed == 3*rounds {
		t.Errorf("%d of %d were killed before they had ended", killed, 3*rounds)
	}
}

// TestBundleTwice installs two versions from two processes at once: each is acknowledged or told why not, and what is
// installed in the end is whole.
func TestBundleTwice(t *testing.T) {
	h := newTrustHome(t)
	project := filepath.Join(h.dir, "p")
	tool := filepath.Join(project, ".ai", "tools", "acme", "x.py")
	if err := os.MkdirAll(filepath.Dir(tool), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tool, []byte(itemText("x")), 0o644); err != nil {
		t.Fatal(err)
	}
	var archives []string
	for n := range 4 {
		if err := os.WriteFile(filepath.Join(project, "bundle.yaml"),
			fmt.Appendf(nil, "id: acme\nversion: 1.%d.0\n", n), 0o644); err != nil {
			t.Fatal(err)
		}
		h.must("bundle", "create", "-C", project, "--sign", "tool:acme/x")
		archives = append(archives, filepath.Join(h.dir, fmt.Sprintf("%d.tar.zst", n)))
		h.must("bundle", "export", "-C", project, "-o", archives[n])
	}
	done := make(chan string)
	for _, name := range archives {
		go func() {
			out, err := h.command("bundle", "install", name).CombinedOutput()
			if err != nil && !strings.Contains(string(out), `"code":"ROLLBACK_DETECTED"`) {
				done <- fmt.Sprintf("%v: %s", err, out)
				return
			}
			done <- ""
		}()
	}
	for range archives {
		if wrong := <-done; wrong != "" {
			t.Error(wrong)
		}
	}
	if out := h.must("bundle", "verify", "acme"); !strings.Contains(out, `"version":"1.3.0"`) {
		t.Errorf("the newest was not installed: %s", out)
	}
}
