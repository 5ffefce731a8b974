package chain_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/itemtest"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const primitive = "rye/core/primitives/p"

// A world is a project whose tool acme/x runs by the library's runtime.
type world struct {
	testing.TB
	project, library fstest.MapFS
	trust            *admission.Trust
	dev              model.Ref
	exec             func(string, fs.FileInfo) bool
}

// revoke revokes the bytes that acme/x has now.
func (w *world) revoke() {
	w.trust = admissiontest.Trust(w, noon, fmt.Sprintf("  \"**\": {keys: [alice, bob]}\nrevoked: {%q: {}}\n",
		cas.Sum(w.project["tools/acme/x.yaml"].Data)))
}

func newWorld(t testing.TB, keys ...key.Private) *world {
	w := &world{TB: t,
		project: fstest.MapFS{"tools/acme/x.yaml": {Data: []byte(itemtest.Tool("acme/x", "rye/core/runtimes/r",
			"config: {a: 1}"))}},
		library: fstest.MapFS{
			"tools/rye/core/runtimes/r.yaml": {Data: []byte(itemtest.Tool("rye/core/runtimes/r", primitive,
				"config: {b: 2}"))},
			"tools/" + primitive + ".yaml": {Data: []byte(itemtest.Tool(primitive, "null"))},
		},
		trust: admissiontest.Trust(t, noon, "  \"**\": {keys: [alice, bob]}\n")}
	file := w.project["tools/acme/x.yaml"]
	view := w.view()
	it, err := view.Find(t.Context(), ref("acme/x"))
	if err != nil {
		t.Fatal(err)
	}
	file.Data = itemtest.Signed(t, ai.NewAdmitter(view, nil), it, noon, keys...)
	return w
}

func ref(id string) model.Ref { return model.Ref{Kind: "tool", ID: id} }

func (w *world) view() *ai.View {
	w.Helper()
	spaces := []*ai.Space{{Label: "project", Level: ai.Project, FS: w.project, Exec: w.exec},
		{Label: "system:rye/std", FS: w.library, Builtin: true}}
	v, err := ai.NewView(w.Context(), ai.Options{Spaces: spaces, Trust: w.trust})
	if err != nil {
		w.Fatal(err)
	}
	return v
}

// source is of a user who holds alice's key.
func (w *world) source() *chain.Source {
	w.Helper()
	v := w.view()
	admit := ai.NewAdmitter(v, w.trust)
	return &chain.Source{Resolver: v, Admit: admit, Dev: w.dev, Own: func(f key.Fingerprint) bool {
		return f == keytest.Alice().Public().Fingerprint()
	}}
}

func fitsAll(*ai.Chain) error { return nil }

// TestFind: a chain leads from the tool to the primitive, says who vouches for each link, and has the files of all but
// the primitive.
func TestFind(t *testing.T) {
	w := newWorld(t, keytest.Alice())
	c, err := w.source().Find(t.Context(), ref("acme/x"), fitsAll)
	if err != nil {
		t.Fatal(err)
	}
	var links, signers []string
	for _, l := range c.Links {
		links = append(links, l.Item.Ref.ID)
		signers = append(signers, strings.Join(l.Signers, ","))
	}
	if want := []string{"acme/x", "rye/core/runtimes/r", primitive}; !slices.Equal(links, want) {
		t.Errorf("%q; want %q", links, want)
	}
	if want := []string{keytest.Alice().Public().Fingerprint().String(), "builtin", "builtin"}; !slices.Equal(signers,
		want) {
		t.Errorf("signed by %q; want %q", signers, want)
	}
	if !c.Own || c.Foreign {
		t.Errorf("own %v, foreign %v", c.Own, c.Foreign)
	}
	files := map[string]string{}
	for _, part := range c.Parts {
		o, err := c.Files.Get(t.Context(), part.ID)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(o)
		if err != nil {
			t.Fatal(err)
		}
		files[part.Path] = string(b)
	}
	want := map[string]string{
		"project/tools/acme/x.yaml":                     string(w.project["tools/acme/x.yaml"].Data),
		"system/rye/std/tools/rye/core/runtimes/r.yaml": string(w.library["tools/rye/core/runtimes/r.yaml"].Data),
	}
	if !maps.Equal(files, want) {
		t.Errorf("its files are %q", slices.Sorted(maps.Keys(files)))
	}
	if l := &c.Links[0]; !l.Has("project/tools/acme/x.yaml") ||
		l.Has("system/rye/std/tools/rye/core/runtimes/r.yaml") {
		t.Error("the tool has files of its runtime, or lacks its own")
	}
	if !slices.IsSortedFunc(c.Parts, func(a, b materialise.Part) int { return strings.Compare(a.Path, b.Path) }) {
		t.Errorf("%+v", c.Parts)
	}
	if _, err := c.Files.Get(t.Context(), cas.ID{Digest: cas.Sum(nil)}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file of no link: %v", err)
	}
	config, err := c.Config()
	if err != nil || !config.Only() {
		t.Errorf("its configuration is %+v, %v", config, err)
	}
}

