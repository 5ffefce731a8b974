package items

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
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/workspace"
)

// checkWritable refuses an item of a space that nothing is written to.
func checkWritable(v *spaces.Items, it *ai.Item) error {
	if it.Space.Dir != "" {
		return nil
	}
	hint := "rye load " + fault.Quote(it.Ref.String()) + " --to project"
	if places.ProtectedID(it.ID) { // a copy would be refused as well
		hint = "rye show " + fault.Quote(it.Ref.String())
	}
	return &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is in the space %q, which doesn't change", it.Ref, it.Space.Label),
		Hint:    []string{hint},
		Details: map[string]any{"reason": "read-only", "ref": it.Ref.String(), "space": it.Space.Label}}
}

// A following is the files that go where an item goes: those of its tree, if no other item has a part in it.
type following struct {
	dir   string // in the space; "" if none follow
	files []tree.File
	stays string // why a tree that there is doesn't follow
}

// openFollowing finds the files that follow an item. Only a directory that is the tool's own is moved or removed with it.
func openFollowing(ctx context.Context, v *spaces.Items, it *ai.Item) (following, error) {
	anchor, err := v.Admit.Anchor(ctx, it)
	if ctx.Err() != nil {
		return following{}, ctx.Err()
	}
	if err != nil || anchor == nil {
		return following{}, nil // whose chain is broken has no say about a tree
	}
	t, err := v.Admit.Tree(ctx, it)
	if err != nil || t == nil {
		return following{}, err
	}
	if anchor.Dir != path.Dir(it.Path) || anchor.Dir == it.Kind.Dir {
		return following{stays: fmt.Sprintf("its tree is all of %q", v.Place(it.Space, anchor.Dir))}, nil
	}
	l, err := v.Files(ctx, it.Ref.Kind)
	if err != nil {
		return following{}, err
	}
	for _, f := range l.Files {
		if f.Space != it.Space || f.Path == it.Path || !strings.HasPrefix(f.Path, anchor.Dir+"/") {
			continue
		}
		if _, err := v.Load(ctx, f); !errors.Is(err, ai.ErrAsset) {
			return following{stays: fmt.Sprintf("%q is in the same directory", f.Ref)}, nil
		}
	}
	for _, p := range l.Problems {
		if p.Space == it.Space && p.Path != it.Path && strings.HasPrefix(p.Path, anchor.Dir+"/") {
			return following{stays: fmt.Sprintf("%q is in the same directory", v.Place(p.Space, p.Path))}, nil
		}
	}
	return following{dir: anchor.Dir, files: t.Files}, nil
}

// A mention is an item that names another one.
type mention struct {
	Ref  string `json:"ref"` // "": the file is rye.yaml
	File string `json:"file"`
	As   string `json:"as"` // "executor", "permission", "reference", "root"
	To   string `json:"to"`
}

// mentions finds the items of the spaces that can be changed which name one of some refs, and rye.yaml if its roots do.
func mentions(ctx context.Context, v *spaces.Items, refs []model.Ref) ([]mention, error) {
	l, err := v.Files(ctx)
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(l.Files, func(f ai.File) bool { return f.Space.Dir == "" || slices.Contains(refs, f.Ref) })
	var mu sync.Mutex
	found := []mention{}
	err = v.Each(ctx, files, func(_ int, it *ai.Item, err error) {
		if err != nil {
			return
		}
		for _, ref := range refs {
			if as := namedAs(it, ref); as != "" {
				mu.Lock()
				found = append(found, mention{it.Ref.String(), v.Place(it.Space, it.Path), as, ref.String()})
				mu.Unlock()
			}
		}
	})
	if v.Root.Marker == workspace.MarkerFile {
		if yaml, err := v.Root.File(places.Running()); err == nil { // a broken one is told by what needs it
			for _, root := range yaml.Roots {
				if i := slices.IndexFunc(refs, func(ref model.Ref) bool { return ref.String() == root.Text }); i >= 0 {
					found = append(found, mention{"", workspace.MarkerFile, "root", refs[i].String()})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b mention) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.To, b.To)) })
	return found, err
}

// namedAs says as what an item names a ref; "" if it doesn't.
func namedAs(it *ai.Item, ref model.Ref) string {
	var permissions []capability.Capability
	switch m := it.Model; {
	case m.Tool != nil:
		if ref.Kind == "tool" && m.Tool.Executor == ref.ID {
			return "executor"
		}
		permissions = m.Tool.Permissions
	case m.Directive != nil:
		permissions = m.Directive.Permissions
	case m.Knowledge != nil:
		for _, r := range m.Knowledge.References {
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

// warnMentions says who names what isn't there any more.
func warnMentions(a *cli.App, all []mention) {
	for _, m := range all {
		a.Term.Warn("%q names %q as %s: %s", cmp.Or(m.Ref, m.File), m.To, m.As, m.File)
	}
}

// holdsAnything reports whether a directory of a space holds anything.
func holdsAnything(s *ai.Space, dir string) (bool, error) {
	entries, err := fs.ReadDir(s.FS, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}
