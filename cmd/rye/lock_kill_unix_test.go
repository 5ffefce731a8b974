//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/locks"
	"github.com/rye-build/rye/cmd/rye/paths"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
)

// A lockedProject is a project with items, beside some versions of bundles that it may use.
type lockedProject struct {
	trustHome
	project string
	items   []string // the files of its items, below the project
}

// newLockedProject makes a project with so many items, all signed, and nothing locked.
func newLockedProject(t *testing.T, items int) *lockedProject {
	h := newTrustHome(t)
	return h.lockedProject(filepath.Join(h.dir, "p"), items)
}

func (h trustHome) lockedProject(dir string, items int) *lockedProject {
	p := &lockedProject{h, dir, nil}
	p.put("rye.yaml", "name: p\nroots: [\"tool:mine/**\", \"tool:acme/**\"]\n")
	for n := range items {
		p.items = append(p.items, fmt.Sprintf(".ai/tools/mine/t%d.py", n))
		p.put(p.items[n], toolIn("mine", "first"))
	}
	p.must("sign", "--all", "-C", p.project)
	return p
}

func (p *lockedProject) path(name string) string {
	return filepath.Join(p.project, filepath.FromSlash(name))
}

func (p *lockedProject) put(name, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(p.path(name)), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(p.path(name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// get returns the bytes of a file, "" if there is none.
func (p *lockedProject) get(name string) string {
	p.t.Helper()
	b, err := os.ReadFile(p.path(name))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return string(b)
}

// in runs rye in the project.
func (p *lockedProject) in(args ...string) string {
	p.t.Helper()
	return p.must(append(args, "-C", p.project)...)
}

// archive makes a bundle of one tool, and returns its archive.
func (p *lockedProject) archive(id string, version string) string {
	p.t.Helper()
	dir := filepath.Join(p.dir, "sources", id)
	for name, text := range map[string]string{"bundle.yaml": fmt.Sprintf("id: %s\nversion: %s\n", id, version),
		".ai/tools/" + id + "/x.py": toolIn(id, version)} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	p.must("bundle", "create", "-C", dir, "--sign", "tool:"+id+"/x")
	to := filepath.Join(p.dir, fmt.Sprintf("%s-%s.tar.zst", id, version))
	p.must("bundle", "export", "-C", dir, "-o", to)
	return to
}

// wouldLock is the digest of the lock that rye lock would make now.
func (p *lockedProject) wouldLock() string {
	p.t.Helper()
	var ans struct{ Data locks.LockAnswer }
	if err := json.Unmarshal([]byte(p.in("lock", "--dry-run")), &ans); err != nil {
		p.t.Fatal(err)
	}
	return ans.Data.ID
}

// lockID is the digest of the lock that is there.
func (p *lockedProject) lockID() string { return cas.Sum([]byte(p.get("rye.lock"))).String() }

// leftovers are the files that are being written, below the project.
func (p *lockedProject) leftovers() (all []string) {
	p.t.Helper()
	err := filepath.WalkDir(p.project, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".rye-tmp-") {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// A killer runs commands and kills about every second one of them.
type killer struct {
	*lockedProject
	random      *rand.Rand
	longest     map[string]time.Duration
	runs, ended int
}

// learn measures how long a command takes on this machine, with whatever else runs there.
func (k *killer) learn(args ...string) {
	k.t.Helper()
	began := time.Now()
	k.in(args...)
	k.longest[args[0]] = 2 * time.Since(began)
}

// kill runs a command, and reports whether it had said that it was done before it was killed.
func (k *killer) kill(args ...string) (done bool) {
	k.t.Helper()
	done = k.killed(time.Duration(k.random.Int64N(int64(k.longest[args[0]]))), append(args, "-C", k.project)...)
	k.runs++
	if done {
		k.ended++
	}
	return done
}

// TestLockKilled kills rye with SIGKILL at random moments of lock, add, vendor, restore and fetch. After each every
// file is the old one or the new one, whole, what was acknowledged is there, and the same command goes through.
func TestLockKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	p := newLockedProject(t, 6)
	k := &killer{p, rand.New(rand.NewPCG(9, 10)), map[string]time.Duration{}, 0, 0}
	k.learn("lock")
	k.learn("vendor")
	k.learn("restore", "**")
	k.learn("fetch")
	k.learn("add", "acme@^1.0.0", "--from", p.archive("acme", "1.0.0"))
	k.in("vendor")
	const rounds = 10
	for round := 1; round <= rounds; round++ {
		for n := range 2 {
			p.put(p.items[(2*round+n)%len(p.items)], toolIn("mine", fmt.Sprint("round ", round)))
		}
		k.in("sign", "--all")
		k.lock(round)
		k.add(round)
		k.vendor(round)
		k.restore(round)
		if round%3 == 0 {
			k.fetch(round)
		}
	}
	if k.ended == 0 || k.ended == k.runs {
		t.Errorf("%d of %d had ended before they were killed", k.ended, k.runs)
	}
	k.swept()
}

func (k *killer) lock(round int) {
	k.t.Helper()
	old, next := k.lockID(), k.wouldLock()
	if old == next {
		k.t.Fatalf("round %d: nothing is to be locked", round)
	}
	done := k.kill("lock")
	if now := k.lockID(); now != next && (done || now != old) {
		k.t.Fatalf("round %d, acknowledged: %v: the lock is %s; before: %s, to be: %s", round, done, now, old, next)
	}
	k.in("lock")
	k.in("lock", "--check")
	if now := k.lockID(); now != next {
		k.t.Fatalf("round %d: the lock is %s, want %s", round, now, next)
	}
}

func (k *killer) add(round int) {
	k.t.Helper()
	before, lockBefore, version := k.get("rye.yaml"), k.get("rye.lock"), fmt.Sprintf("1.%d.0", round)
	args := []string{"add", "acme@^" + version, "--from", k.archive("acme", version), "--accept", "acme"}
	if k.in(append(args, "--dry-run")...); k.get("rye.yaml") != before || k.get("rye.lock") != lockBefore {
		k.t.Fatalf("round %d: a dry run changed something", round)
	}
	done := k.kill(args...)
	yaml, err := ryeyaml.Parse([]byte(k.get("rye.yaml")), "devel")
	if err != nil {
		k.t.Fatalf("round %d: rye.yaml: %v", round, err)
	}
	need, there := yaml.Requirement("acme")
	written := there && need.Text == "^"+version
	l, err := lockfile.Parse([]byte(k.get("rye.lock")))
	if err != nil {
		k.t.Fatalf("round %d: rye.lock: %v", round, err)
	}
	locked := l.Bundle("acme").Version == version
	switch {
	case done && !(written && locked):
		k.t.Fatalf("round %d: acknowledged, and rye.yaml says %v, rye.lock %v", round, written, locked)
	case locked && !written:
		k.t.Fatalf("round %d: the lock has what rye.yaml doesn't ask for", round)
	case !written && k.get("rye.yaml") != before, !locked && k.get("rye.lock") != lockBefore:
		k.t.Fatalf("round %d: neither the old files nor the new ones", round)
	}
	switch {
	case !written:
		k.in(args...)
	case !locked: // what was begun is found, and the lock follows
		k.in("lock", "--accept", "acme")
	}
	k.in("lock", "--check")
	if n := strings.Count(k.get("rye.yaml"), "acme"); !strings.Contains(k.get("rye.yaml"), version) ||
		n != strings.Count(before, "acme") {
		k.t.Fatalf("round %d: rye.yaml is\n%s", round, k.get("rye.yaml"))
	}
}

func (k *killer) vendor(round int) {
	k.t.Helper()
	done := k.kill("vendor")
	out, err := k.command("vendor", "--check", "-C", k.project).CombinedOutput()
	if done && err != nil || strings.Contains(string(out), "damaged") {
		k.t.Fatalf("round %d, acknowledged: %v: %v: %s", round, done, err, out)
	}
	k.in("vendor")
	k.in("vendor", "--check")
}

func (k *killer) restore(round int) {
	k.t.Helper()
	want := map[string]string{}
	for n, name := range k.items {
		want[name] = k.get(name)
		switch n % 3 {
		case 0:
			k.put(name, "# another's own\n")
		case 1:
			if err := os.Remove(k.path(name)); err != nil {
				k.t.Fatal(err)
			}
		}
	}
	done := k.kill("restore", "**")
	for n, name := range k.items {
		now := k.get(name)
		old := now == "# another's own\n" && n%3 == 0 || now == "" && n%3 == 1
		if now != want[name] && (done || !old) {
			k.t.Fatalf("round %d, acknowledged: %v: %s is %q", round, done, name, now)
		}
	}
	k.in("restore", "**")
	for _, name := range k.items {
		if k.get(name) != want[name] {
			k.t.Fatalf("round %d: %s is %q", round, name, k.get(name))
		}
	}
}

// TestRestoreKilled kills rye restore while it brings back a whole directory. It comes with all its files or not at
// all, and what was left of the attempt is gone after the next.
func TestRestoreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	p := newLockedProject(t, 40) // more than are made durable one by one
	k := &killer{p, rand.New(rand.NewPCG(11, 12)), map[string]time.Duration{}, 0, 0}
	k.in("lock")
	k.in("vendor")
	want := map[string]string{}
	for _, name := range k.items {
		want[name] = k.get(name)
	}
	lose := func(round int) {
		if err := os.RemoveAll(k.path([]string{".ai/tools", ".ai/tools/mine"}[round%2])); err != nil {
			t.Fatal(err)
		}
	}
	lose(0)
	k.learn("restore", "**")
	left := 0
	for round := range 40 {
		lose(round)
		done := k.kill("restore", "**")
		there := 0
		for _, name := range k.items {
			if now := k.get(name); now == want[name] {
				there++
			} else if now != "" {
				t.Fatalf("round %d: %s is %q", round, name, now)
			}
		}
		if there != len(k.items) && (done || there > 0 && runtime.GOOS == "linux") {
			t.Fatalf("round %d, acknowledged: %v: %d of %d files are there", round, done, there, len(k.items))
		}
		left += len(k.leftovers())
		k.in("restore", "**")
		if again := k.leftovers(); len(again) > 0 {
			t.Fatalf("round %d: left: %q", round, again)
		}
		for _, name := range k.items {
			if k.get(name) != want[name] {
				t.Fatalf("round %d: %s is %q", round, name, k.get(name))
			}
		}
	}
	if k.ended == 0 || k.ended == k.runs {
		t.Errorf("%d of %d had ended before they were killed", k.ended, k.runs)
	}
	t.Logf("%d of %d had ended; the others have left %d files and directories", k.ended, k.runs, left)
}

func (k *killer) fetch(round int) {
	k.t.Helper()
	// With an empty store, fetch gets everything in the lock from .ai/vendor and the sources.
	store := filepath.Join(k.dir, fmt.Sprintf("store-%d", round))
	done := k.killed(time.Duration(k.random.Int64N(int64(k.longest["fetch"]))), "--store", store, "fetch", "-C",
		k.project)
	k.runs++
	if done {
		k.ended++
	}
	var ans struct{ Data locks.FetchAnswer }
	if err := json.Unmarshal([]byte(k.in("--store", store, "fetch")), &ans); err != nil {
		k.t.Fatal(err)
	}
	if done && ans.Data.Fetched > 0 {
		k.t.Fatalf("round %d: acknowledged, and %d objects were missing", round, ans.Data.Fetched)
	}
	k.in("--store", store, "store", "gc", "--grace", "0s")
	k.in("--store", store, "store", "fsck")
	ans.Data = locks.FetchAnswer{}
	if err := json.Unmarshal([]byte(k.in("--store", store, "fetch")), &ans); err != nil || ans.Data.Fetched > 0 {
		k.t.Fatalf("round %d: gc took %d objects that the lock names: %v", round, ans.Data.Fetched, err)
	}
}

// swept checks that nothing stays of processes that died long ago.
func (k *killer) swept() {
	k.t.Helper()
	// One in every directory, in addition to those already there.
	for _, dir := range []string{".", ".ai/vendor", ".ai/tools/mine"} {
		k.put(dir+"/.rye-tmp-write-DIED", "half")
	}
	long := time.Now().Add(-2 * osfile.UnfinishedAge)
	for _, path := range k.leftovers() {
		if err := os.Chtimes(path, long, long); err != nil {
			k.t.Fatal(err)
		}
	}
	k.in("lock")
	k.in("vendor")
	k.in("restore", "**")
	if left := k.leftovers(); len(left) > 0 {
		k.t.Errorf("left: %q", left)
	}
}

// TestLockProject holds a project against another process, and waits for one.
func TestLockProject(t *testing.T) {
	dir := t.TempDir()
	unlock, err := paths.LockProject(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := paths.LockProject(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	taken := make(chan error)
	go func() {
		again, err := paths.LockProject(t.Context(), dir)
		if err == nil {
			again()
		}
		taken <- err
	}()
	unlock()
	if err := <-taken; err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	// A directory that doesn't exist yet isn't locked.
	if unlock, err = paths.LockProject(t.Context(), filepath.Join(dir, "none")); err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, err := paths.LockProject(t.Context(), "a\x00b"); err == nil {
		t.Error("that was no name")
	}
}

// TestLockTwice makes, changes and vendors a lock from several processes at once: each goes through, no requirement is
// lost, and in the end everything is as one of them would have made it.
func TestLockTwice(t *testing.T) {
	p := newLockedProject(t, 3)
	at := map[string]string{}
	for _, id := range []string{"one", "two", "three"} {
		at[id] = p.archive(id, "1.0.0")
	}
	together := func(commands ...[]string) {
		t.Helper()
		var all sync.WaitGroup
		for _, args := range commands {
			all.Go(func() {
				if out, err := p.command(append(args, "-C", p.project)...).CombinedOutput(); err != nil {
					t.Errorf("%q: %v: %s", args, err, out)
				}
			})
		}
		all.Wait()
	}
	lock, vendor := []string{"lock"}, []string{"vendor"}
	add := func(id string) []string { return []string{"add", id, "--from", at[id]} }
	together(lock, lock, lock)
	p.in("lock", "--check")
	together(add("one"), add("two"), lock, add("three"))
	p.in("lock", "--check")
	l, err := lockfile.Parse([]byte(p.get("rye.lock")))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, b := range l.Bundles {
		ids = append(ids, b.ID)
	}
	if want := []string{"one", "three", "two"}; !slices.Equal(ids, want) {
		t.Errorf("the lock has %q, want %q", ids, want)
	}
	together(vendor, vendor, vendor)
	p.in("vendor", "--check")
	p.put(p.items[0], toolIn("mine", "second"))
	p.in("sign", "--all")
	if err := os.Remove(p.path(p.items[1])); err != nil {
		t.Fatal(err)
	}
	together([]string{"restore", "tool:mine/t1"}, []string{"restore", "tool:mine/t1"}, []string{"fetch"},
		[]string{"fetch"}, vendor)
	together(lock, vendor, lock, vendor, []string{"remove", "two"})
	p.in("vendor")
	p.in("vendor", "--check")
	p.in("lock", "--check")
	if left := p.leftovers(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if !bytes.Contains([]byte(p.get("rye.lock")), []byte(`"three"`)) || strings.Contains(p.get("rye.yaml"), "two") {
		t.Errorf("rye.yaml is\n%s\nand rye.lock\n%s", p.get("rye.yaml"), p.get("rye.lock"))
	}
}
