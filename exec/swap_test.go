package exec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
)

const swapped = "tool:acme/m/m"

// swapping returns a world with a tool, its helper and its runtime in the project, whose files an attacker rewrites.
// The probe compares what runs with what was signed.
func swapping(t testing.TB) (w *world, targets map[string][]byte) {
	w = newWorld(t)
	w.put(map[string]string{
		".ai/tools/acme/m/m.yaml":  tool("acme/m/m", "acme/r", "config: {tool: good}"),
		".ai/tools/acme/m/parts":   "parts",
		".ai/tools/acme/m/a/b.txt": "good",
		".ai/tools/acme/r.yaml": tool("acme/r", probing, "config: {runtime: good, dir: '{anchor_path}'}",
			"anchor: {enabled: true, mode: auto, markers_any: [parts], root: tool_dir}"),
	})
	w.signed("tool:acme/r", alice)
	w.signed(swapped, alice)
	targets = map[string][]byte{}
	for _, name := range []string{"acme/m/m.yaml", "acme/m/a/b.txt", "acme/r.yaml"} {
		path := filepath.Join(w.project, ".ai/tools", filepath.FromSlash(name))
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		targets[path] = b
	}
	pinned := targets[filepath.Join(w.project, ".ai/tools/acme/m/m.yaml")]
	w.probe.do = func(_ context.Context, a *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		for name, want := range map[string]string{"m.yaml": string(pinned), "parts": "parts", "a/b.txt": "good"} {
			if b, err := os.ReadFile(filepath.Join(a.Config["dir"].(string), filepath.FromSlash(name))); err != nil ||
				string(b) != want {
				return gives(fmt.Sprintf("%s is %q, %v", name, b, err)), nil
			}
		}
		if a.Config["tool"] != "good" || a.Config["runtime"] != "good" {
			return gives(fmt.Sprintf("it was told %v", a.Config)), nil
		}
		return gives("good"), nil
	}
	return w, targets
}

// evil returns what an attacker wants to run.
func evil(b []byte) []byte { return bytes.ReplaceAll(b, []byte("good"), []byte("evil")) }

// swap rewrites the targets in several ways until stop is set, and restores them in between.
func swap(w *world, targets map[string][]byte, stop *atomic.Bool) (rounds int) {
	elsewhere := filepath.Join(w.dir, "elsewhere")
	ways := []func(path string, b []byte) error{
		func(path string, b []byte) error { return os.WriteFile(path, evil(b), 0o666) },
		func(path string, b []byte) error { // half of it
			return os.WriteFile(path, evil(b)[:len(b)/2], 0o666)
		},
		func(path string, b []byte) error {
			return errors.Join(os.WriteFile(path+"~", evil(b), 0o666), os.Rename(path+"~", path))
		},
		func(path string, b []byte) error {
			os.Remove(path)
			return errors.Join(os.WriteFile(elsewhere, evil(b), 0o666), os.Symlink(elsewhere, path))
		},
		func(path string, b []byte) error { // a whole directory
			dir := filepath.Dir(path)
			return errors.Join(os.Rename(dir, dir+".away"), os.Rename(dir+".away", dir))
		},
	}
	for ; !stop.Load(); rounds++ {
		for path, b := range targets {
			// That another system refuses one way is no matter: there are the others.
			_ = ways[rounds%len(ways)](path, b)
			if rounds%7 == 0 {
				time.Sleep(50 * time.Microsecond) // on one processor, no other goroutine would see it
			}
			err := errors.Join(os.WriteFile(path+"~", b, 0o666), os.Rename(path+"~", path))
			if err != nil {
				os.RemoveAll(path)
				err = os.WriteFile(path, b, 0o666)
			}
			if err != nil {
				w.Error(err)
				return rounds
			}
			time.Sleep(50 * time.Microsecond) // others use the processors, too
		}
	}
	return rounds
}

