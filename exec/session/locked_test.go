package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/search"
	"github.com/rye-build/rye/ai/search/query"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/gcroot"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// TestUnder: a session can run what another lock pins, as it was, for as long as that is leased; the policies count as
// they are.
func TestUnder(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := newProject(t.TempDir())
	must(err)
	must(p.lock())
	open := func() (*session.Session, *workspace.Workspace) {
		t.Helper()
		w, err := workspace.Open(t.Context(), p.Paths, workspace.Options{Offline: true})
		must(err)
		s, err := session.Open(t.Context(), w, session.Options{})
		must(err)
		return s, w
	}
	greets := func(s *session.Session) string {
		it, err := s.Item(t.Context(), ref)
		if err != nil {
			return err.Error()
		}
		return string(it.Bytes)
	}
	before, w := open()
	text, err := before.LockText()
	must(err)
	at := filepath.Join(p.Dir, ".ai", "threads", "acme", "rye.lock")
	before.Lease(t.Context(), at)
	must(p.edit(strings.Replace(greet, "hello", "goodbye", 1)))
	must(p.lock())
	again, err := before.LockText()
	if file, _ := os.ReadFile(before.LockPath()); err != nil || !bytes.Equal(again, text) ||
		cas.Sum(text) != before.Set() || bytes.Equal(file, text) {
		t.Errorf("the lock of a session that is open: %v", err)
	}
	must(before.Close())
	w.Close()

	collect := func() {
		t.Helper()
		s, err := disk.Open(p.Store.Path, disk.Options{})
		must(err)
		defer s.Close()
		for range 2 { // what was removed from refs, then what it held
			_, err = s.GC(context.Background(), disk.GCOptions{})
			must(err)
		}
	}
	collect()
	now, w := open()
	defer w.Close()
	defer now.Close()
	under, err := now.Under(t.Context(), text)
	must(err)
	if under.Set() == now.Set() || !strings.Contains(greets(under), "hello") ||
		!strings.Contains(greets(now), "goodbye") {
		t.Errorf("%s\n%s", greets(under), greets(now))
	}
	must(p.policyFile(
		fmt.Sprintf("rye: policy/2\n\nkeys:\n  alice: {key: %q}\n\nnames:\n  other/**: {keys: [alice]}\n",
			keytest.Alice().Public())))
	if _, err := under.Item(t.Context(), ref); fault.CodeOf(err) != fault.Policy {
		t.Errorf("an item whose name no rule of the policy covers now: %v", err)
	}
	must(p.policyFile("rye: policy/2\nkeys: 1\n"))
	if _, err := now.Under(t.Context(), text); fault.CodeOf(err) != fault.Config {
		t.Errorf("a policy that can't be read: %v", err)
	}
	must(p.policy(""))
	must(under.Close())
	if _, err := now.Under(t.Context(), text[:len(text)-1]); err == nil {
		t.Error("a lock that is cut off")
	}

	s, err := disk.Open(p.Store.Path, disk.Options{})
	must(err)
	must(gcroot.Forget(t.Context(), s, at))
	must(s.Close())
	collect()
	if under, err := now.Under(t.Context(), text); err == nil {
		got := greets(under)
		under.Close()
		if strings.Contains(got, "hello") {
			t.Error("the lease was released, and the store keeps the item")
		}
	}
}

