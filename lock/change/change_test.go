package change_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/change"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/content"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// A project is a directory with a user who trusts alice and bob.
type project struct {
	t         *testing.T
	dir, home string
}

func newProject(t *testing.T) *project {
	p := &project{t, t.TempDir(), t.TempDir()}
	p.write(p.home, ".ai/policy.yaml", fmt.Sprintf("rye: policy/2\n\nkeys:\n  alice: {key: %q}\n  bob: {key: %q}\n\nnames:\n  \"**\": {keys: [alice, bob]}\n",
		keytest.Alice.Public(), keytest.Bob.Public()))
	p.write(p.dir, workspace.MarkerFile, "roots:\n  - \"knowledge:acme/**\"\n")
	p.write(p.dir, ".ai/knowledge/acme/note.md", "---\nid: note\ntitle: Note\nentry_type: reference\nversion: 1.0.0\ncategory: acme\n---\n# Note\n")
	return p
}

func (p *project) write(dir, name, text string) {
	p.t.Helper()
	at := filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) read(name string) string {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(name)))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// lock opens the lock, ready to be made.
func (p *project) lock(check bool) *workspace.Lock {
	p.t.Helper()
	below := func(name string) workspace.Place { return workspace.Place{Path: filepath.Join(p.home, name)} }
	w, err := workspace.Open(p.t.Context(), workspace.Paths{Dir: p.dir, Version: "devel", User: below(""), Store: below("store"), State: below("state"), Cache: below("cache")},
		workspace.Options{Offline: true, Now: func() time.Time { return noon }})
	if err != nil {
		p.t.Fatal(err)
	}
	l, err := w.OpenLock(false)
	if err == nil && check {
		err = l.Look(p.t.Context())
	} else if err == nil {
		err = l.Open()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(l.Close)
	return l
}

// sign signs the note.
func (p *project) sign(by key.Private) {
	p.t.Helper()
	l := p.lock(false)
	v, admit, done, err := l.View(p.t.Context(), []*ai.Space{find.LibrarySpace()})
	if err != nil {
		p.t.Fatal(err)
	}
	defer done()
	it, err := v.Find(p.t.Context(), model.Ref{Kind: "knowledge", ID: "acme/note"})
	if err != nil {
		p.t.Fatal(err)
	}
	subject, _, err := admit.Subject(p.t.Context(), it)
	if err != nil {
		p.t.Fatal(err)
	}
	signed, err := sign.Sign(it.Bytes, subject.Signing(), subject.Claim(), by, noon, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(p.dir, ".ai/knowledge/acme/note.md", string(signed))
}

func (p *project) make(o change.Options) (*change.Result, error) {
	p.t.Helper()
	return change.Make(p.t.Context(), p.lock(o.Check), o)
}

// A lock is refused, made, checked, weakened and accepted, each by one call.
func TestMake(t *testing.T) {
	p := newProject(t)
	_, err := p.make(change.Options{})
	if closed, ok := errors.AsType[*closure.Error](err); !ok || fault.CodeOf(err) != fault.Unsigned {
		t.Fatalf("%v: %v", closed, err)
	}
	p.sign(keytest.Alice)
	if r, err := p.make(change.Options{DryRun: true}); err != nil || r.Written || !r.Changed || r.Pins == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	stop := errors.New("not signed")
	if r, err := p.make(change.Options{Sign: func(context.Context, []file.Bundle) error { return stop }}); r != nil || !errors.Is(err, stop) {
		t.Fatalf("%+v, %v", r, err)
	}
	made, err := p.make(change.Options{})
	if err != nil || !made.Written || made.Edited || len(made.Weakenings) > 0 {
		t.Fatalf("%+v, %v", made, err)
	}
	if r, err := p.make(change.Options{Check: true}); err != nil || r.Changed || r.ID != made.ID {
		t.Fatalf("%+v, %v", r, err)
	}

	// Signed by another key the lock is weaker.
	p.write(p.dir, ".ai/knowledge/acme/note.md", "---\nid: note\ntitle: Note\nentry_type: reference\nversion: 1.0.0\ncategory: acme\n---\n# Note\n\nMore.\n")
	p.sign(keytest.Bob)
	for _, check := range []bool{false, true} {
		r, err := p.make(change.Options{Check: check})
		f := fault.Of(err)
		want, exit := "rye lock --accept knowledge:acme/note", fault.ExitRefused
		if check {
			exit = fault.ExitNo
		}
		if r == nil || len(r.Weakenings) != 1 || f.Code != fault.LockMismatch || f.Line().Exit != exit || f.Hint[len(f.Hint)-1] != want {
			t.Errorf("check %v: %+v, exit %d, %q", check, r, f.Line().Exit, f.Hint)
		}
	}
	if _, err := p.make(change.Options{Accept: []string{"tool:acme/none"}}); fault.CodeOf(err) != fault.Validation {
		t.Error(err)
	}
	yaml := "roots:\n  - \"**\"\n"
	r, err := p.make(change.Options{Accept: []string{"knowledge:acme/note"}, Yaml: []byte(yaml)})
	if err != nil || !r.Written || !r.Edited || !r.Weakenings[0].Accepted || p.read(workspace.MarkerFile) != yaml {
		t.Errorf("%+v, %v", r, err)
	}
	if b := change.PinnedBytes(t.Context(), p.lock(false), model.Ref{Kind: "knowledge", ID: "acme/note"}); !strings.Contains(string(b), "More.") {
		t.Errorf("%q", b)
	}
}

// What the store has is vendored, found damaged, and restored into the working tree.
func TestContent(t *testing.T) {
	ctx := t.Context()
	p := newProject(t)
	p.sign(keytest.Alice)
	if _, err := p.make(change.Options{}); err != nil {
		t.Fatal(err)
	}
	l := p.lock(false)
	if r, err := content.Fetch(ctx, l); err != nil || r.Fetched != 0 || r.Objects == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := content.CheckVendor(ctx, l); r == nil || fault.CodeOf(err) != fault.NotFound {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := content.Vendor(ctx, l); err != nil || r.Written == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := content.CheckVendor(ctx, p.lock(false)); err != nil || len(r.Problems) > 0 || !r.Checked {
		t.Errorf("%+v, %v", r, err)
	}

	const note = ".ai/knowledge/acme/note.md"
	signed := p.read(note)
	p.write(p.dir, note, "# Other\n")
	l = p.lock(true)
	if found, err := content.Drift(ctx, l); err != nil || len(found) != 1 || found[0].Path != "knowledge/acme/note.md" {
		t.Errorf("%v, %v", found, err)
	}
	for _, dry := range []bool{true, false} {
		r, err := content.Restore(ctx, p.lock(false), l.Old.Pins[:1], dry)
		if err != nil || len(r.Files) != 1 || r.Files[0].File != note || (p.read(note) == signed) == dry {
			t.Errorf("dry %v: %+v, %v", dry, r, err)
		}
	}

	// .ai/vendor alone fills an empty store again.
	if err := errors.Join(os.RemoveAll(filepath.Join(p.home, "store")), os.Remove(filepath.Join(p.dir, filepath.FromSlash(note)))); err != nil {
		t.Fatal(err)
	}
	if r, err := content.Fetch(ctx, p.lock(false)); err != nil || r.Fetched == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	// Without it the bytes are gone, and only git may have them.
	if err := errors.Join(os.RemoveAll(filepath.Join(p.home, "store")), os.RemoveAll(filepath.Join(p.dir, ".ai", "vendor"))); err != nil {
		t.Fatal(err)
	}
	_, err := content.Fetch(ctx, p.lock(false))
	if f := fault.Of(err); f.Code != fault.NotFound || len(f.Hint) != 2 || !strings.HasPrefix(f.Hint[0], "git restore ") {
		t.Errorf("%v: %q", err, f.Hint)
	}
	if _, err := content.Restore(ctx, p.lock(false), l.Old.Pins[:1], false); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
}