// TestSigners: whose items take part decides about the sandbox.
func TestSigners(t *testing.T) {
	for name, c := range map[string]struct {
		signer       key.Private
		dev          bool
		own, foreign bool
	}{
		"the user's":           {keytest.Alice(), false, true, false},
		"another signer's":     {keytest.Bob(), false, false, true},
		"under development":    {keytest.Bob(), true, false, false},
		"unknown, development": {keytest.Eve(), true, false, false},
	} {
		s := newWorld(t, c.signer).source()
		if c.dev {
			s.Dev = ref("acme/x")
		}
		found, err := s.Find(t.Context(), ref("acme/x"), fitsAll)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if found.Own != c.own || found.Foreign != c.foreign || c.dev &&
			!slices.Equal(found.Links[0].Signers, []string{"dev"}) {
			t.Errorf("%s: own %v, foreign %v, signed by %q", name, found.Own, found.Foreign, found.Links[0].Signers)
		}
	}
}

// TestRevokedSigner: a revoked key vouches for nothing, even beside one that does. A receipt would name its owner.
func TestRevokedSigner(t *testing.T) {
	w := newWorld(t, keytest.Alice(), keytest.Bob())
	w.trust = admissiontest.Trust(w, noon, fmt.Sprintf("  \"**\": {keys: [alice, bob]}\nrevoked: {\"key:%s\": {}}\n",
		keytest.Bob().Public().Fingerprint()))
	c, err := w.source().Find(t.Context(), ref("acme/x"), fitsAll)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{keytest.Alice().Public().Fingerprint().String()}; !slices.Equal(c.Links[0].Signers, want) {
		t.Errorf("signed by %q", c.Links[0].Signers)
	}
}

// TestFindRefuses: a chain with a link that the policies don't admit is no chain.
func TestFindRefuses(t *testing.T) {
	mine := errors.New("this kernel can't run it")
	for name, c := range map[string]struct {
		signers []key.Private
		change  func(*world)
		id      string
		fits    func(*ai.Chain) error
		code    fault.Code
	}{
		"revoked, under development": {nil, func(w *world) { w.dev = ref("acme/x"); w.revoke() }, "acme/x", fitsAll,
			fault.Policy},
		"revoked": {[]key.Private{keytest.Alice()}, func(w *world) { w.revoke() }, "acme/x", fitsAll,
			fault.Policy},
		"unsigned":          {nil, func(*world) {}, "acme/x", fitsAll, fault.Unsigned},
		"by an unknown key": {[]key.Private{keytest.Eve()}, func(*world) {}, "acme/x", fitsAll, fault.UntrustedKey},
		"changed": {[]key.Private{keytest.Alice()}, func(w *world) {
			w.project["tools/acme/x.yaml"].Data = append(w.project["tools/acme/x.yaml"].Data, "risk: read\n"...)
		}, "acme/x", fitsAll, fault.Integrity},
		"missing": {[]key.Private{keytest.Alice()}, func(*world) {}, "acme/y", fitsAll,
			fault.ToolNotFound},
		"without its runtime": {[]key.Private{keytest.Alice()}, func(w *world) {
			delete(w.library, "tools/rye/core/runtimes/r.yaml")
		}, "acme/x", fitsAll, fault.ExecutorNotFound},
		"it doesn't fit": {nil, func(*world) {}, "acme/x", func(*ai.Chain) error { return mine }, fault.Unknown},
	} {
		w := newWorld(t, c.signers...)
		c.change(w)
		found, err := w.source().Find(t.Context(), ref(c.id), c.fits)
		if err == nil || found != nil || fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v, %s %v", name, found, fault.CodeOf(err), err)
		}
	}
}

