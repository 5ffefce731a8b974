package relock_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/lock/resolve"
	"github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/manifest"
)

// shelf is where a lock of the world says that its bundles come from.
var shelf = project.Source{Index: true, Where: "../dist"}

// A stock is the sources of a world whose bundles were packed. One that is away is an error that says why.
type stock struct {
	*world
	away error
}

func (s stock) Versions(_ context.Context, id string) ([]resolve.Candidate, error) {
	return []resolve.Candidate{{Version: s.versions[file.System+id]}}, nil
}

func (s stock) Manifest(_ context.Context, id, _ string) (cas.Digest, project.Source, error) {
	return s.ids[file.System+id], shelf, nil
}

func (s stock) Logged(context.Context, string, string, project.Source) (string, int64, error) {
	return "", 0, nil
}

func (s stock) Requires(ctx context.Context, want file.Bundle) ([]manifest.Require, error) {
	b, err := s.Bring(ctx, want, nil)
	if err != nil {
		return nil, err
	}
	return b.Requires, nil
}

func (s stock) Bring(ctx context.Context, want file.Bundle, _ []*ai.Space) (*bundle.Bundle, error) {
	if s.away != nil {
		return nil, s.away
	}
	return bundle.ReadStored(ctx, s.store, s, want.Manifest)
}

// request is what a lock of the world is made of, once its bundles are packed.
func (w *world) request(away error) relock.Request {
	w.Helper()
	p := &project.Project{}
	for _, text := range w.roots {
		more, err := project.Parse([]byte("roots: ["+text+"]\n"), "")
		if err != nil {
			w.Fatal(err)
		}
		p.Roots = append(p.Roots, more.Roots...)
	}
	for _, r := range w.requires["project"] {
		need, err := project.NewRequirement(r[0], r[1], shelf)
		if err != nil {
			w.Fatal(err)
		}
		need.Use = nil
		p.Requires = append(p.Requires, need)
	}
	return relock.Request{Project: p, Env: relock.Env{Sources: stock{w, away}, Files: w.store, Library: w.std,
		View: func(ctx context.Context, system []*ai.Space) (*ai.View, *ai.Admitter, func(), error) {
			trust := w.trust()
			v, err := ai.NewView(ctx, ai.Options{Spaces: append([]*ai.Space{w.spaces["project"]}, system...),
				Trust: trust, MayOverride: trust.Root.Policy.MayOverride})
			if err != nil {
				return nil, nil, nil, err
			}
			admit := ai.NewAdmitter(v, trust)
			admit.KeepTrees()
			return v, admit, func() {}, nil
		}}}
}

// TestMakePinned: of a bundle that is out of reach what was pinned does, if it is the very bundle; and what is wrong
// with a bundle that is there isn't that.
func TestMakePinned(t *testing.T) {
	w := shop(t)
	w.requires[base] = w.requires[base][:1] // bundles no longer require the library
	w.build()
	old, _ := w.made()
	for i := range old.Bundles {
		old.Bundles[i].Source = shelf
	}
	for i := range old.Requires {
		old.Requires[i].Source = shelf
	}
	old, b := w.written(old)
	pinned := w.setOf(old, cas.Sum(b))
	other := shop(t)
	other.files[base]["knowledge/acme/idle.md"] += "More.\n"
	stranger := other.build().set()

	offline, gone := &source.OfflineError{Address: "https://a.example", ID: "acme/base"},
		&fs.PathError{Op: "open", Path: "../dist", Err: fs.ErrNotExist}
	for name, c := range map[string]struct {
		pinned *lock.Set
		away   error
		good   bool
	}{
		"here":                  {nil, nil, true},
		"here, and pinned":      {pinned, nil, true},
		"offline":               {nil, offline, false},
		"offline, and pinned":   {pinned, offline, true},
		"gone":                  {nil, gone, false},
		"gone, and pinned":      {pinned, gone, true},
		"another is pinned":     {stranger, offline, false},
		"refused":               {pinned, errors.New("revoked"), false},
		"refused, one is other": {stranger, errors.New("revoked"), false},
	} {
		r := w.request(c.away)
		r.Old, r.Pinned = old, c.pinned
		made, err := relock.Make(t.Context(), r)
		switch {
		case c.good && (err != nil || made.ID != cas.Sum(b)):
			t.Errorf("%s: %v", name, all(err))
		case !c.good && !errors.Is(err, c.away):
			t.Errorf("%s: %v", name, err)
		}
		brought, err := relock.Bring(t.Context(), r)
		if (err == nil) != c.good || c.good && len(brought) != len(old.Bundles) {
			t.Errorf("%s: %d bundles, %v", name, len(brought), err)
		}
	}
}

// TestMakeUses: the items of a required bundle are roots, as far as use: in rye.yaml lets them.
func TestMakeUses(t *testing.T) {
	for use, want := range map[string][2]bool{"": {true, true}, ", use: []": {},
		`, use: ["tool:acme/**"]`: {true, false}, `, use: ["knowledge:**"]`: {false, true}} {
		w := shop(t)
		w.requires[base] = w.requires[base][:1]
		w.build()
		old, _ := w.made()
		for i := range old.Bundles {
			old.Bundles[i].Source = shelf
		}
		for i := range old.Requires {
			old.Requires[i].Source = shelf
		}
		old, _ = w.written(old)
		p, err := project.Parse(
			[]byte(
				"roots: [\"tool:acme/hello\"]\nrequires:\n  acme/base: {version: \"^2.1\", index: \"https://a.example/index.yaml\""+
					use+"}\n"), "")
		if err != nil {
			t.Fatal(err)
		}
		r := w.request(nil)
		r.Old, r.Project.Requires[0].Use = old, p.Requires[0].Use
		made, err := relock.Make(t.Context(), r)
		if err != nil {
			t.Fatalf("%q: %v", use, all(err))
		}
		if got := [2]bool{made.Lock.Pin(ref("tool:acme/base/idle")) != nil,
			made.Lock.Pin(ref("knowledge:acme/idle")) != nil}; got != want {
			t.Errorf("%q: got %v, want %v", use, got, want)
		}
	}
}

// TestMakeReached: the user's own lock has those of the bundles installed that something is pinned from, and what
// these require.
func TestMakeReached(t *testing.T) {
	const lone = "system:acme/lone"
	for roots, want := range map[string]string{
		"tool:acme/base/fetch":                      "acme/base acme/util",
		"knowledge:acme/see":                        "acme/util",
		"knowledge:acme/alone":                      "acme/lone",
		"tool:acme/base/fetch knowledge:acme/alone": "acme/base acme/lone acme/util",
		"tool:acme/hello":                           "",
	} {
		w := shop(t)
		w.requires[base] = w.requires[base][:1]
		w.files[lone] = files{"knowledge/acme/alone.md": note("acme/alone")}
		w.versions[lone] = "1.0.0"
		w.build()
		all, _ := w.made()
		w.roots = strings.Fields(roots)
		r := w.request(nil)
		made, err := relock.MakeUser(t.Context(), r, all.Bundles)
		if err != nil {
			t.Errorf("%s: %v", roots, err)
			continue
		}
		var ids []string
		for i, b := range made.Lock.Bundles {
			if ids = append(ids, b.ID); made.Bundles[i].BundleID != b.ID {
				t.Errorf("%s: %q is said to be %q", roots, made.Bundles[i].BundleID, b.ID)
			}
		}
		if !slices.Equal(ids, strings.Fields(want)) || len(made.Bundles) != len(ids) {
			t.Errorf("%s: %q, want %q", roots, ids, want)
		}
	}
}
