package closure_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/file"
)

const inStd = " " + file.FromStd

// shop is a project that uses everything.
func shop() *world {
	return &world{
		spaces: map[string]files{
			"project": {
				"tools/acme/hello.sh":        shTool("acme/hello"),
				"tools/acme/kit/__init__.py": "",
				"tools/acme/kit/lib/util.py": "X = 1\n",
				"tools/acme/kit/one.py":      pyTool("acme/kit/one", python),
				"tools/acme/kit/two.py":      pyTool("acme/kit/two", python),
				"tools/acme/run.yaml":        tool("acme/run", start, `permissions: ["execute:tool:acme/hello"]`),
				"directives/acme/release.md": directive("acme/release", releaseHead, releaseBody),
				"knowledge/acme/index.md": note("acme/index", "acme/deep", "tool:acme/base/fetch",
					"https://acme.example/x"),
				"knowledge/acme/deep.md":      note("acme/deep", "acme/index"),
				"knowledge/acme/elsewhere.md": note("acme/elsewhere"),
				"config/agent.yaml":           "loop: {turns: 5, mode: fast}\n",
				"_notes.txt":                  "nothing",
			},
			base: {
				"tools/acme/base/fetch.yaml":   tool("acme/base/fetch", "acme/base/rt"),
				"tools/acme/base/rt.yaml":      tool("acme/base/rt", start),
				"tools/acme/base/spare.yaml":   tool("acme/base/spare", start),
				"knowledge/acme/base/guide.md": note("acme/base/guide"),
				"directives/acme/base/sub.md": directive("acme/base/sub", "",
					`<load item_type="knowledge" item_id="acme/base/guide"/>`),
				"config/agent.yaml":             "loop: {turns: 3, depth: 2}\nmodel: small\n",
				"config/acme/base.yaml":         "on: true\n",
				"tools/acme/providers/own.yaml": tool("acme/providers/own", "rye/core/primitives/http_client"),
			},
		},
	}
}

const (
	releaseHead = `<model tier="fast" provider="acme/providers/own"/>
<permissions>
<execute><tool>acme/kit/*</tool><tool>acme/base/fetch</tool><tool>*</tool></execute>
<search>*</search>
<load><knowledge>acme/index</knowledge></load>
</permissions>
<tools><tool>acme/base/spare</tool></tools>
<hooks>
<hook event="error"><execute item_type="directive">acme/base/sub</execute></hook>
<hook event="limit"><action><primary>execute</primary><item_type>tool</item_type><item_id>acme/run</item_id></action></hook>
<hook event="start"><action>retry</action><load item_type="knowledge" item_id="acme/elsewhere"/></hook>
</hooks>`
	releaseBody = `<process>
<execute item_type="tool" item_id="acme/hello"/>
<execute item_id="acme/{name}"/>
<execute item_type="directive" item_id="acme/release"/>
<search item_type="tool" item_id="acme/none"/>
</process>`
)

