package relock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/resolve"
	"github.com/rye-build/rye/manifest"
)

// A branch is sources with acme/base and acme/util in repositories whose branches have moved to other versions.
type branch struct {
	Sources
	tips  map[string]string // versions
	needs map[string]string // ranges of what acme/base needs in acme/util
	asked []string
	fail  error
}

var (
	oldCommit, newCommit = strings.Repeat("1", 40), strings.Repeat("2", 40)
	oldManifest          = cas.Sum([]byte("old"))
	newManifest          = cas.Sum([]byte("new"))
)

func placeOf(t testing.TB, id, revision string) project.Source {
	t.Helper()
	s, err := project.ParseSource("git+https://git.acme.example/"+id+revision, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (b *branch) Versions(_ context.Context, id string) ([]resolve.Candidate, error) {
	if b.asked = append(b.asked, id); b.fail != nil {
		return nil, b.fail
	}
	c := resolve.Candidate{Version: b.tips[id], Requires: map[string]semver.Range{}}
	if needs := b.needs[id+"@"+c.Version]; needs != "" {
		c.Requires["acme/util"], _ = semver.Parse(needs)
	}
	return []resolve.Candidate{c}, nil
}

func (b *branch) Manifest(_ context.Context, id, version string) (cas.Digest, project.Source, error) {
	return newManifest, project.Source{Where: "git+https://git.acme.example/" + id + "@" + newCommit}, nil
}

func (b *branch) Logged(context.Context, string, string, project.Source) (string, int64, error) {
	return "", 0, nil
}

func (b *branch) Requires(_ context.Context, want file.Bundle) ([]manifest.Require, error) {
	if needs := b.needs[want.ID+"@"+want.Version]; needs != "" {
		return []manifest.Require{{BundleID: "acme/util", Version: needs}}, nil
	}
	return nil, nil
}

// TestHeld chooses versions while branches go on: what is locked stays until an update is asked for, or nothing else
// will do.
func TestHeld(t *testing.T) {
	old := &file.Lock{}
	for _, id := range []string{"acme/base", "acme/util"} {
		r, err := project.NewRequirement(id, "^1.0", placeOf(t, id, "@main"))
		if err != nil {
			t.Fatal(err)
		}
		old.Requires = append(old.Requires, r)
		old.Bundles = append(old.Bundles, file.Bundle{ID: id, Version: "1.0.0", Manifest: oldManifest,
			Source: placeOf(t, id, "@"+oldCommit)})
	}
	for name, c := range map[string]struct {
		base   project.Source
		ranges string // of acme/base
		update []string
		all    bool
		needs  map[string]string
		asked  string
		want   string
	}{
		"nothing asked": {placeOf(t, "acme/base", "@main"), ">=1.0", nil, false, nil, "",
			"acme/base 1.0.0, acme/util 1.0.0"},
		"one is updated": {placeOf(t, "acme/base", "@main"), ">=1.0", []string{"acme/base"}, false, nil,
			"acme/base", "acme/base 1.1.0, acme/util 1.0.0"},
		"all are": {placeOf(t, "acme/base", "@main"), ">=1.0", nil, true, nil, "acme/base acme/util",
			"acme/base 1.1.0, acme/util 1.1.0"},
		"another branch": {placeOf(t, "acme/base", "@next"), ">=1.0", nil, false, nil, "acme/base",
			"acme/base 1.1.0, acme/util 1.0.0"},
		"another repository": {placeOf(t, "acme/other", "@main"), ">=1.0", nil, false, nil, "acme/base",
			"acme/base 1.1.0, acme/util 1.0.0"},
		"the commit": {placeOf(t, "acme/base", "@"+oldCommit), ">=1.0", nil, false, nil, "",
			"acme/base 1.0.0, acme/util 1.0.0"},
		"another commit": {placeOf(t, "acme/base", "@"+newCommit), ">=1.0", nil, false, nil, "acme/base",
			"acme/base 1.1.0, acme/util 1.0.0"},
		"another range": {placeOf(t, "acme/base", "@main"), "^1.1", nil, false, nil, "acme/base",
			"acme/base 1.1.0, acme/util 1.0.0"},
		"what it needs holds": {placeOf(t, "acme/base", "@main"), ">=1.0", nil, false,
			map[string]string{"acme/base@1.0.0": "^1.0"}, "", "acme/base 1.0.0, acme/util 1.0.0"},
		"what it needs": {placeOf(t, "acme/base", "@main"), "^1.1", nil, false,
			map[string]string{"acme/base@1.1.0": "^1.1"}, "acme/base acme/base acme/util",
			"acme/base 1.1.0, acme/util 1.1.0"},
	} {
		b := &branch{tips: map[string]string{"acme/base": "1.1.0", "acme/util": "1.1.0"}, needs: c.needs}
		need, err := project.NewRequirement("acme/base", c.ranges, c.base)
		if err != nil {
			t.Fatal(err)
		}
		r := Request{Project: &project.Project{Requires: []project.Requirement{need, old.Requires[1]}}, Old: old,
			Update: c.update, UpdateAll: c.all, Env: Env{Sources: b}}
		chosen, err := r.choose(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for i, line := range chosen {
			got = append(got, line.ID+" "+line.Version)
			if line.Version == "1.0.0" && line != old.Bundles[i] || line.Version != "1.0.0" &&
				line.Manifest != newManifest {
				t.Errorf("%s: %+v", name, line)
			}
		}
		slices.Sort(b.asked)
		if strings.Join(got, ", ") != c.want || strings.Join(b.asked, " ") != c.asked {
			t.Errorf("%s: %q, asked for %q", name, got, b.asked)
		}
	}

	// A list of what there is shows both.
	b := &branch{tips: map[string]string{"acme/base": "1.1.0", "acme/util": "1.0.0"}}
	r := Request{Project: &project.Project{Requires: old.Requires}, Old: old, Env: Env{Sources: b}}
	res, err := Choose(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	newer := res.Outdated()
	if len(newer) != 1 || newer[0].ID != "acme/base" || newer[0].Version != "1.0.0" || newer[0].Allowed != "1.1.0" {
		t.Errorf("outdated: %+v", newer)
	}
	b.fail = errors.New("no network")
	if _, err := Choose(t.Context(), r); !errors.Is(err, b.fail) {
		t.Errorf("without a network: %v", err)
	}
	b.needs = map[string]string{"acme/base@1.0.0": "no range"}
	if _, err := Choose(t.Context(), r); err == nil {
		t.Error("a range that is none")
	}
}

// TestHeldAside has one repository go on because another bundle needs a newer version: those beside it stay.
func TestHeldAside(t *testing.T) {
	old := &file.Lock{}
	for _, id := range []string{"acme/base", "acme/side", "acme/util"} {
		r, err := project.NewRequirement(id, ">=1.0", placeOf(t, id, "@main"))
		if err != nil {
			t.Fatal(err)
		}
		old.Requires = append(old.Requires, r)
		old.Bundles = append(old.Bundles, file.Bundle{ID: id, Version: "1.0.0", Manifest: oldManifest,
			Source: placeOf(t, id, "@"+oldCommit)})
	}
	base, err := project.NewRequirement("acme/base", "^1.1", placeOf(t, "acme/base", "@main"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tip := range []string{"1.0.0", "1.1.0"} { // of acme/side: another commit, and another version
		b := &branch{tips: map[string]string{"acme/base": "1.1.0", "acme/util": "1.1.0", "acme/side": tip},
			needs: map[string]string{"acme/base@1.1.0": "^1.1"}}
		r := Request{Project: &project.Project{Requires: []project.Requirement{base, old.Requires[1],
			old.Requires[2]}}, Old: old, Env: Env{Sources: b}}
		chosen, err := r.choose(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(chosen) != 3 || chosen[0].Version != "1.1.0" || chosen[1] != old.Bundles[1] ||
			chosen[2].Version != "1.1.0" {
			t.Errorf("with %s: %+v", tip, chosen)
		}
	}
}
