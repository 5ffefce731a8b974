package chain_test

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/itemtest"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const primitive = "rye/core/primitives/p"

// A world is a project whose tool acme/x runs by the library's runtime.
type world struct {
	testing.TB
	project, library fstest.MapFS
	trust            *admission.Trust
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
	spaces := []*ai.Space{{Label: "project", Level: ai.Project, FS: w.project},
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
	return &chain.Source{Resolver: v, Admit: ai.NewAdmitter(v, w.trust), Own: func(f key.Fingerprint) bool {
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

// TestUnlisted: a file that no signature covers is refused.
func TestUnlisted(t *testing.T) {
	s := newWorld(t, keytest.Alice()).source()
	s.Unlisted = func(*ai.Admission) []string { return []string{"lib.py"} }
	if _, err := s.Find(t.Context(), ref("acme/x"), fitsAll); fault.CodeOf(err) != fault.Policy ||
		fault.Of(err).Details["reason"] != "evidence-only" {
		t.Errorf("%v", err)
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
	if err != nil || key == "" || c.Links[0].Tree.IsZero() {
		t.Errorf("key %q, tree %s, %v", key, c.Links[0].Tree, err)
	}
	w.project["tools/acme/d/parts"].Data = []byte("evil")
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
	if changed != 1 {
		t.Errorf("%d of %d files have changed", changed, len(c.Parts))
	}
}
