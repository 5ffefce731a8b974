package update_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/legacy"
	"github.com/rye-build/rye/lock/update"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

func makeLock(t *testing.T, p *projecttest.Project, o update.Options) (*update.Result, error) {
	t.Helper()
	l := p.Lock
	if o.Check {
		l = p.Looked
	}
	return update.Make(t.Context(), l(), o)
}

// A lock is refused, made, checked, weakened and accepted, each by one call.
func TestMake(t *testing.T) {
	p := projecttest.New(t)
	// Unsigned items that nothing locked needs are drafts.
	if r, err := makeLock(t, p, update.Options{DryRun: true}); err != nil || r.Pins > 0 ||
		len(r.Made.Closure.Drafts) < 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	p.Sign(projecttest.Note, keytest.Alice())
	p.Sign(projecttest.Cart, keytest.Alice())
	if b := update.PinnedBytes(t.Context(), p.Lock(), projecttest.Note); b != nil {
		t.Errorf("without a lock: %q", b)
	}
	if r, err := makeLock(t, p, update.Options{DryRun: true}); err != nil || r.Written || !r.Changed || r.Pins == 0 ||
		p.Read(file.Name) != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	stop := errors.New("not signed")
	if r, err := makeLock(t, p, update.Options{Sign: func(context.Context, []file.Bundle) error {
		return stop
	}}); r != nil || !errors.Is(err, stop) {
		t.Fatalf("%+v, %v", r, err)
	}
	made, err := makeLock(t, p, update.Options{})
	if err != nil || !made.Written || made.Edited || len(made.Weakenings) > 0 {
		t.Fatalf("%+v, %v", made, err)
	}
	if r, err := makeLock(t, p, update.Options{Check: true}); err != nil || r.Changed || r.ID != made.ID {
		t.Fatalf("%+v, %v", r, err)
	}

	// Signed by another key the lock is weaker.
	p.WriteNote("\nMore.\n")
	p.Sign(projecttest.Note, keytest.Bob())
	for _, check := range []bool{false, true} {
		r, err := makeLock(t, p, update.Options{Check: check})
		f := fault.Of(err)
		want, exit := "rye lock --accept knowledge:acme/note", fault.ExitRefused
		if check {
			exit = fault.ExitNo
		}
		if r == nil || len(r.Weakenings) != 1 || f.Code != fault.LockMismatch || f.Line().Exit != exit ||
			f.Hint[len(f.Hint)-1] != want {
			t.Errorf("check %v: %+v, exit %d, %q", check, r, f.Line().Exit, f.Hint)
		}
	}
	if _, err := makeLock(t, p,
		update.Options{Accept: []string{"tool:acme/none"}}); fault.CodeOf(err) != fault.Validation {
		t.Error(err)
	}
	yaml := "roots:\n  - \"**\"\n"
	r, err := makeLock(t, p, update.Options{Accept: []string{"knowledge:acme/note"}, Yaml: []byte(yaml)})
	if err != nil || !r.Written || !r.Edited || !r.Weakenings[0].Accepted || p.Read(workspace.MarkerFile) != yaml {
		t.Errorf("%+v, %v", r, err)
	}
	if b := update.PinnedBytes(t.Context(), p.Lock(), projecttest.Note); !strings.Contains(string(b), "More.") {
		t.Errorf("%q", b)
	}
	if b := update.PinnedBytes(t.Context(), p.Lock(), model.Ref{Kind: "knowledge", ID: "acme/none"}); b != nil {
		t.Errorf("%q", b)
	}
}

