package session_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// A session that remembers what it found sees every change at the next call all the same.
func TestRemembers(t *testing.T) {
	p := testProject(t)
	must(t, p.lock())
	now := time.Now()
	w, err := workspace.Open(t.Context(), p.Paths, workspace.Options{Now: func() time.Time { return now }})
	must(t, err)
	t.Cleanup(w.Close)
	self, err := os.Executable()
	must(t, err)
	s, err := session.Open(t.Context(), w, session.Options{Self: self})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	session.Ahead(s, time.Minute)
	works := func(when string) {
		t.Helper()
		var items [2]*ai.Item
		for i := range items {
			if got, err := greeting(t.Context(), s, "Ann"); err != nil || got != "hello, Ann" {
				t.Fatalf("%s: %q, %v", when, got, err)
			}
			it, err := s.Item(t.Context(), ref)
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			items[i] = it
		}
		if items[0] != items[1] {
			t.Fatalf("%s: an item was read and admitted twice", when)
		}
		if !session.Remembers(s, ref) {
			t.Fatalf("%s: nothing is remembered", when)
		}
	}
	refused := func(when string, want fault.Code) {
		t.Helper()
		if got, err := greeting(t.Context(), s, "Ann"); fault.CodeOf(err) != want {
			t.Fatalf("%s: %q, %v, want %s", when, got, err, want)
		}
		if it, err := s.Item(t.Context(), ref); fault.CodeOf(err) != want {
			t.Fatalf("%s: item %v, %v, want %s", when, it, err, want)
		}
	}
	works("at first")
	file := filepath.Join(p.Dir, ".ai", "tools", "acme", "greet.star")
	was, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, []byte(strings.Replace(string(was), "hello", "hallo", 1)), 0o644))
	refused("edited", fault.LockMismatch)
	must(t, os.WriteFile(file, was, 0o644))
	works("as it was")
	must(t, os.Remove(file))
	refused("gone", fault.LockMismatch)
	must(t, os.WriteFile(file, was, 0o644))
	works("there again")
	must(t, p.write(".ai/tools/acme/greet.yaml",
		"version: \"1.0.0\"\ntool_type: function\nexecutor_id: rye/core/primitives/rye\ncategory: acme\ndescription: Another\nconfig: {function: x}\n"))
	refused("with another in its place", fault.LockMismatch)
	must(t, os.Remove(filepath.Join(p.Dir, ".ai", "tools", "acme", "greet.yaml")))
	works("without it")
	must(t, p.write(".ai/config/new.yaml", "a: 1\n"))
	refused("with config that isn't pinned", fault.LockMismatch)
	must(t, os.RemoveAll(filepath.Join(p.Dir, ".ai", "config")))
	works("without that")

	must(t, p.policy("\nrevoked:\n  \"key:"+keytest.Alice().Public().Fingerprint().String()+"\": {reason: lost}\n"))
	refused("with a revoked key", fault.Revoked)
	must(t, p.policy(""))
	works("with the key again")
	must(t, p.policyFile("rye: policy/2\n\nkeys:\n  alice: {key: "+keytest.Alice().Public().String()+", expires: "+
		now.Add(time.Hour).UTC().Format(time.RFC3339)+"}\n\nnames:\n  \"**\": {keys: [alice]}\n"))
	works("before the key expires")
	now = now.Add(2 * time.Hour)
	refused("after it expired", fault.Expired)
	now = now.Add(-2 * time.Hour)
	works("at a time before that")
}