func TestClose(t *testing.T) {
	w := shop()
	w.roots = []string{"directive:acme/release"}
	c, _ := w.build(t).close()
	same(t, "pins", pinned(c), []string{
		"config:acme/base " + base,
		"config:agent project",
		"directive:acme/base/sub " + base,
		"directive:acme/release project",
		"knowledge:acme/base/guide " + base,
		"knowledge:acme/deep project",
		"knowledge:acme/elsewhere project",
		"knowledge:acme/index project",
		"tool:acme/base/fetch " + base,
		"tool:acme/base/rt " + base,
		"tool:acme/base/spare " + base,
		"tool:acme/hello project",
		"tool:acme/kit/one project",
		"tool:acme/kit/two project",
		"tool:acme/providers/own " + base,
		"tool:acme/run project",
		"tool:rye/core/primitives/http_client" + inStd,
		"tool:" + start + inStd,
		"tool:" + bash + inStd,
		"tool:" + python + inStd,
	})
	same(t, "uses", uses(c), []string{
		"- config config:acme/base",
		"- config config:agent",
		"- root directive:acme/release by directive:acme/release",
		"directive:acme/base/sub action knowledge:acme/base/guide line 7",
		"directive:acme/release permission - by execute:tool:acme/kit/* line 7",
		"directive:acme/release hook directive:acme/base/sub line 13",
		"directive:acme/release action directive:acme/release line 21",
		"directive:acme/release hook knowledge:acme/elsewhere line 15",
		"directive:acme/release permission knowledge:acme/index line 9",
		"directive:acme/release permission tool:acme/base/fetch line 7",
		"directive:acme/release offer tool:acme/base/spare line 11",
		"directive:acme/release action tool:acme/hello line 19",
		"directive:acme/release provider tool:acme/providers/own line 5",
		"directive:acme/release hook tool:acme/run line 14",
		"knowledge:acme/deep reference knowledge:acme/index line 7",
		"knowledge:acme/index reference knowledge:acme/deep line 7",
		"knowledge:acme/index reference tool:acme/base/fetch line 7",
		"tool:acme/base/fetch executor tool:acme/base/rt line 7",
		"tool:acme/base/rt executor tool:" + start + " line 7",
		"tool:acme/base/spare executor tool:" + start + " line 7",
		"tool:acme/hello executor tool:" + bash + " line 6",
		"tool:acme/kit/one executor tool:" + python + " line 4",
		"tool:acme/kit/two executor tool:" + python + " line 4",
		"tool:acme/providers/own executor tool:rye/core/primitives/http_client line 7",
		"tool:acme/run permission tool:acme/hello line 8",
		"tool:acme/run executor tool:" + start + " line 7",
		"tool:" + bash + " executor tool:" + start + " line 3",
		"tool:" + python + " executor tool:" + start + " line 3",
	})
	same(t, "warnings", texts(c.Warnings), nil)
	// A pattern covers what was pinned for it.
	for _, u := range c.Uses {
		if u.Pattern == "execute:tool:acme/kit/*" &&
			(!u.Covers(ref("tool:acme/kit/one")) || u.Covers(ref("tool:acme/hello"))) {
			t.Errorf("%+v covers other items", u)
		}
		if u.To != (model.Ref{}) && (!u.Covers(u.To) || u.Covers(ref("tool:no/thing"))) {
			t.Errorf("%+v covers other items", u)
		}
	}
}

// Everything that a lock says of items, by the functions that say it elsewhere.
func TestPins(t *testing.T) {
	w := shop()
	b := w.build(t)
	both := find(t, b, "tool:acme/kit/two")
	admit := ai.NewAdmitter(b.view, b.trust)
	b.sign(admit, both, bob)
	c, _ := b.close()
	l := file.Lock{Pins: c.Pins, Definitions: c.Definitions}
	text, err := file.Append(nil, &l)
	if err != nil {
		t.Fatal(err)
	}
	read, err := file.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(read.Pins, c.Pins) || !reflect.DeepEqual(read.Definitions, c.Definitions) {
		t.Error("a lock of it says something else")
	}
	for _, p := range c.Pins {
		it := find(t, b, p.Ref.String())
		a, err := admit.Admit(t.Context(), it, 0)
		if err != nil {
			t.Fatal(err)
		}
		var tree cas.Digest
		if a.Tree != nil {
			tree = a.Tree.Digest
		}
		if p.Digest != it.Raw || p.From != it.Space.Label || p.Tree != tree || p.Version != it.Model.Version {
			t.Errorf("%s: got %+v", p.Ref, p)
		}
		var inter, grants cas.Digest
		if p.Ref.Kind == "tool" || p.Ref.Kind == "directive" {
			inter, _ = it.Model.Interface().Hash()
			grants, _ = it.Model.Grants().Hash()
		}
		if p.Interface != inter || p.Grants != grants {
			t.Errorf("%s: got interface %s and grants %s", p.Ref, p.Interface, p.Grants)
		}
		loose := it.Space.Level != ai.System
		if (p.Path == it.Path && p.Size == int64(len(it.Bytes)) && p.Mode != 0) != loose ||
			(p.Files != cas.Digest{}) != (loose && a.Tree != nil) {
			t.Errorf("%s: its place is %q %d %s %s", p.Ref, p.Path, p.Size, p.Mode, p.Files)
		}
		if (len(p.Signers) == 0) != it.Space.Builtin {
			t.Errorf("%s: signers %s", p.Ref, p.Signers)
		}
	}
	one, two := l.Pin(ref("tool:acme/kit/one")), l.Pin(ref("tool:acme/kit/two"))
	if one.Files != two.Files || one.Tree == two.Tree || one.Tree.IsZero() {
		t.Errorf("tools of one directory have the files %s and %s, the trees %s and %s", one.Files, two.Files,
			one.Tree, two.Tree)
	}
	if len(one.Signers) != 1 || len(two.Signers) != 2 || two.Signers[0].Compare(two.Signers[1]) >= 0 {
		t.Errorf("signers are %s and %s", one.Signers, two.Signers)
	}
	if l.Pin(ref("tool:acme/hello")).Mode != cas.Exec || one.Mode != cas.File {
		t.Error("modes are lost")
	}
}