// TestLeaseRefused: a store that can't take the lease of a thread's lock keeps nothing from running, and the reason
// is reported.
func TestLeaseRefused(t *testing.T) {
	p, err := newProject(t.TempDir())
	if err == nil {
		err = p.lock()
	}
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	w, err := workspace.Open(t.Context(), p.Paths, workspace.Options{Offline: true,
		Detail: func(what string, err error) { told = append(told, what) }})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s, err := session.Open(t.Context(), w, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	refs := filepath.Join(p.Store.Path, "refs")
	if err := errors.Join(os.RemoveAll(refs), os.WriteFile(refs, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(p.Dir, ".ai", "threads", "acme", "rye.lock")
	s.Lease(t.Context(), at)
	if !slices.ContainsFunc(told, func(line string) bool { return strings.Contains(line, at) }) {
		t.Errorf("%q", told)
	}
	if it, err := s.Item(t.Context(), ref); err != nil || !strings.Contains(string(it.Bytes), "hello") {
		t.Error(err)
	}
}

// TestLockless: what runs without a lock has no text of one, and leases nothing.
func TestLockless(t *testing.T) {
	p, err := newProject(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w, err := workspace.Open(t.Context(), p.Paths, workspace.Options{Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	dev, err := session.Open(t.Context(), w, session.Options{Mode: session.Mode{Dev: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if text, err := dev.LockText(); text != nil || err != nil || dev.Set() != (cas.Digest{}) {
		t.Errorf("%q, %v, %s", text, err, dev.Set())
	}
	dev.Lease(t.Context(), filepath.Join(p.Dir, ".ai", "threads", "acme", "rye.lock"))
	if _, err := os.Stat(filepath.Join(p.Store.Path, "refs")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was leased: %v", err)
	}
	if skills, err := dev.Skills(t.Context()); err != nil || len(skills.All) != 0 {
		t.Errorf("%v, %v", skills, err)
	}
}

// TestPolicyRuined: when a policy can't be read any more, an open session shows nothing, finds nothing and gives no
// secret; and neither does one whose caller has gone.
func TestPolicyRuined(t *testing.T) {
	p, err := newProject(t.TempDir())
	if err == nil {
		err = p.lock()
	}
	if err != nil {
		t.Fatal(err)
	}
	w, err := workspace.Open(t.Context(), p.Paths, workspace.Options{Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s, err := session.Open(t.Context(), w, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	greet, err := query.Parse("greet")
	if err != nil {
		t.Fatal(err)
	}
	asks := map[string]func(context.Context) error{
		"Item":      func(ctx context.Context) error { _, err := s.Item(ctx, ref); return err },
		"Chosen":    func(ctx context.Context) error { _, err := s.Chosen(ctx, ref); return err },
		"Program":   func(ctx context.Context) error { _, err := s.Program(ctx, ref); return err },
		"Providers": func(ctx context.Context) error { _, err := s.Providers(ctx); return err },
		"Items":     func(ctx context.Context) error { _, err := s.Items(ctx, "tool"); return err },
		"Skills":    func(ctx context.Context) error { _, err := s.Skills(ctx); return err },
		"Own":       func(ctx context.Context) error { _, err := s.Own(ctx); return err },
		"Secret":    func(ctx context.Context) error { _, _, err := s.Secret(ctx, "TOKEN", ref); return err },
		"Search": func(ctx context.Context) error {
			_, err := s.Search(ctx, search.Request{Query: greet})
			return err
		},
	}
	for name, ask := range asks {
		if err := ask(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.policyFile("rye: policy/2\nkeys: 1\n"); err != nil {
		t.Fatal(err)
	}
	for name, ask := range asks {
		if err := ask(t.Context()); fault.CodeOf(err) != fault.Config {
			t.Errorf("%s with a policy that can't be read: %v", name, err)
		}
	}
	if err := p.policy(""); err != nil {
		t.Fatal(err)
	}
	for name, ask := range asks {
		if err := ask(t.Context()); err != nil {
			t.Errorf("%s again: %v", name, err)
		}
	}
}

// TestInside: a program that was started for no part of a call goes on as what it is, and one that was started for an
// unknown part ends.
func TestInside(t *testing.T) {
	for _, args := range [][]string{nil, {"run"}, {"guest"}, {"run", "__guest"}} {
		if status, inside := session.Inside(args); inside || status != 0 {
			t.Errorf("%q: %d", args, status)
		}
	}
	for _, args := range [][]string{{"__guest"}, {"__guest", "python"}} {
		if status, inside := session.Inside(args); !inside || status != 2 {
			t.Errorf("%q: %d, %v", args, status, inside)
		}
	}
}
