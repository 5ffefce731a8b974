//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// filesBelow reads what is below a directory; nothing if there is none.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		all[rel] = string(b)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return all
}

// TestSkillsKilled kills rye with SIGKILL at random moments of import and export. What was not acknowledged isn't
// used, and the same command completes it: nothing of what died is left, and nothing of the version before.
func TestSkillsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	h := newTrustHome(t)
	random := rand.New(rand.NewPCG(11, 12))
	p := filepath.Join(h.dir, "p")
	h.must("init", p)
	const tool, directive = "tool:skills/greet/skill", "directive:skills/greet"
	source := filepath.Join(h.dir, "greet")
	// version writes the files of one: some stay, some change, and each other version has a file where a directory
	// was.
	version := func(n int) map[string]string {
		if err := os.RemoveAll(source); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{
			"SKILL.md":  fmt.Sprintf("---\nname: greet\ndescription: Greets\n---\nGreet %d times.\n", n),
			"stays.txt": "It stays.\n"}
		for i := range 8 {
			files[fmt.Sprintf("references/%d.md", i+n%2*4)] = strings.Repeat(fmt.Sprint(n, "\n"), 1000)
		}
		files[[]string{"lib", "lib/a"}[n%2]] = "x"
		for name, text := range files {
			name = filepath.Join(source, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return files
	}
	same := func(round int, dir string, want map[string]string) {
		t.Helper()
		if have := filesBelow(t, dir); !maps.Equal(have, want) {
			t.Fatalf("round %d: %s has other files than it should", round, dir)
		}
	}
	files := version(0)
	began := time.Now()
	h.must("import", "skill", source, "-C", p)
	longest := 2 * time.Since(began)
	h.must("sign", tool, directive, "-C", p)
	h.must("lock", "-C", p)
	client := filepath.Join(p, ".claude", "skills")
	const rounds = 6
	killed := 0
	kill := func(args ...string) {
		if !h.killed(time.Duration(random.Int64N(int64(longest))), append(args, "-C", p)...) {
			killed++
		}
	}
	for round := 1; round <= rounds; round++ {
		before := files
		files = version(round)
		kill("import", "skill", source)
		// The one before, or nothing: what is half replaced isn't signed.
		out := filepath.Join(h.dir, fmt.Sprint("half", round))
		if err := h.command("export", "skill", tool, out, "-C", p).Run(); err == nil {
			same(round, filepath.Join(out, "greet"), before)
		}
		h.must("import", "skill", source, "-C", p)
		same(round, filepath.Join(p, ".ai", "tools", "skills", "greet", "_files"), files)
		h.must("sign", tool, directive, "-C", p)
		h.must("lock", "-C", p)

		kill("export", "skill", tool, "--to", "claude")
		h.must("export", "skill", tool, "--to", "claude", "-C", p)
		h.must("verify", "--installed", "-C", p)
		same(round, filepath.Join(client, "greet"), files)
		out = filepath.Join(h.dir, fmt.Sprint("whole", round))
		kill("export", "skill", tool, out)
		if _, err := os.Stat(filepath.Join(out, "greet")); err == nil {
			same(round, filepath.Join(out, "greet"), files)
		}
		if round%3 == 0 {
			kill("export", "skill", tool, "--to", "claude", "--remove")
			if err := h.command("export", "skill", tool, "--to", "claude", "--remove", "-C", p).Run(); err != nil {
				h.must("verify", "--installed", "-C", p) // it was done
			}
			same(round, client, map[string]string{})
		}
	}
	if killed == 0 {
		t.Error("nothing was killed before it had ended")
	}
}
