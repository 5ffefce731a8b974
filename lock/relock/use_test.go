package relock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// TestNotPinned: what isn't pinned isn't found, though its bytes are there.
func TestNotPinned(t *testing.T) {
	w := shop(t).build()
	u := w.use(w.set())
	for _, text := range []string{"tool:acme/shop/idle", "tool:acme/unused", "tool:acme/base/idle",
		"knowledge:acme/see", "tool:rye/core/runtimes/node_runtime"} {
		_, err := u.resolver.Resolve(t.Context(), ref(text), nil)
		if _, ok := errors.AsType[*lock.NotLockedError](err); !ok || !errors.Is(err, fs.ErrNotExist) ||
			err.Error() != fmt.Sprintf("%q is not locked", text) {
			t.Errorf("%s: got %v", text, err)
		}
		if _, err := ai.Walk(t.Context(), u.resolver, ref(text)); strings.HasPrefix(text, "tool") {
			if e, ok := errors.AsType[*ai.ChainError](err); !ok || e.Code != fault.ToolNotFound {
				t.Errorf("%s: got %v", text, err)
			}
		}
	}
	// Something that a bundle can't reach, and that a view would have told of.
	var from *ai.Space
	for _, s := range u.Spaces() {
		if s.Label == util {
			from = s
		}
	}
	for text, want := range map[string]string{
		"tool:acme/hello":      `"tool:acme/hello" is locked from the space "project", but not found there: tool:acme/hello not found; it is in the space "project", which items of lower spaces can't use`,
		"tool:acme/base/fetch": `"tool:acme/base/fetch" is locked from the space "system:acme/base", but not found there: tool:acme/base/fetch not found`,
	} {
		if _, err := u.resolver.Resolve(t.Context(), ref(text), from); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	// An admitter lets nothing be used either that comes to it otherwise.
	it, err := u.view.Find(t.Context(), ref("tool:acme/shop/idle"))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.admit.Require(t.Context(), it, policy.ToUse); err == nil ||
		err.Error() != `"tool:acme/shop/idle" is not locked` {
		t.Errorf("got %v", err)
	}
	if u.Examiner(nil) != nil {
		t.Error("nothing becomes something")
	}
	if e := (&lock.NotLockedError{Ref: ref("tool:a")}); e.Unwrap() != nil {
		t.Error("nothing is unwrapped")
	}
}

// TestMismatch: what a pin says must be what the item says.
func TestMismatch(t *testing.T) {
	w := shop(t).build()
	other := cas.Sum([]byte("other"))
	shaped := cas.Sum([]byte("{}"))
	l, _ := w.made()
	pins := map[string]file.Pin{}
	for _, p := range l.Pins {
		pins[p.Ref.String()] = p
	}
	hello, fetch, run := pins["tool:acme/hello"], pins["tool:acme/base/fetch"], pins["tool:acme/shop/run"]
	helloText := w.project()["tools/acme/hello.sh"].Data
	for name, c := range map[string]struct {
		edit func(l *file.Lock) // of hello
		ref  string
		want string
	}{
		"version": {func(l *file.Lock) {
			l.Pin(ref("tool:acme/hello")).Version = ""
		}, "tool:acme/hello", `"tool:acme/hello" is locked with the version none, but has "1.0.0"`},
		"interface": {func(l *file.Lock) {
			l.Pin(ref("tool:acme/hello")).Interface = other
		}, "tool:acme/hello", fmt.Sprintf(`"tool:acme/hello" is locked with the interface %q, but has %q`, other,
			shaped)},
		"grants": {func(l *file.Lock) {
			l.Pin(ref("tool:acme/hello")).Grants = other
		}, "tool:acme/hello", fmt.Sprintf(`"tool:acme/hello" is locked with the grants %q, but has %q`, other,
			hello.Grants)},
		"no grants": {func(l *file.Lock) {
			l.Pin(ref("tool:acme/base/fetch")).Grants = cas.Digest{}
		}, "tool:acme/base/fetch", fmt.Sprintf(`"tool:acme/base/fetch" is locked with the grants none, but has %q`,
			fetch.Grants)},
		"no interface": {func(l *file.Lock) {
			l.Pin(ref("tool:acme/hello")).Interface = cas.Digest{}
		}, "tool:acme/hello", ""},
		"tree": {func(l *file.Lock) {
			l.Pin(ref("tool:acme/shop/run")).Tree = other
		}, "tool:acme/shop/run", fmt.Sprintf(`"tool:acme/shop/run" is locked with the tree %q, but has %q`, other,
			run.Tree)},
		"size": {func(l *file.Lock) {
			l.Pin(ref("tool:acme/hello")).Size++
		}, "tool:acme/hello", fmt.Sprintf(`"project/tools/acme/hello.sh": has %d bytes, the manifest says %d`,
			len(helloText), len(helloText)+1)},
		"path": {func(l *file.Lock) {
			l.Pin(ref("tool:acme/hello")).Path = "knowledge/acme/hello.md"
		}, "tool:acme/hello",
			`"tool:acme/hello" is locked from the space "project", but not found there: tool:acme/hello not found`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := w.edited(c.edit)
			if err != nil {
				t.Fatal(all(err))
			}
			_, err = w.use(s).state(t.Context(), ref(c.ref))
			if got := all(err); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	// The bytes of one stand under another's ref.
	_, err := w.edited(func(l *file.Lock) { l.Pin(ref("tool:acme/hello")).Path = "tools/acme/shop/acme/hello.sh" })
	w.says(err, `"tool:acme/hello": "tools/acme/shop/acme/hello.sh" is not its path`)
}

// TestBuiltin: what the binary has is held against the pin as well, whenever it is used.
func TestBuiltin(t *testing.T) {
	w := shop(t).build()
	s, err := w.edited(func(l *file.Lock) {
		p := l.Pin(ref("tool:" + bash))
		p.Interface = cas.Sum([]byte("other"))
	})
	if err != nil {
		t.Fatal(all(err))
	}
	_, err = ai.Walk(t.Context(), w.use(s).resolver, ref("tool:acme/hello"))
	if fault.CodeOf(err) != fault.LockMismatch {
		t.Errorf("got %v", err)
	}
}

// TestUnpinnedExtractor: among the files of a pinned tool stands an extractor that policy would let count.
func TestUnpinnedExtractor(t *testing.T) {
	w := shop(t)
	w.policy = "\noverride:\n  - \"**\"\n"
	w.files["project"] = files{
		"tools/top.py": pyTool("top"), "tools/__init__.py": "",
		"tools/rye/core/extractors/prompt_extractor.yaml": prompt,
		"prompts/hi.txt": "# Hi\n",
	}
	w.roots = []string{"tool:top"}
	w.build()
	s := w.set()
	if got := walk(t, s.Spaces()[0]); !slices.Contains(got, "tools/rye/core/extractors/prompt_extractor.yaml") {
		t.Fatalf("got %q", got)
	}
	u := w.use(s)
	if _, ok := u.view.Kind("prompt"); ok {
		t.Error("an extractor counts without a pin")
	}
	if _, err := u.state(t.Context(), ref("tool:top")); err != nil {
		t.Error(err)
	}
	// Pinned it counts, and has to.
	w.roots = append(w.roots, "prompt:hi")
	s = w.set()
	if _, ok := w.use(s).view.Kind("prompt"); !ok {
		t.Error("a pinned extractor doesn't count")
	}
	_, err := s.View(t.Context(), w.trust(), nil)
	if err != nil { // it stands in front of nothing
		t.Error(err)
	}
	_, err = s.View(t.Context(), nil, nil)
	want := `"tool:rye/core/extractors/prompt_extractor" is not signed by a key of the policy`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	// A lock that forgets who makes a kind.
	s, err = w.edited(func(l *file.Lock) {
		l.Pins = slices.DeleteFunc(l.Pins, func(p file.Pin) bool {
			return p.Ref.ID == "rye/core/extractors/tool/tool_extractor"
		})
	})
	if err != nil {
		t.Fatal(all(err))
	}
	trust := w.trust()
	_, err = s.View(t.Context(), trust, trust.Root.Policy.MayOverride)
	if want :=
		`items of kind "tool" are read by "tool:rye/core/extractors/tool/tool_extractor": "tool:rye/core/extractors/tool/tool_extractor" is not locked`; err == nil ||
		err.Error() != want {
		t.Errorf("got %v", err)
	}
	if _, ok := errors.AsType[*lock.NotLockedError](err); !ok {
		t.Errorf("got %v", err)
	}
}

// TestConfig: merged config is what the lock says, or isn't used.
func TestConfig(t *testing.T) {
	w := shop(t).build()
	s := w.set()
	u := w.use(s)
	m, err := s.Config(t.Context(), u.view, u.admit, "net")
	if err != nil {
		t.Fatal(err)
	}
	v, err := m.Value.JSON()
	if got := fmt.Sprint(v, err); got != "map[hosts:map[a:one b:two] name:net retries:3] <nil>" {
		t.Errorf("got %s", got)
	}
	if _, err := s.Config(t.Context(), u.view, u.admit, "no"); err == nil ||
		err.Error() != `"config:no" is not locked` {
		t.Errorf("got %v", err)
	}
	was, other := s.Lock().Definitions[0].Digest, cas.Sum([]byte("other"))
	for name, c := range map[string]struct {
		edit func(*file.Lock)
		want string
	}{
		"other": {func(l *file.Lock) {
			l.Definitions[0].Digest = other
		}, fmt.Sprintf(`"config:net" is locked with the definition %q, but has %q`, other, was)},
		"none": {func(l *file.Lock) { l.Definitions = nil }, `"config:net" is not locked`},
		"more": {func(l *file.Lock) {
			l.Definitions = append(l.Definitions, file.Definition{Name: "config:more", Digest: other},
				file.Definition{Name: "mcp:x", Digest: other})
		}, `"config:more" is not locked`},
		"no pin": {func(l *file.Lock) {
			l.Pins = slices.DeleteFunc(l.Pins, func(p file.Pin) bool { return p.Ref.Kind == "config" })
		}, `"config:net" is not locked`},
	} {
		s, err := w.edited(c.edit)
		if err != nil {
			t.Fatal(all(err))
		}
		u := w.use(s)
		if err := s.CheckConfig(t.Context(), u.view, u.admit); all(err) != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	// A layer that policy doesn't let count any more.
	u.admit = ai.NewAdmitter(u.resolver, nil)
	if err := s.CheckConfig(t.Context(), u.view, u.admit); err == nil {
		t.Error("config counts without a signature")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.CheckConfig(ctx, u.view, u.admit); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestObjects: everything that a set needs is named, and nothing else is ever asked for.
func TestObjects(t *testing.T) {
	w := full(t)
	l, b := w.full()
	s := w.setOf(l, cas.Sum(b))
	list, err := s.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	few := &world{TB: t, store: &cas.Memory{}, names: map[string]cas.ID{}, std: w.std, policy: w.policy}
	for i, o := range list {
		if i > 0 && (list[i-1].Kind > o.Kind || list[i-1].Kind == o.Kind && list[i-1].Digest.Compare(o.Digest) >= 0) {
			t.Errorf("%s isn't in order", o.ID)
		}
		from, err := w.store.Get(t.Context(), o.ID)
		if err != nil {
			t.Fatal(err)
		}
		info, err := few.store.Put(t.Context(), o.Kind, from)
		if err != nil || info.ID != o.ID || info.Size != o.Size {
			t.Errorf("%s: %d bytes, got %v, %v", o.ID, o.Size, info, err)
		}
		if (o.Kind == cas.Document) != (len(o.Signatures) > 0) {
			t.Errorf("%s has %d signatures", o.ID, len(o.Signatures))
		}
		if o.Signatures != nil {
			few.names[bundle.SignaturesRef(o.Digest)] = cas.ID{Kind: cas.Blob,
				Digest: few.put(cas.Blob, o.Signatures.Append(nil))}
		}
	}
	again, err := lock.NewSet(t.Context(), l, s.ID(), few.options())
	if err != nil {
		t.Fatal(all(err))
	}
	u := few.use(again)
	for _, p := range l.Pins {
		if _, err := u.state(t.Context(), p.Ref); err != nil {
			t.Errorf("%s: %v", p.Ref, err)
		}
	}
	if err := again.CheckConfig(t.Context(), u.view, u.admit); err != nil {
		t.Error(err)
	}
	if again.Bundle("acme/base").Version != "2.1.4" || again.Bundle("acme/none") != nil || again.ID() != s.ID() ||
		again.Lock() != l {
		t.Error("a set isn't what it was made of")
	}

	// Each object is needed: without it either there is no set, or something says what is missing and who needs it.
	for _, o := range list {
		if strings.HasPrefix(o.NeededBy, "pypi:") {
			continue // a set doesn't read what tools are run with
		}
		without := lock.SetOptions{Objects: gone{few, o.Digest}, Std: w.std}
		want := fmt.Sprintf("%s is missing, needed by %q", o.ID, o.NeededBy)
		s, err := lock.NewSet(t.Context(), l, s.ID(), without)
		if err != nil {
			if !strings.Contains(all(err), want) {
				t.Errorf("got\n%s\nwant\n%s", all(err), want)
			}
			continue
		}
		trust := w.trust()
		v, err := s.View(t.Context(), trust, trust.Root.Policy.MayOverride)
		told := err != nil && strings.Contains(err.Error(), o.Digest.String())
		if err == nil {
			u := &use{s, v, s.Resolver(v), ai.NewAdmitter(s.Resolver(v), s.Examiner(trust))}
			for _, p := range l.Pins {
				if _, err := u.state(t.Context(), p.Ref); err != nil {
					told = told || strings.Contains(err.Error(), want)
				}
			}
		}
		if !told {
			t.Errorf("nothing misses %s of %s", o.ID, o.NeededBy)
		}
	}
}

// TestManyAtOnce: a set is used by many, and another one takes its place meanwhile.
func TestManyAtOnce(t *testing.T) {
	w := shop(t).build()
	first := w.set()
	states := map[*lock.Set]string{}
	tell := func(s *lock.Set) string {
		u := w.use(s)
		text := ""
		for _, name := range []string{"tool:acme/hello", "tool:acme/shop/run", "tool:acme/deep/multi/multi",
			"config:net"} {
			state, err := u.state(t.Context(), ref(name))
			text += fmt.Sprintln(name, state, err)
		}
		if _, err := s.Objects(t.Context()); err != nil {
			t.Error(err)
		}
		return text
	}
	states[first] = tell(first)
	w.edit("tools/acme/hello.sh", "echo hello", "echo again")
	w.edit("tools/acme/shop/lib/help.py", "x = 1", "x = 3")
	second := w.set()
	states[second] = tell(second)
	if states[first] == states[second] {
		t.Fatal("nothing changed")
	}
	var current atomic.Pointer[lock.Set]
	current.Store(first)
	var wait sync.WaitGroup
	for i := range 100 {
		wait.Go(func() {
			s := current.Load()
			if got := tell(s); got != states[s] {
				t.Errorf("got\n%s\nwant\n%s", got, states[s])
			}
			if i%10 == 0 {
				current.Store([]*lock.Set{first, second}[i/10%2])
			}
		})
	}
	wait.Wait()
}

// edit changes a file of the project and signs everything that is signed anew.
func (w *world) edit(name, old, text string) {
	w.Helper()
	f := w.project()[name]
	if f == nil || !bytes.Contains(f.Data, []byte(old)) {
		w.Fatalf("%s has no %q", name, old)
	}
	f.Data = bytes.Replace(f.Data, []byte(old), []byte(text), 1)
	w.resign()
}

// resign signs every item of the project anew.
func (w *world) resign() {
	w.Helper()
	for range 2 { // with what was signed first stand files that others' signatures speak of
		v := w.view()
		l, err := v.Files(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		for _, f := range l.Files {
			if f.Space.Level != ai.Project {
				continue
			}
			it, err := v.Load(w.Context(), f)
			if errors.Is(err, ai.ErrAsset) {
				continue
			}
			if err != nil {
				w.Fatal(err)
			}
			b, err := sign.Strip(it.Bytes, it.Kind.Style(it.Path))
			if err != nil {
				w.Fatal(err)
			}
			w.project()[f.Path].Data = b
			w.sign(v, f, alice)
		}
	}
}

// TestFirst: what one source lacks another has, and signatures of all count.
func TestFirst(t *testing.T) {
	w := shop(t).build()
	l, b := w.made()
	// One has the manifests with Alice's signature, the other all the rest and with Bob's.
	some := &world{TB: t, store: &cas.Memory{}, names: map[string]cas.ID{}}
	for _, id := range w.ids {
		o, err := w.store.Get(t.Context(), cas.ID{Kind: cas.Document, Digest: id})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := some.store.Put(t.Context(), cas.Document, o); err != nil {
			t.Fatal(err)
		}
	}
	id := w.ids[base]
	some.names[bundle.SignaturesRef(id)] = w.names[bundle.SignaturesRef(id)]
	cosigned, err := bundle.ReadStored(t.Context(), w, w, id)
	if err != nil {
		t.Fatal(err)
	}
	cosigned.Signatures = nil
	if err := cosigned.Sign(bob, noon); err != nil {
		t.Fatal(err)
	}
	w.names[bundle.SignaturesRef(id)] = cas.ID{Kind: cas.Blob,
		Digest: w.put(cas.Blob, cosigned.Signatures.Append(nil))}
	empty := &world{TB: t, store: &cas.Memory{}, names: map[string]cas.ID{}}
	src := lock.First(lock.First(empty, some), w)
	s, err := lock.NewSet(t.Context(), l, cas.Sum(b), lock.SetOptions{Objects: src, Std: w.std})
	if err != nil {
		t.Fatal(all(err))
	}
	if got := s.Bundle("acme/base").Signatures; len(got) != 2 {
		t.Errorf("got %v", got)
	}
	if _, err := src.Get(t.Context(), cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte("nothing"))}); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := src.Ref("nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if at, err := src.Ref(bundle.SignaturesRef(id)); err != nil || at != some.names[bundle.SignaturesRef(id)] {
		t.Errorf("got %v, %v", at, err)
	}
	broken := errors.New("broken")
	src = lock.First(failing{broken}, empty)
	if _, err := src.Get(t.Context(), cas.ID{}); err != broken {
		t.Errorf("got %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := lock.First(w, empty).Get(ctx, cas.ID{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := lock.NewSet(ctx, l, s.ID(), w.options()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// A ref to signatures that are gone, and signatures that are none.
	w.names[bundle.SignaturesRef(id)] = cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte("nothing"))}
	_, err = lock.NewSet(t.Context(), l, s.ID(), w.options())
	w.says(err, fmt.Sprintf("blob %s is missing, needed by %q", cas.Sum([]byte("nothing")), "rye.lock"))
	w.names[bundle.SignaturesRef(id)] = cas.ID{Kind: cas.Blob, Digest: w.put(cas.Blob, []byte("nonsense\n"))}
	if _, err := lock.NewSet(t.Context(), l, s.ID(), w.options()); err == nil ||
		!strings.HasPrefix(err.Error(), `"bundle:acme/base@2.1.4": `) {
		t.Errorf("got %v", err)
	}
	// A document that is kept with its signature lines is another one.
	joined := append(cosigned.Signatures.Append(nil), w.bytes(cas.Document, id)...)
	_, err = w.edited(func(l *file.Lock) { l.Bundles[0].Manifest = w.put(cas.Document, joined) })
	if err == nil || !strings.Contains(err.Error(), "the document contains signature lines") {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Get(context.Context, cas.ID) (cas.Object, error) { return cas.Object{}, f.err }
func (f failing) Ref(string) (cas.ID, error)                      { return cas.ID{}, f.err }

func (w *world) bytes(kind cas.Kind, d cas.Digest) []byte {
	w.Helper()
	o, err := w.store.Get(w.Context(), cas.ID{Kind: kind, Digest: d})
	if err != nil {
		w.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(o); err != nil {
		w.Fatal(err)
	}
	return b.Bytes()
}

// TestOtherBytes: a store that hands out other bytes is found out whenever something is read.
func TestOtherBytes(t *testing.T) {
	w := shop(t).build()
	l, b := w.made()
	pin := l.Pin(ref("tool:acme/hello"))
	s, err := lock.NewSet(t.Context(), l, cas.Sum(b), lock.SetOptions{Objects: lying{w, pin.Digest}, Std: w.std})
	if err != nil {
		t.Fatal(all(err))
	}
	_, err = w.use(s).state(t.Context(), pin.Ref)
	if _, ok := errors.AsType[*cas.DamagedError](err); !ok {
		t.Errorf("got %v", err)
	}
}

// A lying source has other bytes under one digest.
type lying struct {
	*world
	id cas.Digest
}

func (l lying) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o, err := l.world.Get(ctx, id)
	if err != nil || id.Digest != l.id {
		return o, err
	}
	defer o.Close()
	b := bytes.Replace(l.bytes(id.Kind, id.Digest), []byte("echo hello"), []byte("echo pwned"), 1)
	f, err := (fstest.MapFS{"f": &fstest.MapFile{Data: b}}).Open("f")
	return cas.Verify(o.Info, f), err
}
