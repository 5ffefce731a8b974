package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/portable"
)

// A Stray is a file that looks like an item but isn't one, so no signature covers it and no command finds it. It
// has a line that looks like a signature, or is below tools/ with an extension that tools have or had.
type Stray struct {
	Kind   *model.Kind // whose directory contains the file
	Path   string      // in the space
	Signed bool        // has a signature line
	Never  bool        // files with this extension are never items
}

// Strays returns the strays of a space, sorted by path. It skips assets by name, known files (items and the trees
// of tools), and unreadable files, which View.Files reports.
func Strays(ctx context.Context, v *ai.View, space *ai.Space, known func(p string) bool) ([]Stray, error) {
	var all []Stray
	for _, k := range v.Kinds() {
		err := fs.WalkDir(space.FS, k.Dir, func(at string, entry fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil || at == k.Dir {
				return nil
			}
			if name := path.Base(at); portable.Droppings(name) || model.IsAsset(name) {
				if entry.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if !entry.Type().IsRegular() || known(at) {
				return nil
			}
			if f, ok := stray(space, k, at); ok {
				all = append(all, f)
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b Stray) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	return all, nil
}

// stray reports whether a file is a stray.
func stray(s *ai.Space, k *model.Kind, p string) (Stray, bool) {
	ext := path.Ext(p)
	f := Stray{Kind: k, Path: p, Never: !slices.Contains(k.Extensions, ext)}
	if f.Never && !slices.Contains(ai.NeverItems, ext) {
		return f, false // an asset
	}
	b, err := s.Read(p)
	if err != nil || !f.Never && k.Marked(p, b) {
		return f, false
	}
	f.Signed = hasSignatureLine(b)
	return f, f.Signed || k.Name == "tool"
}

// hasSignatureLine reports whether a file has a line that looks like a signature in any language: the marker, with
// at most a comment mark before it.
func hasSignatureLine(file []byte) bool {
	word := []byte("rye:signed:")
	for rest := file; ; {
		i := bytes.Index(rest, word)
		if i < 0 {
			return false
		}
		before := rest[bytes.LastIndexByte(rest[:i], '\n')+1 : i]
		if len(before) < 16 && !bytes.ContainsFunc(before, func(r rune) bool {
			return r >= 0x80 || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '`'
		}) {
			return true
		}
		rest = rest[i+len(word):]
	}
}

// Known is the set of files that are items or have a problem, and of directories that are trees of tools. The zero
// value is empty. It is safe for concurrent use.
type Known struct {
	mu    sync.Mutex
	paths map[place]bool // a directory includes everything below it
}

type place struct {
	space string // its label
	path  string
}

// Add adds a file or a directory.
func (k *Known) Add(s *ai.Space, p string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.paths == nil {
		k.paths = map[place]bool{}
	}
	k.paths[place{s.Label, p}] = true
}

// AddTree adds the tree of a tool, if it has one.
func (k *Known) AddTree(ctx context.Context, admit *ai.Admitter, it *ai.Item) {
	if it.Model.Tool == nil {
		return
	}
	if a, err := admit.Anchor(ctx, it); err == nil && a != nil {
		k.Add(it.Space, path.Join(a.Dir, a.Below))
	}
}

// In returns a function that reports whether a file of a space is known.
func (k *Known) In(s *ai.Space) func(p string) bool {
	return func(p string) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		for ; p != "."; p = path.Dir(p) {
			if k.paths[place{s.Label, p}] {
				return true
			}
		}
		return false
	}
}

// StraysBelow returns the strays below a directory of a space. If it finds any, it reads the trees of all tools of
// the space, because these may reach further than the directory.
func StraysBelow(ctx context.Context, view *ai.View, admit *ai.Admitter, space *ai.Space, dir string,
	known *Known) ([]Stray, error) {
	in := known.In(space)
	all, err := Strays(ctx, view, space, func(p string) bool {
		return dir != "." && !strings.HasPrefix(p, dir+"/") || in(p)
	})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	l, err := view.Files(ctx, "tool")
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(l.Files, func(f ai.File) bool { return f.Space != space || in(f.Path) })
	err = view.Each(ctx, files, func(_ int, it *ai.Item, err error) {
		if err == nil {
			known.AddTree(ctx, admit, it)
		}
	})
	return slices.DeleteFunc(all, func(f Stray) bool { return in(f.Path) }), err
}

// A StrayGroup is a group of strays with the same reason, named after the first one: a tree that was made for
// another tool may have thousands.
type StrayGroup struct {
	Stray
	count int
}

// Group groups strays by reason.
func Group(all []Stray) (groups []StrayGroup) {
	for _, f := range all {
		i := slices.IndexFunc(groups, func(g StrayGroup) bool {
			return g.Kind == f.Kind && g.Signed == f.Signed && path.Ext(g.Path) == path.Ext(f.Path)
		})
		if i < 0 {
			groups = append(groups, StrayGroup{Stray: f})
			i = len(groups) - 1
		}
		groups[i].count++
	}
	return groups
}

// Why returns the reason why the files aren't items.
func (g *StrayGroup) Why() string {
	text := "is not an item, so no signature covers it: "
	if g.Signed {
		text = "has a signature line, but is not an item: "
	}
	ext := path.Ext(g.Path)
	if g.Never {
		text += ext + " files never are"
	} else {
		text += model.MissingMarker(g.Kind.Name, g.Path)
	}
	if g.count > 1 {
		text += fmt.Sprintf("; and %d more %s files below %s/", g.count-1, ext, g.Kind.Dir)
	}
	if g.Signed || g.Never {
		text += ": rye docs " + model.FormatTopic(g.Kind.Name)
	}
	return text
}

// Strays adds warnings for the strays below a directory of a space. Call it after All: it knows only the items that
// All has seen.
func (c *Checker) Strays(ctx context.Context, s *ai.Space, dir string) ([]Stray, error) {
	all, err := StraysBelow(ctx, c.View, c.Admit, s, dir, &c.known)
	for _, g := range Group(all) {
		l := c.About(ai.File{Space: s, Path: g.Path}, value.Pos{}, nil)
		l.Severity, l.Message = Warning, g.Why()
		c.Add(l)
	}
	return all, err
}