// TestMode: a file that its project has as executable is copied as one. A tool that runs by its own file doesn't start
// otherwise.
func TestMode(t *testing.T) {
	w := newWorld(t, keytest.Alice())
	for _, c := range []struct {
		mode fs.FileMode
		exec func(string, fs.FileInfo) bool // of the space
		want cas.Mode
	}{
		{0o644, nil, cas.File}, {0o755, nil, cas.Exec},
		{0o644, func(string, fs.FileInfo) bool { return true }, cas.Exec},
		{0o755, func(string, fs.FileInfo) bool { return false }, cas.File},
	} {
		w.project["tools/acme/x.yaml"].Mode = c.mode
		w.exec = c.exec
		found, err := w.source().Find(t.Context(), ref("acme/x"), fitsAll)
		if err != nil {
			t.Fatal(err)
		}
		if got := found.Parts[0].Mode; got != c.want {
			t.Errorf("%s: %v; want %v", c.mode, got, c.want)
		}
	}
}

// TestMemory: an admitted chain is kept, with its items, as far as there is room. Without it each call reads and
// verifies all files again; without bounds a server's memory grows for ever.
func TestMemory(t *testing.T) {
	w := newWorld(t, keytest.Alice())
	s := w.source()
	s.Memory = new(chain.Memory)
	first, err := s.Find(t.Context(), ref("acme/x"), fitsAll)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Find(t.Context(), ref("acme/x"), fitsAll); err != nil || again != first {
		t.Errorf("it is found anew: %v", err)
	}
	mine := errors.New("this kernel can't run it")
	if _, err := s.Find(t.Context(), ref("acme/x"), func(*ai.Chain) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("a chain that is kept always fits: %v", err)
	}
	keep := func(m *chain.Memory, id string, size int, listed bool) bool {
		it := &ai.Item{Bytes: make([]byte, size)}
		it.Ref = ref(id)
		a := &ai.Admission{Exam: &admission.Exam{}}
		a.Listed = listed
		m.Keep(it, a)
		return m.Item(it.Ref) == it
	}
	const most = 8 << 20
	m := new(chain.Memory)
	for _, c := range []struct {
		id     string
		size   int
		listed bool
		kept   []string
	}{
		{"a", 1, false, []string{"a"}},
		{"listed", 1, true, []string{"a"}},
		{"b", most - 1, false, []string{"a", "b"}},
		{"c", 1, false, []string{"c"}},
		{"d", most + 1, false, nil},
		{"e", most, false, []string{"e"}},
	} {
		want := slices.Contains(c.kept, c.id)
		if got := keep(m, c.id, c.size, c.listed); got != want {
			t.Errorf("%s is kept: %t", c.id, got)
		}
		for _, id := range c.kept {
			if m.Item(ref(id)) == nil {
				t.Errorf("%s is forgotten with %s", id, c.id)
			}
		}
		for _, id := range []string{"a", "b", "c", "e"} {
			if !slices.Contains(c.kept, id) && m.Item(ref(id)) != nil {
				t.Errorf("%s is kept with %s", id, c.id)
			}
		}
	}
	m = new(chain.Memory)
	for i := range 1 << 10 {
		keep(m, fmt.Sprint(i), 1, false)
	}
	if m.Item(ref("0")) == nil {
		t.Error("1024 items have no room")
	}
	if keep(m, "last", 1, false); m.Item(ref("0")) != nil {
		t.Error("1025 items are kept")
	}
	var none *chain.Memory
	if keep(none, "a", 1, false) || none.Item(ref("a")) != nil {
		t.Error("no memory keeps an item")
	}
}

