package edit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/tree"
)

// A Following is the files that move with an item: those of its tree, unless the directory has other items.
type Following struct {
	Stays string // why the tree's files stay; "" if they move

	dir   string // in the space
	files []tree.File
}

// Paths returns the files in the space.
func (f Following) Paths() []string { return f.under(f.dir) }

func (f Following) under(dir string) []string {
	all := make([]string, len(f.files))
	for i := range f.files {
		all[i] = path.Join(dir, f.files[i].Path)
	}
	return all
}

// Following returns the files that move with an item. A directory with other items stays.
func (e *Editor) Following(ctx context.Context, it *ai.Item) (Following, error) {
	anchor, err := e.Admit.Anchor(ctx, it)
	if ctx.Err() != nil {
		return Following{}, ctx.Err()
	}
	if err != nil || anchor == nil {
		return Following{}, nil // without a chain the tree is unknown
	}
	tree, err := e.Admit.Tree(ctx, it)
	if err != nil || tree == nil {
		return Following{}, err
	}
	if anchor.Dir != path.Dir(it.Path) || anchor.Dir == it.Kind.Dir {
		return Following{Stays: fmt.Sprintf("its tree is all of %q", e.Name(it.Space, anchor.Dir))}, nil
	}
	listing, err := e.Files(ctx, it.Ref.Kind)
	if err != nil {
		return Following{}, err
	}
	for _, f := range listing.Files {
		if f.Space != it.Space || f.Path == it.Path || !strings.HasPrefix(f.Path, anchor.Dir+"/") {
			continue
		}
		if _, err := e.Load(ctx, f); !errors.Is(err, ai.ErrAsset) {
			return Following{Stays: fmt.Sprintf("%q is in the same directory", f.Ref)}, nil
		}
	}
	for _, p := range listing.Problems {
		if p.Space == it.Space && p.Path != it.Path && strings.HasPrefix(p.Path, anchor.Dir+"/") {
			return Following{Stays: fmt.Sprintf("%q is in the same directory", e.Name(p.Space, p.Path))}, nil
		}
	}
	return Following{dir: anchor.Dir, files: tree.Files}, nil
}

// A Mention is an item that names another one.
type Mention struct {
	Ref  string `json:"ref"` // "": the file is rye.yaml
	File string `json:"file"`
	As   string `json:"as"` // "executor", "offer", "permission", "reference", "root"
	To   string `json:"to"`
}

// Mentions returns the items of the writable spaces that name one of the refs, sorted by file.
func (e *Editor) Mentions(ctx context.Context, refs []model.Ref) ([]Mention, error) {
	l, err := e.Files(ctx)
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(l.Files, func(f ai.File) bool {
		return f.Space.Dir == "" || slices.Contains(refs, f.Ref)
	})
	var mu sync.Mutex
	found := []Mention{}
	err = e.Each(ctx, files, func(_ int, it *ai.Item, err error) {
		if err != nil {
			return
		}
		for _, ref := range refs {
			if as := namedAs(it, ref); as != "" {
				mu.Lock()
				found = append(found, Mention{it.Ref.String(), e.Name(it.Space, it.Path), as, ref.String()})
				mu.Unlock()
			}
		}
	})
	SortMentions(found)
	return found, err
}

// SortMentions sorts mentions by file, then by what they name.
func SortMentions(all []Mention) {
	slices.SortFunc(all, func(a, b Mention) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.To, b.To))
	})
}

// namedAs returns how an item names a ref; "" if it doesn't.
func namedAs(it *ai.Item, ref model.Ref) string {
	var permissions []capability.Capability
	switch parsed := it.Model; {
	case parsed.Tool != nil:
		if ref.Kind == "tool" && parsed.Tool.Executor == ref.ID {
			return "executor"
		}
		permissions = parsed.Tool.Permissions
	case parsed.Directive != nil:
		if ref.Kind == "tool" && slices.ContainsFunc(parsed.Directive.Tools, func(o model.Offer) bool {
			return o.ID == ref.ID
		}) {
			return "offer"
		}
		permissions = parsed.Directive.Permissions
	case parsed.Knowledge != nil:
		for _, r := range parsed.Knowledge.References {
			if r == ref.String() || ref.Kind == "knowledge" && r == ref.ID {
				return "reference"
			}
		}
	}
	for _, c := range permissions {
		if need, err := capability.For("execute", ref.Kind, ref.ID); err == nil && c == need {
			return "permission"
		}
	}
	return ""
}

// isEmpty reports whether a directory of a space is empty.
func isEmpty(s *ai.Space, dir string) (bool, error) {
	entries, err := fs.ReadDir(s.FS, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return len(entries) == 0, err
}