// hammer makes at least 2,000 calls while swap runs, and goes on until at least enough of them have run and at least
// some were refused.
func hammer(w *world, targets map[string][]byte, enough, some int64, base func() *exec.Base) (ran, refused int64) {
	least := int64(2000)
	if testing.Short() {
		least, enough = least/5, enough/5
	}
	var stop, over atomic.Bool
	var all sync.WaitGroup
	rounds := make(chan int, 1)
	go func() { rounds <- swap(w, targets, &stop) }()
	var did, didnt atomic.Int64
	for range 4 {
		all.Go(func() {
			for !over.Load() && (did.Load() < enough || did.Load()+didnt.Load() < least || didnt.Load() < some &&
				did.Load() < 100*least) {
				p, err := w.kernel.Prepare(w.Context(), base(), call(swapped, nil))
				if err != nil {
					if didnt.Add(1) > 1000*enough {
						w.Errorf("nothing runs any more: %v", err)
						over.Store(true)
					}
					continue
				}
				r, err := p.Run(w.Context(), nil)
				if err != nil || r.Status != record.OK || r.Value != "good" {
					w.Errorf("what ran was another: %+v, %v", r, err)
					over.Store(true)
				}
				did.Add(1)
				if err := p.Close(); err != nil {
					w.Error(err)
				}
			}
		})
	}
	all.Wait()
	stop.Store(true)
	if n := <-rounds; n < 5 {
		w.Errorf("everything was swapped %d times", n)
	}
	return did.Load(), didnt.Load()
}

// TestSwapSpaces: whatever becomes of the files while calls are made from them, what runs is what was signed.
func TestSwapSpaces(t *testing.T) {
	w, targets := swapping(t)
	v, trust := w.view(), w.trust()
	_, refused := hammer(w, targets, 100, 1, func() *exec.Base {
		return &exec.Base{Resolver: v, Admit: ai.NewAdmitter(v, trust)}
	})
	if refused == 0 {
		t.Error("no call was refused, so nothing was swapped in time")
	}
}

// objects are what a lock names, and no refs.
type objects struct{ *cas.Memory }

func (objects) Ref(string) (cas.ID, error) { return cas.ID{}, fs.ErrNotExist }

// pinned makes a set of the project as it is now.
func (w *world) pinned(root string) (*lock.Set, *ai.View) {
	w.Helper()
	p, err := project.Parse(fmt.Appendf(nil, "roots:\n  - %q\n", root), "")
	if err != nil {
		w.Fatal(err)
	}
	store := objects{&cas.Memory{}}
	batch, err := store.Batch(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	defer batch.Close()
	v := w.view()
	found, err := closure.Close(w.Context(), closure.Options{View: v, Admit: ai.NewAdmitter(v, w.trust()),
		Roots: p.Roots, Store: batch})
	if err == nil {
		err = batch.Commit(w.Context())
	}
	if err != nil {
		w.Fatal(err)
	}
	text, err := file.Append(nil, &file.Lock{Pins: found.Pins, Definitions: found.Definitions})
	if err != nil {
		w.Fatal(err)
	}
	l, err := file.Parse(text)
	if err != nil {
		w.Fatal(err)
	}
	set, err := lock.NewSet(w.Context(), l, cas.Sum(text),
		lock.SetOptions{Objects: store, Std: &ai.Space{Label: file.FromStd, FS: w.library, Builtin: true}})
	if err != nil {
		w.Fatal(err)
	}
	trust := w.trust()
	view, err := set.View(w.Context(), trust, trust.Root.Policy.MayOverride)
	if err != nil {
		w.Fatal(err)
	}
	return set, view
}

// TestSwapSet: calls of a set don't notice that there is a working tree.
func TestSwapSet(t *testing.T) {
	w, targets := swapping(t)
	set, view := w.pinned(swapped)
	resolver, trust := set.Resolver(view), w.trust()
	base := func() *exec.Base {
		return &exec.Base{Resolver: resolver, Admit: ai.NewAdmitter(resolver, set.Examiner(trust)), Set: set.ID()}
	}
	ran, refused := hammer(w, targets, 2000, 0, base)
	if ran == 0 || refused > 0 {
		t.Errorf("%d calls ran, %d were refused", ran, refused)
	}
	// The receipt says which set.
	p, err := w.kernel.Prepare(t.Context(), base(), call(swapped, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r, err := p.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.proved(r).Call; got.Set != set.ID() || got.Lock != set.ID() {
		t.Errorf("the receipt is of the set %s", got.Set)
	}
	checkLog(w)
}
