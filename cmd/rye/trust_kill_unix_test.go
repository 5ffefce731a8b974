//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cmd/rye/initcmd"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest/key"
)

// A trustHome is a home directory in which rye edits a policy.
type trustHome struct {
	t   *testing.T
	dir string
}

func newTrustHome(t *testing.T) trustHome {
	h := trustHome{t, t.TempDir()}
	if err := os.Mkdir(filepath.Join(h.dir, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.must("key", "new", "--owner", "Me")
	return h
}

func (h trustHome) command(args ...string) *exec.Cmd {
	cmd := exec.Command("rye", append([]string{"-q", "--yes", "--json"}, args...)...)
	cmd.Dir = h.dir
	cmd.Env = append(os.Environ(), "HOME="+h.dir, "XDG_STATE_HOME="+filepath.Join(h.dir, "state"),
		"XDG_CACHE_HOME="+filepath.Join(h.dir, "cache"))
	return cmd
}

// must runs rye and returns what it says.
func (h trustHome) must(args ...string) string {
	h.t.Helper()
	out, err := h.command(args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("rye %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// killed runs rye, kills it after a while, and reports whether it had said that it was done.
func (h trustHome) killed(after time.Duration, args ...string) (done bool) {
	h.t.Helper()
	cmd := h.command(args...)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	if strings.Contains(out.String(), `"success":false`) {
		h.t.Fatalf("rye %q: %s", args, out.String())
	}
	// What was printed was printed after the disk had it, whether or not the process still ended by itself.
	return err == nil || strings.Contains(out.String(), `"success":true`)
}

// state is what there is: keys, rules and revocations of the policy, and keys in the directory.
func (h trustHome) state() map[string]bool {
	h.t.Helper()
	var list struct{ Data trusts.TrustListAnswer }
	if err := json.Unmarshal([]byte(h.must("trust", "list")), &list); err != nil {
		h.t.Fatal(err)
	}
	all := map[string]bool{}
	for _, k := range list.Data.Keys {
		all["key "+k.Name] = true
	}
	for _, r := range list.Data.Revoked {
		all["revoked "+r.What] = true
	}
	for _, r := range list.Data.Rules {
		all["rule "+r.Names] = true
	}
	var keys struct{ Data trusts.KeyListAnswer }
	if err := json.Unmarshal([]byte(h.must("key", "list")), &keys); err != nil {
		h.t.Fatal(err)
	}
	for _, k := range keys.Data.Keys {
		if k.Error != "" {
			h.t.Fatalf("the key %q: %s", k.Name, k.Error)
		}
		all["kept "+k.Name] = true
	}
	return all
}

// TestTrustKilled kills rye with SIGKILL at random moments of what edits the policy and the keys. After each the
// policy is whole, the keys can be used, and what was acknowledged is there, or gone.
func TestTrustKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	h := newTrustHome(t)
	random := rand.New(rand.NewPCG(3, 4))
	want := h.state()
	killed := 0
	for round := range 50 {
		digest := fmt.Sprintf("blake3:%064d", round+1)
		public, err := key.Generate(bytes.NewReader(bytes.Repeat([]byte{byte(round)}, 32)))
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("k%d", round)
		var args, add []string
		remove := ""
		switch random.IntN(4) {
		case 0:
			args, add = []string{"trust", "revoke", digest, "--reason", "r"}, []string{"revoked " + digest}
		case 1:
			args = []string{"trust", "add", public.Public().String(), "--owner", name, "--name", name, "--names",
				name + "/**"}
			add = []string{"key " + name, "rule " + name + "/**"}
		case 2:
			args, add = []string{"key", "new", name}, []string{"kept " + name}
		case 3:
			for what := range want {
				if d, ok := strings.CutPrefix(what, "revoked "); ok {
					args, remove = []string{"trust", "remove", "--from", "revoked", d}, what
				}
			}
			if args == nil {
				continue
			}
		}
		done := h.killed(time.Duration(random.IntN(30_000))*time.Microsecond, args...)
		if !done {
			killed++
		}
		got := h.state()
		for what := range want {
			if !got[what] && what != remove {
				t.Fatalf("round %d, after %q: %q is lost", round, args, what)
			}
		}
		for _, what := range add {
			if done && !got[what] {
				t.Fatalf("round %d, %q was acknowledged: there is no %q", round, args, what)
			}
		}
		if done && remove != "" && got[remove] {
			t.Fatalf("round %d, %q was acknowledged: %q is there", round, args, remove)
		}
		for _, what := range add[:max(0, len(add)-1)] {
			if got[what] != got[add[len(add)-1]] {
				t.Fatalf("round %d, %q: half of it is there: %v", round, args, got)
			}
		}
		want = got
	}
	if killed == 0 || killed == 50 {
		t.Errorf("%d of 50 were killed before they had ended", killed)
	}
	if _, err := os.Stat(filepath.Join(h.dir, ".ai", "policy.yaml.lock")); err == nil {
		t.Error("a lock is left beside the policy")
	}
}

// TestRotationKilled kills rye while it carries out a rotation. It is in force or it isn't, and what is in force is
// never taken again.
func TestRotationKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	h := newTrustHome(t)
	random := rand.New(rand.NewPCG(5, 6))
	path := filepath.Join(h.dir, ".ai", "policy.yaml")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for round := range 12 {
		if err := os.WriteFile(path, before, 0o600); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("next%d", round)
		file := fmt.Sprintf("r%d.yaml", round)
		h.must("key", "rotate", "default", "--to", name, "--out", file)
		done := h.killed(time.Duration(random.IntN(25_000))*time.Microsecond, "trust", "add", "--rotation", file)
		got := h.state()
		if done && !got["key "+name] || got["key "+name] == got["key default"] {
			t.Fatalf("round %d, acknowledged: %v, %v", round, done, got)
		}
		if got["key "+name] {
			if err := os.WriteFile(path, before, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		// Again: taken if it was never remembered, and else refused, also where nothing came of it.
		out, err := h.command("trust", "add", "--rotation", file).CombinedOutput()
		switch again := err == nil; {
		case again && got["key "+name]:
			t.Fatalf("round %d: taken twice", round)
		case !again && !strings.Contains(string(out), `"ROLLBACK_DETECTED"`):
			t.Fatalf("round %d: %s", round, out)
		case !again && !got["key "+name]:
			lost++
		}
	}
	if lost > 6 {
		t.Errorf("%d of 12 rotations were remembered and not carried out", lost)
	}
}

// TestTrustConcurrent edits one policy from several processes at once: what was acknowledged is there, and the
// second writer gets an error.
func TestTrustConcurrent(t *testing.T) {
	h := newTrustHome(t)
	const processes, edits = 3, 12
	var group sync.WaitGroup
	var mutex sync.Mutex
	conflicts := 0
	for p := range processes {
		group.Go(func() {
			for n := range edits {
				for {
					out, err := h.command("trust", "revoke", fmt.Sprintf("blake3:%064d", 1000*p+n+1), "--reason",
						"r").CombinedOutput()
					if err == nil {
						break
					}
					if !strings.Contains(string(out), `"code":"CONFLICT"`) {
						t.Errorf("%v: %s", err, out)
						return
					}
					mutex.Lock()
					conflicts++
					mutex.Unlock()
				}
			}
		})
	}
	group.Wait()
	got := h.state()
	for p := range processes {
		for n := range edits {
			if what := fmt.Sprintf("revoked blake3:%064d", 1000*p+n+1); !got[what] {
				t.Errorf("%q was acknowledged and is lost", what)
			}
		}
	}
	t.Logf("%d conflicts", conflicts)
}

// TestPolicyMadeTwice makes the first policy from several processes at once: one of them is there.
func TestPolicyMadeTwice(t *testing.T) {
	for range 4 {
		h := trustHome{t, t.TempDir()}
		var group sync.WaitGroup
		done := make([]bool, 4)
		for p := range done {
			group.Go(func() {
				out, err := h.command("trust", "revoke", fmt.Sprintf("blake3:%064d", p+1), "--reason",
					"r").CombinedOutput()
				if done[p] = err == nil; !done[p] && !strings.Contains(string(out), `"code":"CONFLICT"`) {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		group.Wait()
		got := h.state()
		for p, ok := range done {
			if what := fmt.Sprintf("revoked blake3:%064d", p+1); ok && !got[what] {
				t.Errorf("%q was acknowledged and is lost", what)
			}
		}
	}
}

// TestInitTogether begins one project in an empty home from several processes at once: all of them have it in the end,
// and nothing is there twice.
func TestInitTogether(t *testing.T) {
	for range 3 {
		h := trustHome{t, t.TempDir()}
		var group sync.WaitGroup
		for p := range 6 {
			group.Go(func() {
				args := []string{"init", "p"}
				if p > 3 {
					args = []string{"key", "new", fmt.Sprintf("k%d", p)}
				}
				if out, err := h.command(args...).CombinedOutput(); err != nil {
					t.Errorf("rye %q: %v: %s", args, err, out)
				}
			})
		}
		group.Wait()
		got := h.state()
		trusted := 0
		for what := range got {
			if strings.HasPrefix(what, "key ") {
				trusted++
			}
		}
		if trusted != 1 || !got["rule **"] || !got["kept k4"] || !got["kept k5"] {
			t.Errorf("%v", got)
		}
		for _, g := range initcmd.GitLines() {
			b, err := os.ReadFile(filepath.Join(h.dir, "p", g.File))
			if want := strings.Join(g.Lines, "\n") + "\n"; err != nil || string(b) != want {
				t.Errorf("%s: %q, %v", g.File, b, err)
			}
		}
	}
}
