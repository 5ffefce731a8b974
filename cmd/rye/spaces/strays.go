package spaces

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// KnownFiles are the files that are items, or that something was said of, and the directories that are trees of tools.
// It may be used by many goroutines.
type KnownFiles struct {
	mu    sync.Mutex
	files map[SpacePath]bool
	trees map[SpacePath]bool
}

func NewKnownFiles() *KnownFiles {
	return &KnownFiles{files: map[SpacePath]bool{}, trees: map[SpacePath]bool{}}
}

// Add takes up a file.
func (k *KnownFiles) Add(s *ai.Space, p string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files[SpacePath{s.Label, p}] = true
}

// AddTree takes up the tree of an item, if it has one.
func (k *KnownFiles) AddTree(ctx context.Context, v *Items, it *ai.Item) {
	if it.Model.Tool == nil {
		return
	}
	if a, err := v.Admit.Anchor(ctx, it); err == nil && a != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.trees[SpacePath{it.Space.Label, path.Join(a.Dir, a.Below)}] = true
	}
}

// in returns what tells whether a file of a space is known.
func (k *KnownFiles) in(s *ai.Space) func(p string) bool {
	return func(p string) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.files[SpacePath{s.Label, p}] {
			return true
		}
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if k.trees[SpacePath{s.Label, dir}] {
				return true
			}
		}
		return false
	}
}

// A strayGroup is the strays that have the same reason.
type strayGroup struct {
	check.Stray
	count int
}

// strayGroups puts strays together, the first of each for all: a tree that was made for another tool has thousands.
func strayGroups(all []check.Stray) (groups []strayGroup) {
	for _, f := range all {
		i := slices.IndexFunc(groups, func(g strayGroup) bool {
			return g.Kind == f.Kind && g.Signed == f.Signed && path.Ext(g.Path) == path.Ext(f.Path)
		})
		if i < 0 {
			groups = append(groups, strayGroup{Stray: f})
			i = len(groups) - 1
		}
		groups[i].count++
	}
	return groups
}

// words says why they are no items.
func (g *strayGroup) words() string {
	s := "is not an item, so no signature covers it: "
	if g.Signed {
		s = "has a signature line, but is not an item: "
	}
	ext := path.Ext(g.Path)
	if g.Never {
		s += ext + " files never are"
	} else {
		s += model.MissingMarker(g.Kind.Name, g.Path)
	}
	if g.count > 1 {
		s += fmt.Sprintf("; and %d more %s files below %s/", g.count-1, ext, g.Kind.Dir)
	}
	if g.Signed || g.Never {
		s += ": rye docs " + model.FormatTopic(g.Kind.Name)
	}
	return s
}

// Strays warns of the files of a space that look like items and are none.
func (ck *ItemChecker) Strays(ctx context.Context, s *ai.Space) ([]check.Stray, error) {
	all, err := check.Strays(ctx, ck.v.View, s, ck.known.in(s))
	ck.warnOf(s, all)
	return all, err
}

// straysBelow warns of those below a directory.
func (ck *ItemChecker) straysBelow(ctx context.Context, s *ai.Space, dir string) error {
	all, err := ck.v.straysBelow(ctx, s, dir, ck.known)
	ck.warnOf(s, all)
	return err
}

func (ck *ItemChecker) warnOf(s *ai.Space, all []check.Stray) {
	for _, g := range strayGroups(all) {
		l := ck.Line(ai.File{Space: s, Path: g.Path}, value.Pos{}, nil)
		l.Severity, l.Message = SeverityWarning, g.words()
		ck.Add(l)
	}
}

// straysBelow returns the strays below a directory of a space. Where there are any, all tools of the space are asked
// whether it is a part of their trees: theirs may reach further than the directory.
func (v *Items) straysBelow(ctx context.Context, s *ai.Space, dir string, known *KnownFiles) ([]check.Stray, error) {
	in := known.in(s)
	all, err := check.Strays(ctx, v.View, s, func(p string) bool { return dir != "." && !strings.HasPrefix(p, dir+"/") || in(p) })
	if err != nil || len(all) == 0 {
		return nil, err
	}
	l, err := v.Files(ctx, "tool")
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(l.Files, func(f ai.File) bool { return f.Space != s || in(f.Path) })
	err = v.Each(ctx, files, func(_ int, it *ai.Item, err error) {
		if err == nil {
			known.AddTree(ctx, v, it)
		}
	})
	return slices.DeleteFunc(all, func(f check.Stray) bool { return in(f.Path) }), err
}

// TellStrays says how many files look like items and are none, of those with a signature line.
func (v *Items) TellStrays(ctx context.Context, s *ai.Space, known *KnownFiles) error {
	all, err := check.Strays(ctx, v.View, s, known.in(s))
	byKind := map[string]int{}
	for _, f := range all {
		if f.Signed {
			byKind[f.Kind.Dir]++
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(byKind)) {
		verb := "have a signature line and are no items"
		if byKind[dir] == 1 {
			verb = "has a signature line and is no item"
		}
		v.App.Term.Warn("%s below %q %s: rye check says why", fault.Count(int64(byKind[dir]), "file"), v.Place(s, dir), verb)
	}
	return err
}
