package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSearchMemory: making the index of 24 MB of text needs less than 125 MiB. It was found to need 94, 160 when all
// segments are in memory, and 200 when they are written in one transaction. The answer is too long for the pipe, so
// that the process is still there when its peak is looked at.
func TestSearchMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("one process alone")
	}
	h := newTrustHome(t)
	project := filepath.Join(h.dir, "p")
	dir := filepath.Join(project, ".ai", "knowledge")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const items, lines = 500, 500
	r := rand.New(rand.NewPCG(5, 6))
	pool := make([]string, 2000)
	for i := range pool {
		for range 12 {
			pool[i] += fmt.Sprintf("word%d ", min(r.IntN(9000), r.IntN(9000)))
		}
		pool[i] += "\n"
	}
	for i := range items {
		var b strings.Builder
		fmt.Fprintf(&b,
			"```yaml\nid: k%d\ntitle: About k%d\nversion: \"1.0.0\"\nentry_type: reference\ncategory: a\ntags: [a]\n```\n\n",
			i, i)
		for range lines {
			b.WriteString(pool[r.IntN(len(pool))])
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("k%d.md", i)), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := h.command("search", "about", "--limit", fmt.Sprint(items), "-C", project)
	cmd.Env = append(cmd.Env, "GOMAXPROCS=2") // each has a segment that it makes
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answer := bufio.NewReader(out)
	if _, err := answer.Peek(1); err != nil {
		t.Fatal(err)
	}
	kib := ownPeak(cmd.Process.Pid)
	n, err := io.Copy(io.Discard, answer)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err != nil || n < 100_000 {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if kib == 0 || kib > 125<<10 {
		t.Errorf("%d MiB", kib>>10)
	}
}

// ownPeak is how many KiB a process has had at most, without what it has mapped of files: of its own code the binary
// of the tests has more.
func ownPeak(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	field := func(name string) (kib int64) {
		_, rest, _ := strings.Cut(string(status), name+":")
		_, _ = fmt.Sscan(rest, &kib)
		return kib
	}
	return field("VmHWM") - field("RssFile") - field("RssShmem")
}