// rye.yaml is written before the lock, and what can't be written stops what comes after it. Until then the old lock
// stays, and the store has its objects.
func TestWriteOrder(t *testing.T) {
	p := projecttest.Signed(t)
	if _, err := makeLock(t, p, update.Options{}); err != nil {
		t.Fatal(err)
	}
	old := p.Read(file.Name)
	p.WriteNote("\nMore.\n")
	p.Sign(projecttest.Note, keytest.Alice())
	const yaml = "roots:\n  - \"**\"\n"

	// A directory isn't replaced by rye.yaml.
	l := p.Lock()
	p.Remove(workspace.MarkerFile)
	p.Write(workspace.MarkerFile+"/mine.txt", "mine")
	r, err := update.Make(t.Context(), l, update.Options{Yaml: []byte(yaml)})
	if err == nil || r == nil || r.Edited || r.Written || p.Read(file.Name) != old ||
		p.Read(workspace.MarkerFile+"/mine.txt") != "mine" {
		t.Errorf("%+v, %v", r, err)
	}
	for range 2 {
		if _, err := l.DiskStore().GC(t.Context(), disk.GCOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if b := update.PinnedBytes(t.Context(), l, projecttest.Note); len(b) == 0 {
		t.Error("the store has lost what the old lock pins")
	}

	// Another process's lock isn't overwritten.
	p.Remove(workspace.MarkerFile)
	p.Write(workspace.MarkerFile, "")
	l = p.Lock()
	p.Write(file.Name, old+"\n")
	r, err = update.Make(t.Context(), l, update.Options{Yaml: []byte(yaml)})
	if fault.CodeOf(err) != fault.Conflict || r == nil || !r.Edited || r.Written ||
		p.Read(workspace.MarkerFile) != yaml || p.Read(file.Name) != old+"\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

// What the old lock asked for must be readable: else a weaker one would pass.
func TestUnreadableVendor(t *testing.T) {
	for _, before := range []string{"v1", "lock", "merge"} {
		p := projecttest.Signed(t)
		if before == "v1" {
			writeV1(t, p, projecttest.Cart.ID, "")
		} else if _, err := makeLock(t, p, update.Options{}); err != nil {
			t.Fatal(err)
		}
		if before == "merge" {
			conflict(p, p.Read(file.Name), p.Read(file.Name))
		}
		old := p.Read(file.Name)
		p.WriteNote("\nMore.\n")
		p.Sign(projecttest.Note, keytest.Bob())
		l := p.Lock()
		if err := os.Symlink(t.TempDir(), p.At(".ai/vendor")); err != nil {
			t.Fatal(err)
		}
		if _, err := update.Make(t.Context(), l, update.Options{}); err == nil ||
			!strings.Contains(err.Error(), "symbolic link") || p.Read(file.Name) != old {
			t.Errorf("%s: %v", before, err)
		}
	}
}

// writeV1 writes a lock of the first format, of the cart with what it runs, and links to another tool.
func writeV1(t *testing.T, p *projecttest.Project, other, more string) {
	t.Helper()
	integrity, err := legacy.Integrity(path.Base(projecttest.CartFile), []byte(p.Read(projecttest.CartFile)+more))
	if err != nil {
		t.Fatal(err)
	}
	link := func(id string) string {
		return fmt.Sprintf(
			`{"item_id": %q, "space": "project", "tool_type": "python", "executor_id": null, "integrity": %q}`, id,
			integrity)
	}
	id := projecttest.Cart.ID
	p.Write(".ai/lockfiles/"+id+"@1.0.0.lock.json", fmt.Sprintf(`{"lockfile_version": 1, "generated_at": "2026-02-18T08:25:21.344139+00:00",
"root": {"tool_id": %q, "version": "1.0.0", "integrity": %q}, "resolved_chain": [%s, %s], "registry": null, "verified_deps": null}`,
		id, integrity, link(id), link(other)))
}

// A lock of the first format is held against the first rye.lock: what it names and is gone, or another, is weaker.
func TestTakeOver(t *testing.T) {
	const name = "tool:acme/shop/cart"
	for _, c := range []struct {
		other, more string
		details     []string
	}{
		{projecttest.Cart.ID, "", nil},
		{"acme/gone", "", []string{"tool:acme/gone from project: "}},
		{projecttest.Cart.ID, "MORE = 1\n", []string{name + ": "}},
	} {
		p := projecttest.Signed(t)
		writeV1(t, p, c.other, c.more)
		r, err := makeLock(t, p, update.Options{})
		if r == nil || r.TakenOver != 1 || r.V1 != 1 {
			t.Fatalf("%v: %+v, %v", c, r, err)
		}
		if c.details == nil {
			if err != nil || !r.Written || len(r.Weakenings) > 0 {
				t.Errorf("%v: %+v, %v", c, r, err)
			}
			continue
		}
		if fault.CodeOf(err) != fault.LockMismatch || r.Written || len(r.Weakenings) != 1 ||
			r.Weakenings[0].Name != name ||
			!slices.EqualFunc(r.Weakenings[0].Details, c.details, strings.HasPrefix) {
			t.Errorf("%v: %+v, %v", c, r, err)
		}
		if r, err := makeLock(t, p, update.Options{Accept: []string{name}}); err != nil || !r.Written ||
			!r.Weakenings[0].Accepted {
			t.Errorf("%v: %+v, %v", c, r, err)
		}
	}
	p := projecttest.Signed(t)
	p.Write(".ai/lockfiles/acme/shop/cart@1.0.0.lock.json", "{")
	r, err := makeLock(t, p, update.Options{})
	if f := fault.Of(err); r == nil || len(r.UnreadV1) != 1 || f.Code != fault.LockMismatch ||
		f.Hint[0] != "git rm .ai/lockfiles/acme/shop/cart@1.0.0.lock.json" {
		t.Errorf("%+v, %v", r, err)
	}
}

// conflict writes the lock that git leaves where it can't merge two.
func conflict(p *projecttest.Project, ours, theirs string) {
	p.Write(file.Name, "<<<<<<< ours\n"+ours+"=======\n"+theirs+">>>>>>> theirs\n")
}

// A merge that git left unfinished is resolved; a side that can't be read may have asked for anything.
func TestSides(t *testing.T) {
	p := projecttest.Signed(t)
	if _, err := makeLock(t, p, update.Options{}); err != nil {
		t.Fatal(err)
	}
	ours := p.Read(file.Name)
	p.WriteNote("\nMore.\n")
	p.Sign(projecttest.Note, keytest.Bob())
	names := func(r *update.Result) (all []string) {
		for _, w := range r.Weakenings {
			all = append(all, w.Name)
		}
		return all
	}
	conflict(p, ours, ours)
	r, err := makeLock(t, p, update.Options{})
	if f := fault.Of(err); r == nil || !slices.Equal(names(r), []string{"knowledge:acme/note"}) ||
		slices.Contains(f.Hint, "rye diff") {
		t.Errorf("%+v, %v", r, err)
	}
	conflict(p, ours, "no lock\n")
	r, err = makeLock(t, p, update.Options{Accept: []string{"knowledge:acme/note"}})
	if fault.CodeOf(err) != fault.LockMismatch || r == nil || r.Written || !slices.Contains(names(r), file.Name) {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = makeLock(t, p, update.Options{Accept: []string{"knowledge:acme/note", file.Name}}); err != nil ||
		!r.Written {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := file.Parse([]byte(p.Read(file.Name))); err != nil {
		t.Error(err)
	}
}

// torn has an object whose bytes can't be read to the end.
type torn struct{}

func (torn) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	r := io.MultiReader(strings.NewReader("# No"), iotest.ErrReader(fs.ErrClosed))
	return cas.Object{Info: cas.Info{ID: id, Size: 7}, ReadCloser: io.NopCloser(r)}, nil
}

// What can't be read to the end isn't compared.
func TestSignedBytes(t *testing.T) {
	if b := update.SignedBytes(t.Context(), torn{}, cas.Sum(nil)); b != nil {
		t.Errorf("%q", b)
	}
	if b := update.SignedBytes(t.Context(), lock.First(), cas.Sum(nil)); b != nil {
		t.Errorf("%q", b)
	}
}

func TestChangeText(t *testing.T) {
	digest := cas.Sum(nil).String()
	for _, c := range []struct {
		change file.Change
		want   string
	}{
		{file.Change{Kind: "pin_changed", Name: "tool:acme/run", From: digest, To: digest[len("blake3:"):]},
			"pin changed  tool:acme/run  " + digest[:19] + " -> " + digest[7:19]},
		{file.Change{Kind: "pin_added", Name: "tool:acme/run", To: "1.0.0"}, "pin added  tool:acme/run  1.0.0"},
		{file.Change{Kind: "pin_gone", Name: "tool:acme/run"}, "pin gone  tool:acme/run"},
	} {
		if got := update.ChangeText(c.change); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