func find(t testing.TB, b *built, text string) *ai.Item {
	t.Helper()
	it, err := b.view.Find(t.Context(), ref(text))
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// Without roots all of the project's items are some; globs cover what is in view.
func TestRoots(t *testing.T) {
	w := world{spaces: map[string]files{
		"project": {"knowledge/acme/a.md": note("acme/a"), "knowledge/acme/b.md": note("acme/b"),
			"knowledge/acme/none.md": "Just text.\n",
			"config/one.yaml":        "a: 1\n"},
		base: {"knowledge/acme/a.md": note("acme/a"), "knowledge/acme/c.md": note("acme/c"),
			"knowledge/other/d.md": note("other/d")},
	}}
	for _, tc := range []struct {
		roots, pins, warnings []string
	}{
		{nil, []string{"config:one project", "knowledge:acme/a project", "knowledge:acme/b project"}, nil},
		{[]string{"knowledge:acme/*"}, []string{"config:one project", "knowledge:acme/a project",
			"knowledge:acme/b project", "knowledge:acme/c " + base}, nil},
		{[]string{"**/d", "tool:none/**"}, []string{"config:one project", "knowledge:other/d " + base},
			[]string{`the root "tool:none/**" matches no item`}},
		{[]string{"knowledge:acme/c", "knowledge:acme/**"},
			[]string{"config:one project", "knowledge:acme/a project", "knowledge:acme/b project",
				"knowledge:acme/c " + base}, nil},
	} {
		w.roots = tc.roots
		c, _ := w.build(t).close()
		same(t, "pins", pinned(c), tc.pins)
		same(t, "warnings", texts(c.Warnings), tc.warnings)
	}
	w.roots = []string{"tool:rye/core/runtimes/*"}
	c, _ := w.build(t).close()
	if !slices.Contains(pinned(c), "tool:"+python+inStd) {
		t.Error("a glob doesn't cover the library")
	}
}

// The order of roots, of goroutines and of what is in memory changes nothing, and neither does having a store.
func TestOrder(t *testing.T) {
	w := shop()
	w.roots = []string{"directive:acme/release", "tool:acme/*", "knowledge:**", "tool:acme/kit/one",
		"directive:acme/base/*"}
	b := w.build(t)
	first, _ := b.close()
	for i := range 10 {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		rng.Shuffle(len(b.roots), func(i, j int) { b.roots[i], b.roots[j] = b.roots[j], b.roots[i] })
		b.look()
		var again *closure.Closure
		if i%2 == 0 {
			again, _ = b.close()
		} else {
			var err error
			if again, err = closure.Close(t.Context(), b.options(nil)); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(again.Pins, first.Pins) || !reflect.DeepEqual(again.Definitions, first.Definitions) ||
			!reflect.DeepEqual(again.Uses, first.Uses) {
			t.Fatalf("another order gives another closure:\n%v\n%v", again, first)
		}
	}
}

// What is in the store is what is pinned: spaces made of it give the same closure.
func TestFixpoint(t *testing.T) {
	for _, roots := range [][]string{nil, {"directive:acme/release"}, {"tool:acme/kit/one", "knowledge:acme/*"}} {
		w := shop()
		w.spaces["user"] = files{"config/mine.yaml": "a: 1\n", "config/agent.yaml": "model: large\n",
			"knowledge/acme/of/user.md": note("acme/of/user")}
		w.spaces["project"]["knowledge/acme/index.md"] = note("acme/index", "acme/of/user", "acme/deep")
		w.roots = roots
		b := w.build(t)
		c, store := b.close()
		again := &built{t: t, trust: b.trust, roots: b.roots, spaces: map[string]*ai.Space{base: b.spaces[base]}}
		for _, label := range []string{"project", "user"} {
			again.spaces[label] = &ai.Space{Label: label, Level: level(label), FS: unpacked(t, c, store, label)}
		}
		again.look()
		got, store2 := again.close()
		if !reflect.DeepEqual(got.Pins, c.Pins) || !reflect.DeepEqual(got.Definitions, c.Definitions) ||
			!reflect.DeepEqual(got.Uses, c.Uses) {
			t.Errorf("roots %q: from the pins comes another closure:\n%v\n%v", roots, got.Pins, c.Pins)
		}
		if a, b := listed(t, store), listed(t, store2); !slices.Equal(a, b) {
			t.Errorf("roots %q: other objects were put:\n%v\n%v", roots, a, b)
		}
	}
}

// unpacked returns the space that pins and a store make.
func unpacked(t testing.TB, c *closure.Closure, store *cas.Memory, label string) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	add := func(path string, d cas.Digest, size int64, mode cas.Mode) {
		f := &fstest.MapFile{Data: readAll(t, store, cas.ID{Kind: cas.Blob, Digest: d}), Mode: 0o644}
		if mode == cas.Exec {
			f.Mode = 0o755
		}
		if int64(len(f.Data)) != size {
			t.Errorf("%s has %d bytes and not %d", path, len(f.Data), size)
		}
		if old := m[path]; old != nil && (string(old.Data) != string(f.Data) || old.Mode != f.Mode) {
			t.Errorf("%s is two files", path)
		}
		m[path] = f
	}
	for _, p := range c.Pins {
		if p.From != label {
			continue
		}
		add(p.Path, p.Digest, p.Size, p.Mode)
		if p.Files.IsZero() {
			continue
		}
		err := cas.Walk(t.Context(), store, cas.ID{Kind: cas.TreeKind, Digest: p.Files},
			func(path string, e cas.Entry) error {
				if e.Mode != cas.Dir {
					add(path, e.Digest, e.Size, e.Mode)
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func listed(t testing.TB, store *cas.Memory) (all []string) {
	for info, err := range store.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info.ID.String())
	}
	slices.Sort(all)
	return all
}

// A stopper is a store that calls itself when it is given bytes.
type stopper func()

func (s stopper) Put(_ context.Context, kind cas.Kind, r io.Reader) (cas.Info, error) {
	s()
	return cas.Info{}, nil
}

func (s stopper) PutBytes(_ context.Context, _ cas.Kind, b []byte) (cas.Digest, error) {
	s()
	return cas.Sum(b), nil
}

func TestCancel(t *testing.T) {
	b := shop().build(t)
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	if _, err := closure.Close(ctx, b.options(stopper(func() { stop(why) }))); err != why {
		t.Errorf("got %v", err)
	}
	if _, err := closure.Close(ctx, b.options(nil)); err == nil {
		t.Error("what was cancelled before it began succeeds")
	}
}

// TestPrinted: other names of tools in permissions, and hooks as the documents of rye 1 print them, are what they
// stand for.
func TestPrinted(t *testing.T) {
	w := &world{
		spaces: map[string]files{"project": {
			"directives/scrape.md": "```xml\n<directive name=\"scrape\" version=\"1.0.0\"><metadata><description>x</description><permissions><execute><tool>rye.file-system.fs_write</tool></execute></permissions>" +
				"<hooks><hook event=\"thread_started\"><tool>rye.primary.load</tool><params><item_type>knowledge</item_type><item_id>identity</item_id></params></hook>" +
				"<hook event=\"error\"><action><item_id>rye/agent/threads/internal/control</item_id><params><action>retry</action></params></action></hook>" +
				"<hook event=\"after_step\"><execute>rye/agent/threads/thread_directive</execute></hook>" +
				"<hook event=\"after_step\"><tool>rye.bash.bash</tool></hook></hooks></metadata></directive>\n```\nGo.\n",
			"knowledge/identity.md": "---\nid: identity\ntitle: x\nentry_type: reference\nversion: 1.0.0\n---\nx\n",
		}},
		roots: []string{"directive:scrape"},
	}
	c, _ := w.build(t).close()
	got := strings.Join(uses(c), "\n")
	for _, want := range []string{"directive:scrape hook knowledge:identity",
		"directive:scrape permission tool:rye/file-system/write", "directive:scrape hook tool:rye/bash/bash"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if strings.Contains(got, "internal") || strings.Contains(got, "fs_write") {
		t.Errorf("%s", got)
	}
}
