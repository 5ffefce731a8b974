//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
)

// TestKilled kills rye with SIGKILL at random moments of put, gc, repack and fsck --repair, over and over on one
// store. After each, the store is sound, and every digest that was printed before is there.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	dir := t.TempDir()
	rye := func(args ...string) *exec.Cmd {
		cmd := exec.Command("rye", append([]string{"-q", "--store", filepath.Join(dir, "store")}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
		return cmd
	}
	random := rand.New(rand.NewPCG(1, 2))
	kept := make(map[string]string) // ref, and the digest that was printed for it
	killed := 0
	for round := range 60 {
		project := filepath.Join(dir, "project")
		writeProject(t, project, random)
		ref := fmt.Sprintf("r%d", random.IntN(4))
		line := [][]string{
			{"store", "put", "--ref", ref, project}, {"store", "put", "--ref", ref, project},
			{"store", "put", "--ref", ref, project},
			{"store", "gc", "--grace", "0s"}, {"store", "repack"}, {"store", "fsck", "--repair"},
		}[random.IntN(6)]
		cmd := rye(line...)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(random.IntN(40))*time.Millisecond, func() { cmd.Process.Kill() })
		if cmd.Wait() != nil {
			killed++
		}
		timer.Stop()
		if line[1] == "put" {
			if s := bufio.NewScanner(&out); s.Scan() {
				kept[ref] = s.Text()
			} else {
				delete(kept, ref) // not acknowledged: the ref is the old one or the new one
			}
		}
		checkKept(t, round, line, rye, kept)
	}
	if killed == 0 {
		t.Error("nothing was killed before it had ended")
	}
}

// writeProject makes a directory with some files that change and some that don't.
func writeProject(t *testing.T, dir string, random *rand.Rand) {
	t.Helper()
	for i := range 20 {
		path := filepath.Join(dir, fmt.Sprintf("d%d", i%4), fmt.Sprintf("f%d", i))
		text := strings.Repeat(fmt.Sprintf("line of %d\n", i), 1+i*i*40)
		if i%3 == 0 {
			text += fmt.Sprint(random.IntN(3))
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// checkKept looks that the store is sound and holds what was acknowledged.
func checkKept(t *testing.T, round int, line []string, rye func(...string) *exec.Cmd, kept map[string]string) {
	t.Helper()
	if len(kept) == 0 {
		return
	}
	if out, err := rye("store", "fsck").CombinedOutput(); err != nil {
		t.Fatalf("round %d, after %q: fsck: %v\n%s", round, line, err, out)
	}
	for ref, digest := range kept {
		if _, err := cas.ParseDigest(digest); err != nil {
			t.Fatalf("round %d: %q printed %q", round, line, digest)
		}
		out, err := rye("store", "refs", ref).CombinedOutput()
		if err != nil || !strings.Contains(string(out), digest) {
			t.Fatalf("round %d, after %q: the ref %s: %v, %s, want %s", round, line, ref, err, out, digest)
		}
		if out, err := rye("store", "tree", ref).CombinedOutput(); err != nil {
			t.Fatalf("round %d, after %q: %v\n%s", round, line, err, out)
		}
	}
}