// TestUnlisted: a file that no signature covers is refused.
func TestUnlisted(t *testing.T) {
	s := newWorld(t, keytest.Alice()).source()
	s.Unlisted = func(*ai.Admission) []string { return []string{"lib.py"} }
	if _, err := s.Find(t.Context(), ref("acme/x"), fitsAll); fault.CodeOf(err) != fault.Policy ||
		fault.Of(err).Details["reason"] != "evidence-only" {
		t.Errorf("%v", err)
	}
	s.Unlisted = func(*ai.Admission) []string { return nil }
	if _, err := s.Find(t.Context(), ref("acme/x"), fitsAll); err != nil {
		t.Errorf("all files are listed: %v", err)
	}
}

// TestFileChanges: bytes are hashed again as they are read, so a file that changes after its chain was admitted is an
// error.
func TestFileChanges(t *testing.T) {
	w := newWorld(t)
	w.project["tools/acme/d/d.yaml"] = &fstest.MapFile{Data: []byte(itemtest.Tool("acme/d/d", "rye/core/runtimes/r",
		"anchor: {enabled: true, mode: auto, markers_any: [parts], root: tool_dir}"))}
	w.project["tools/acme/d/parts"] = &fstest.MapFile{Data: []byte("good")}
	s := w.source()
	it, err := w.view().Find(t.Context(), ref("acme/d/d"))
	if err != nil {
		t.Fatal(err)
	}
	w.project["tools/acme/d/d.yaml"].Data = itemtest.Signed(t, s.Admit, it, noon, keytest.Alice())
	c, err := w.source().Find(t.Context(), ref("acme/d/d"), fitsAll)
	if err != nil {
		t.Fatal(err)
	}
	key, err := c.Key()
	if err != nil || key == "" || c.Links[0].Tree.IsZero() || !c.Own || c.Foreign {
		t.Errorf("key %q, tree %s, own %t, foreign %t, %v", key, c.Links[0].Tree, c.Own, c.Foreign, err)
	}
	for want, text := range []string{"good", "evil"} {
		w.project["tools/acme/d/parts"].Data = []byte(text)
		changed := 0
		for _, part := range c.Parts {
			o, err := c.Files.Get(t.Context(), part.ID)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(o); err != nil {
				changed++
			}
		}
		if changed != want {
			t.Errorf("%d of %d files have changed", changed, len(c.Parts))
		}
	}
	// A stranger's tool is one with all its files.
	w.project["tools/acme/d/d.yaml"].Data = itemtest.Signed(t, w.source().Admit, it, noon, keytest.Bob())
	if c, err = w.source().Find(t.Context(), ref("acme/d/d"), fitsAll); err != nil || c.Own || !c.Foreign {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestOwned: what was made of an unsigned plugin is a stranger's, although its user signed it.
func TestOwned(t *testing.T) {
	w := newWorld(t, keytest.Alice())
	s := w.source()
	it, err := w.view().Find(t.Context(), ref("acme/x"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Admit.Admit(t.Context(), it, policy.ToUse)
	if err != nil {
		t.Fatal(err)
	}
	made, bundled := *it, *it
	made.Ref.ID, bundled.Ref.ID = "plugins/x/skills/y/skill", "plugins/x/skills/y/skill"
	bundled.Space = &ai.Space{Label: "system:plugins/x", Level: ai.System}
	for name, c := range map[string]struct {
		it   *ai.Item
		want bool
	}{"own": {it, true}, "made of a plugin": {&made, false}, "of a signed plugin": {&bundled, true}} {
		if got := chain.Owned(c.it, a, s.Own); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
