//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
)

// A hostedHome is a home with a registry, whose account owns the namespace acme.
type hostedHome struct {
	trustHome
	at, data string
}

// newHostedHome serves a registry in a process of its own, until the test ends.
func newHostedHome(t *testing.T) *hostedHome {
	t.Helper()
	h := &hostedHome{trustHome: newTrustHome(t)}
	sandboxtest.Removable(t, h.dir)
	h.data = filepath.Join(h.dir, "registry")
	t.Setenv("TMPDIR", t.TempDir()) // of what is killed, something stays
	ryed := func(args ...string) *exec.Cmd {
		cmd := exec.Command("ryed", append(append([]string{"--json", "registry"}, args...), "--data", h.data)...)
		cmd.Env = h.command().Env
		return cmd
	}
	server := ryed("serve", "--name", "registry.example", "--listen", "127.0.0.1:0")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		io.Copy(io.Discard, out)
		_ = server.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var serving struct{ Data struct{ URL string } }
	if err != nil || json.Unmarshal(line, &serving) != nil || serving.Data.URL == "" {
		t.Fatalf("%s, %v", line, err)
	}
	h.at = serving.Data.URL
	var token []byte
	for _, args := range [][]string{{"account", "add", "ada"},
		{"token", "add", "ada", "--scope", "owner", "--scope", "publish"}} {
		if token, err = ryed(args...).Output(); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
	}
	var made struct{ Data struct{ Token string } }
	if json.Unmarshal(token, &made) != nil || made.Data.Token == "" {
		t.Fatalf("%s", token)
	}
	login := h.command("login", h.at, "--file")
	login.Stdin = strings.NewReader(made.Data.Token + "\n")
	if out, err := login.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h.must("owner", "claim", "acme", "--registry", h.at)
	at, err := url.Parse(h.at)
	if err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(h.dir, ".ai", "policy.yaml")
	text, err := os.ReadFile(policy)
	if err == nil {
		err = os.WriteFile(policy, bytes.Replace(text, []byte("\nnames:"), fmt.Appendf(nil, "\ninside: [%q]\n\nnames:",
			at.Host), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// versions returns the numbers of a bundle's entries in the log, by version.
func (h *hostedHome) versions(id string) map[string]int64 {
	h.t.Helper()
	out, err := h.command("info", id, "--registry", h.at).Output()
	var info struct {
		Data struct {
			Versions []struct {
				Version string
				Leaf    int64
			}
		}
	}
	if err := json.Unmarshal(out, &info); err != nil {
		h.t.Fatalf("%s: %v", out, err)
	}
	all := map[string]int64{}
	for _, v := range info.Data.Versions {
		all[v.Version] = v.Leaf
	}
	if err != nil && len(all) > 0 || err == nil && len(all) != len(info.Data.Versions) {
		h.t.Fatalf("%s, %v", out, err)
	}
	return all
}

// published runs rye publish, and returns the number of the entry that it names.
func (h *hostedHome) published(args ...string) int64 {
	h.t.Helper()
	var made struct{ Data struct{ Leaf int64 } }
	out, err := h.command(append(args, "--registry", h.at)...).Output()
	if err != nil || json.Unmarshal(out, &made) != nil || made.Data.Leaf == 0 {
		h.t.Fatalf("rye %q: %v: %s", args, err, out)
	}
	return made.Data.Leaf
}

// TestPublishKilled kills rye with SIGKILL at random moments of publish, of a bundle and of an item. The version is
// published or not, never twice; and publishing again says the same as if it hadn't been killed.
func TestPublishKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	h := newHostedHome(t)
	source := &lockedProject{h.trustHome, filepath.Join(h.dir, "base"), nil}
	source.put("rye.yaml", "")
	source.put(".ai/tools/acme/base/x.py", toolIn("acme/base", "x"))
	source.in("sign", "tool:acme/base/x")
	bundle := func(version string) []string {
		source.put("bundle.yaml", fmt.Sprintf("id: acme/base\nversion: %q\nassets: [words]\n", version))
		source.put("words", strings.Repeat(version+"\n", 20_000))
		source.in("bundle", "create")
		return []string{"publish", "-C", source.project}
	}
	longest := map[string]time.Duration{}
	learn := func(kind string, args []string) {
		began := time.Now()
		h.published(args...)
		longest[kind] = 2 * time.Since(began)
	}
	item := func(n int) (id string, args []string) {
		id = fmt.Sprint("acme/x", n)
		return id, []string{"publish", "tool:acme/base/x", "--as", id, "-C", source.project}
	}
	learn("bundle", bundle("1.0.0"))
	_, first := item(0)
	learn("item", first)
	random := rand.New(rand.NewPCG(21, 22))
	const rounds = 12
	runs, ended := 0, 0
	check := func(round int, kind, id, version string, before int, args []string) {
		t.Helper()
		done := h.killed(time.Duration(random.Int64N(int64(longest[kind]))), append(args, "--registry", h.at)...)
		if runs++; done {
			ended++
		}
		now := h.versions(id)
		leaf, there := now[version]
		if done && !there || len(now) != before && len(now) != before+1 {
			t.Fatalf("round %d, acknowledged: %v: %s has %v", round, done, id, now)
		}
		again := h.published(args...)
		if there && again != leaf || again != h.published(args...) {
			t.Fatalf("round %d: %s@%s is entry %d, and was %d", round, id, version, again, leaf)
		}
		if now := h.versions(id); len(now) != before+1 || now[version] != again {
			t.Fatalf("round %d: %s has %v", round, id, now)
		}
	}
	for round := 1; round <= rounds; round++ {
		version := fmt.Sprintf("1.%d.0", round)
		check(round, "bundle", "acme/base", version, round, bundle(version))
		id, args := item(round)
		check(round, "item", id, "1.0.0", 0, args)
	}
	if ended == 0 || ended == runs {
		t.Errorf("%d of %d had ended before they were killed", ended, runs)
	}
	verify := exec.Command("ryed", "registry", "verify", "--data", h.data)
	verify.Env = h.command().Env
	if out, err := verify.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestAddKilled kills rye with SIGKILL at random moments of an add from a registry. rye.yaml and the lock are the old
// ones or the new ones, whole, and the same command completes what was begun.
func TestAddKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	h := newHostedHome(t)
	p := h.lockedProject(filepath.Join(h.dir, "shop"), 1)
	p.put("rye.yaml", "")
	p.in("lock")
	const rounds = 12
	// The id of the bundle is in its archive's name.
	if err := os.Mkdir(filepath.Join(h.dir, "acme"), 0o700); err != nil {
		t.Fatal(err)
	}
	var archives []string
	for round := range rounds + 1 {
		archives = append(archives, p.archive("acme/base", fmt.Sprintf("1.%d.0", round)))
	}
	h.published("publish", archives[0])
	k := &killer{p, rand.New(rand.NewPCG(23, 24)), map[string]time.Duration{}, 0, 0}
	add := func(round int) []string {
		return []string{"add", fmt.Sprintf("acme/base@^1.%d.0", round), "--registry", h.at}
	}
	k.learn("add", "acme/base@^1.0.0", "--registry", h.at)
	for round := 1; round <= rounds; round++ {
		version := fmt.Sprintf("1.%d.0", round)
		h.published("publish", archives[round])
		if round%3 == 0 { // it meets the registry, and all bytes come again
			p.in("remove", "acme/base")
			p.put("rye.yaml", "")
			p.in("lock")
			sandboxtest.Unlock(h.dir)
			for _, dir := range []string{"cache", ".local"} {
				if err := os.RemoveAll(filepath.Join(h.dir, dir)); err != nil {
					t.Fatal(err)
				}
			}
			p.in("fetch")
		}
		before, lockBefore := k.get("rye.yaml"), k.get("rye.lock")
		done := k.kill(add(round)...)
		yaml, err := ryeyaml.Parse([]byte(k.get("rye.yaml")), "devel")
		if err != nil {
			t.Fatalf("round %d: rye.yaml: %v", round, err)
		}
		lock, err := lockfile.Parse([]byte(k.get("rye.lock")))
		if err != nil {
			t.Fatalf("round %d: rye.lock: %v", round, err)
		}
		need, there := yaml.Requirement("acme/base")
		written := there && need.Text == "^"+version
		line := lock.Bundle("acme/base")
		locked := line != nil && line.Version == version
		switch {
		case done && !(written && locked), locked && !written:
			t.Fatalf("round %d, acknowledged: %v: rye.yaml says %v, rye.lock %v", round, done, written, locked)
		case !written && k.get("rye.yaml") != before, !locked && k.get("rye.lock") != lockBefore:
			t.Fatalf("round %d: neither the old files nor the new ones", round)
		}
		k.in(add(round)...)
		k.in("lock", "--check")
		k.in("exec", "tool:acme/base/x", "--dry-run")
		if out, err := h.command("store", "fsck").CombinedOutput(); err != nil {
			t.Fatalf("round %d: %v: %s", round, err, out)
		}
	}
	if k.ended == 0 || k.ended == k.runs {
		t.Errorf("%d of %d had ended before they were killed", k.ended, k.runs)
	}
	k.swept()
}
