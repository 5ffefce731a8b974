//go:build peers

package file

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/sign"
)

// merge lets git merge two files that were made of a third. It reports how many conflicts it has left.
func merge(t *testing.T, ours, base, theirs []byte) (merged []byte, conflicts int) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"merge-file", "-p", "--diff3"}
	for i, b := range [][]byte{ours, base, theirs} {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	merged, err := cmd.Output()
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return merged, 0
	case ended && exit.ExitCode() < 128:
		return merged, exit.ExitCode()
	}
	t.Fatal(err)
	return nil, 0
}

// mergedPin is the pin of an item in some state.
func mergedPin(id, state string) Pin {
	return Pin{Ref: model.Ref{Kind: "tool", ID: id}, Version: "1.0.0", Digest: sum(id + state), From: FromProject,
		Path: "tools/" + id + ".py",
		Size: int64(100 + len(state)), Mode: cas.File, Signers: prints("alice"), Format: sign.V2, Interface: sum("i"),
		Grants: sum("g")}
}

// A branch is a piece of work: a few items are changed, added and removed, and the lock is made anew.
type branch struct{ changed, added, removed []string }

// apply returns a lock as a branch leaves it.
func (b branch) apply(l *Lock, name string) *Lock {
	out := *l
	out.Pins = slices.DeleteFunc(slices.Clone(l.Pins), func(p Pin) bool {
		return slices.Contains(b.removed, p.Ref.ID)
	})
	for i, p := range out.Pins {
		if slices.Contains(b.changed, p.Ref.ID) {
			out.Pins[i] = mergedPin(p.Ref.ID, name)
		}
	}
	for _, id := range b.added {
		out.Pins = append(out.Pins, mergedPin(id, name))
	}
	return &out
}

const areas, perArea = 50, 20

func itemID(area, n int) string { return fmt.Sprintf("acme/area%02d/item%02d", area, n) }

// scattered touches items anywhere.
func scattered(random *rand.Rand, many int) (b branch) {
	any := func() (int, int) { return random.IntN(areas), random.IntN(perArea) }
	for range many {
		b.changed = append(b.changed, itemID(any()))
		b.removed = append(b.removed, itemID(any()))
		b.added = append(b.added, itemID(any())+fmt.Sprintf("x%04x", random.IntN(1<<16)))
	}
	b.changed = slices.DeleteFunc(b.changed, func(id string) bool { return slices.Contains(b.removed, id) })
	return b
}

// together touches items of one area, as a person does who works on one thing.
func together(random *rand.Rand, many int) (b branch) {
	area := random.IntN(areas)
	order := random.Perm(perArea)
	for i := range many {
		b.changed = append(b.changed, itemID(area, order[2*i]))
		b.removed = append(b.removed, itemID(area, order[2*i+1]))
		b.added = append(b.added, itemID(area, random.IntN(perArea))+fmt.Sprintf("x%04x", random.IntN(1<<16)))
	}
	return b
}

// TestMerges lets git merge pairs of branches that have locked a project of 1,000 items. Nearly all merge clean, and
// what comes out is the lock of what both have done, to the byte; of the others both sides are locks.
func TestMerges(t *testing.T) {
	for _, c := range []struct {
		name   string
		make   func(*rand.Rand, int) branch
		many   int // items changed, removed and added by each
		most   int // conflicts, of pairs
		pairs  int
		differ bool // one branch writes the lines of requires and bundles too
	}{
		{"one of each, anywhere", scattered, 1, 5, 100, false},
		{"three of each, in one area", together, 3, 5, 100, false},
		{"and a bundle", together, 2, 5, 100, true},
		{"eight of each, anywhere", scattered, 8, 98, 50, false}, // so that the others are seen as well
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(uint64(c.many), uint64(c.pairs)))
			base := &Lock{}
			for area := range areas {
				for n := range perArea {
					base.Pins = append(base.Pins, mergedPin(itemID(area, n), "base"))
				}
			}
			conflicts := 0
			for range c.pairs {
				ours, theirs := c.make(random, c.many), c.make(random, c.many)
				a, b := ours.apply(base, "ours"), theirs.apply(base, "theirs")
				want := theirs.apply(a, "theirs")
				if c.differ {
					full := sample(t)
					a.Requires, a.Bundles, want.Requires, want.Bundles = full.Requires, full.Bundles, full.Requires,
						full.Bundles
				}
				merged, left := merge(t, encode(t, a), encode(t, base), encode(t, b))
				if left > 0 {
					conflicts++
					bothSides(t, merged)
					continue
				}
				if _, err := Parse(merged); err != nil {
					t.Fatalf("%+v and %+v: %v", ours, theirs, err)
				}
				if !bytes.Equal(merged, encode(t, want)) {
					t.Fatalf("%+v and %+v were merged to another lock than that of both", ours, theirs)
				}
			}
			t.Logf("%d of %d have conflicts", conflicts, c.pairs)
			if 100*conflicts > c.most*c.pairs {
				t.Errorf("%d of %d have conflicts", conflicts, c.pairs)
			}
		})
	}
}

// bothSides takes a merge apart that git has left unfinished.
func bothSides(t *testing.T, merged []byte) {
	t.Helper()
	_, err := Parse(merged)
	if _, ok := errors.AsType[*MergeError](err); !ok {
		t.Fatalf("it has conflicts, and is read as: %v", err)
	}
	ours, theirs, ok := Sides(merged)
	if !ok {
		t.Fatalf("no two sides: %s", merged)
	}
	for _, side := range [][]byte{ours, theirs} {
		if _, err := Parse(side); err != nil {
			t.Fatal(err)
		}
	}
}
