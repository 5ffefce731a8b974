//go:build peers && linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// mount mounts a tmpfs of so many KiB, as root.
func mount(t *testing.T, kib int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kib)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// leave fills the file system of a directory until so many KiB are left.
func leave(t *testing.T, dir string, kib int64) {
	t.Helper()
	filler := filepath.Join(dir, "filler")
	f, err := os.OpenFile(filler, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4096)
	for {
		if _, err = f.Write(page); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	fi, err := f.Stat()
	if err == nil {
		err = f.Truncate(max(0, fi.Size()-kib<<10))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// state is every file below the project but the filler, with its bytes and mode.
func (p *lockedProject) files() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(p.project, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "filler" {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = fi.Mode().String() + string(b)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// TestLockFullDisk runs what writes into a project on a file system on which there is less and less room. What there
// is no room for is refused, and then nothing has changed; as soon as there is room, it goes through.
func TestLockFullDisk(t *testing.T) {
	h := newTrustHome(t)
	p := h.lockedProject(filepath.Join(mount(t, 4096), "p"), 40)
	p.in("lock")
	p.in("vendor")
	change := map[string]func(){
		"sign": func() {
			for _, name := range p.items {
				p.put(name, toolIn("mine", "third"))
			}
		},
		"lock": func() {
			for _, name := range p.items {
				p.put(name, toolIn("mine", "second"))
			}
			p.in("sign", "--all")
		},
		"vendor": func() {},
		"restore": func() {
			for n, name := range p.items {
				if n%2 == 0 {
					p.put(name, "# another's own\n")
				} else if err := os.Remove(p.path(name)); err != nil {
					t.Fatal(err)
				}
			}
		},
	}
	for _, args := range [][]string{{"sign", "--all"}, {"lock"}, {"vendor"}, {"restore", "**"}} {
		change[args[0]]()
		before, refused, done := p.files(), 0, false
		for kib := int64(0); kib <= 512 && !done; kib += 4 + kib/2/4*4 {
			leave(t, p.project, kib)
			out, err := p.command(append(args, "-C", p.project)...).CombinedOutput()
			if left := p.leftovers(); len(left) > 0 {
				t.Fatalf("%q with %d KiB: left: %q", args, kib, left)
			}
			if done = err == nil; done {
				continue
			}
			refused++
			if !strings.Contains(string(out), `"suggestion":"df -h"`) {
				t.Fatalf("%q with %d KiB: %v: %s", args, kib, err, out)
			}
			now := p.files()
			for path, text := range before {
				if now[path] != text {
					t.Fatalf("%q with %d KiB: %q was changed", args, kib, path)
				}
			}
			if len(now) != len(before) {
				t.Fatalf("%q with %d KiB: there were %d files, and are %d", args, kib, len(before), len(now))
			}
		}
		if refused == 0 || !done {
			t.Errorf("%q: refused %d times, and in the end: %v", args, refused, done)
		}
		if err := os.Remove(filepath.Join(p.project, "filler")); err != nil {
			t.Fatal(err)
		}
	}
	p.in("lock", "--check")
	p.in("vendor", "--check")
}

// TestLockFullStore locks with a store, and then with a cache, on a full file system: the store is needed, and the
// lock stays the old one; the cache isn't.
func TestLockFullStore(t *testing.T) {
	p := newLockedProject(t, 40)
	p.in("lock")
	for _, name := range p.items {
		p.put(name, toolIn("mine", "second"))
	}
	p.in("sign", "--all")
	before, refused, done := p.files(), 0, false
	for kib := 64; kib <= 4096 && !done; kib += kib / 2 {
		dir := mount(t, kib)
		leave(t, dir, int64(kib-56))
		store := filepath.Join(dir, "store")
		out, err := p.command("--store", store, "lock", "-C", p.project).CombinedOutput()
		if done = err == nil; done {
			p.in("--store", store, "store", "fsck")
			continue
		}
		refused++
		if now := p.files(); !strings.Contains(string(out), `"suggestion":"df -h"`) || len(now) != len(before) ||
			now[p.path("rye.lock")] != before[p.path("rye.lock")] {
			t.Fatalf("%d KiB: %v: %s\n%v", kib, err, out, p.leftovers())
		}
	}
	if refused == 0 || !done {
		t.Errorf("refused %d times, and in the end: %v", refused, done)
	}
	dir := mount(t, 64)
	leave(t, dir, 0)
	for _, args := range [][]string{{"lock"}, {"lock", "--check"}, {"vendor"}, {"restore", "**"}} {
		c := p.command(append(args, "-C", p.project)...)
		c.Env = append(c.Env, "XDG_CACHE_HOME="+dir)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
}

// TestConfigReadOnly: a configuration that can't be written isn't said to be.
func TestConfigReadOnly(t *testing.T) {
	dir := mount(t, 1024)
	p := newTrustHome(t).lockedProject(filepath.Join(dir, "p"), 1)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	out, err := p.command("mcp", "config", "claude", "--write", "--yes", "-C", p.project).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the file system is read-only") ||
		strings.Contains(string(out), `"written":true`) {
		t.Errorf("%v: %s", err, out)
	}
}

// git runs git in the project, without anybody's configuration.
func (p *lockedProject) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = p.project
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@acme.example",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@acme.example")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p *lockedProject) mustGit(args ...string) string {
	p.t.Helper()
	out, err := p.git(args...)
	if err != nil {
		p.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return out
}

func (p *lockedProject) commit() {
	p.t.Helper()
	p.mustGit("add", "-A")
	p.mustGit("commit", "-q", "-m", "x")
}

// newRepository is a project that is committed, locked and vendored.
func newRepository(t *testing.T, items int) *lockedProject {
	p := newLockedProject(t, items)
	p.mustGit("init", "-q", "-b", "main")
	p.put(".gitattributes", "rye.lock text eol=lf\nrye.yaml text eol=lf\n.ai/** -text\n")
	p.in("lock")
	p.in("vendor")
	p.commit()
	return p
}

// branch changes, adds and removes items of a branch, locks and vendors.
func (p *lockedProject) branch(name string, changed, removed []string, added string) {
	p.t.Helper()
	p.mustGit("checkout", "-q", "-f", "-B", name, "main")
	for _, item := range changed {
		p.put(item, toolIn("mine", "changed by "+name))
	}
	for _, item := range removed {
		if err := os.Remove(p.path(item)); err != nil {
			p.t.Fatal(err)
		}
	}
	p.put(added, toolIn("mine", "added by "+name))
	p.in("sign", "--all")
	p.in("lock")
	p.in("vendor")
	p.commit()
}

// merged finds the lock of a merge good, or heals it, and checks that it is the one that is made of nothing.
func (p *lockedProject) merged(conflict bool) {
	p.t.Helper()
	if conflict {
		for _, args := range [][]string{{"lock"}, {"lock", "--check"}, {"vendor"}} {
			out, err := p.command(append(args, "-C", p.project)...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "lock --resolve\"") {
				p.t.Fatalf("%q of a merge that is left unfinished: %v: %s", args, err, out)
			}
		}
		p.in("lock", "--resolve")
	}
	p.in("lock", "--check")
	p.in("vendor")
	p.in("vendor", "--check")
	was := p.get("rye.lock")
	if err := os.Remove(p.path("rye.lock")); err != nil {
		p.t.Fatal(err)
	}
	p.in("lock")
	if now := p.get("rye.lock"); now != was {
		p.t.Fatalf("merged it is\n%s\nand made of nothing\n%s", was, now)
	}
}

// TestLockMerges merges branches that each locked and vendored, with real git: what merges clean is current, and the
// rest heals.
func TestLockMerges(t *testing.T) {
	p := newRepository(t, 60)
	random := rand.New(rand.NewPCG(11, 12))
	clean := 0
	const rounds = 10
	for round := range rounds {
		order := random.Perm(len(p.items))
		pick := func(from, to int) (out []string) {
			for _, n := range order[from:to] {
				out = append(out, p.items[n])
			}
			return out
		}
		p.branch("ours", pick(0, 2), pick(2, 3), fmt.Sprintf(".ai/tools/mine/t%dx.py", order[3]))
		p.branch("theirs", pick(4, 6), pick(6, 7), fmt.Sprintf(".ai/tools/mine/t%dy.py", order[7]))
		out, err := p.git("merge", "-q", "-m", "x", "ours")
		if err != nil && (strings.Count(out, "CONFLICT") != 1 || !strings.Contains(out, "rye.lock")) {
			t.Fatalf("round %d: not only rye.lock has a conflict: %s", round, out)
		}
		if err == nil {
			clean++
		}
		p.merged(err != nil)
	}
	t.Logf("%d of %d were merged clean", clean, rounds)
	if clean == 0 || clean == rounds {
		t.Errorf("%d of %d were merged clean", clean, rounds)
	}
}

// TestLockMergedBundles merges two branches that each add a bundle: after the conflict in rye.yaml is settled by hand,
// rye lock --resolve makes the lock.
func TestLockMergedBundles(t *testing.T) {
	p := newRepository(t, 3)
	for _, id := range []string{"one", "two"} {
		archive := p.archive(id, "1.0.0")
		p.mustGit("checkout", "-q", "-f", "-B", "with-"+id, "main")
		p.in("add", id, "--from", archive)
		p.in("vendor")
		p.commit()
	}
	if out, err := p.git("merge", "-q", "-m", "x", "with-one"); err == nil || !strings.Contains(out, "rye.yaml") ||
		!strings.Contains(out, "rye.lock") {
		t.Fatalf("there is no conflict: %v: %s", err, out)
	}
	if out, err := p.command("lock", "--resolve", "-C", p.project).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "rye.yaml") {
		t.Fatalf("rye.yaml isn't settled: %v: %s", err, out)
	}
	var settled []string
	for line := range strings.Lines(p.get("rye.yaml")) {
		if strings.Trim(line[:1], "<=>|") != "" &&
			!(line == "requires:\n" && strings.Contains(strings.Join(settled, ""), line)) {
			settled = append(settled, line)
		}
	}
	p.put("rye.yaml", strings.Join(settled, ""))
	p.merged(true)
	if l := p.get("rye.lock"); strings.Count(l, "  \"one\": ") != 2 || strings.Count(l, "  \"two\": ") != 2 {
		t.Errorf("rye.yaml is\n%s\nand rye.lock\n%s", p.get("rye.yaml"), l)
	}
}
