package spaces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy/glob"
)

// Items is what one command sees of items. In the grammar of a command refs carry the tag complete:"ref", those of a space
// that can be changed "own", kinds "kind", spaces "space" and bundles "bundle".
type Items struct {
	*workspace.Items
	App  *cli.App
	from *places.Workspace
}

// OpenItems opens what can be seen from the project, or from outside of any.
func OpenItems(ctx context.Context, a *cli.App) (*Items, error) {
	w, err := places.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	v, err := ItemsOf(ctx, w)
	if err != nil {
		w.Close()
	}
	return v, err
}

// ItemsOf opens what can be seen from a workspace, which is closed with it.
func ItemsOf(ctx context.Context, w *places.Workspace) (*Items, error) {
	v, err := w.Items(ctx)
	if err != nil {
		return nil, err
	}
	out := &Items{v, w.App, w}
	out.Name = out.Place
	return out, nil
}

// Close closes the spaces and the workspace.
func (v *Items) Close() {
	v.Items.Close()
	v.from.Close()
}

// Named returns the spaces of a label or of its first part, as system is the bundles and the library.
func (v *Items) Named(label string) (spaces []*ai.Space, err error) {
	var labels []string
	for _, s := range v.Spaces() {
		if s.Label == label || strings.HasPrefix(s.Label, label+":") {
			spaces = append(spaces, s)
		}
		labels = append(labels, s.Label)
	}
	if spaces == nil {
		return nil, UnknownName("space", label, labels)
	}
	return spaces, nil
}

// IsMerged reports whether an item and those of its name in lower spaces count together, as config does: of all others
// the highest one hides the rest.
func IsMerged(ref string) bool { return strings.HasPrefix(ref, "config:") }

// CheckKind returns the kind of a name.
func (v *Items) CheckKind(name string) (*model.Kind, error) {
	if k, ok := v.Kind(name); ok {
		return k, nil
	}
	var names []string
	for _, k := range v.Kinds() {
		names = append(names, k.Name)
	}
	return nil, UnknownName("kind", name, names)
}

// UnknownName is the refusal of a word that is none of a few.
func UnknownName(what, word string, names []string) *fault.Error {
	f := &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("there is no %s %q", what, word),
		Why: []string{"expected one of " + strings.Join(names, ", ")}, Details: map[string]any{what: word}}
	if meant := near.Names(word, names); len(meant) > 0 {
		f.Why = append(f.Why, "did you mean "+strings.Join(meant, ", ")+"?")
		f.Details["did_you_mean"] = meant
	}
	return f
}

// An ItemArg is what an argument of a command stands for: the item of a ref, those that a glob covers, or what is at
// a path in a space.
type ItemArg struct {
	Text  string
	ref   model.Ref  // zero with glob and space
	Glob  *glob.Glob // nil unless there are stars
	Space *ai.Space  // of a path
	Path  string     // in the space; of a file or directory
	Dir   bool
}

// Arg reads an argument. What has a star is a glob over refs, what has a known kind and a colon a ref, and all else a
// path.
func (v *Items) Arg(text string) (ItemArg, error) {
	arg := ItemArg{Text: text}
	kind, id, colon := strings.Cut(text, ":")
	_, known := v.Kind(kind)
	switch {
	case strings.Contains(text, "*"):
		g, err := glob.Parse(text)
		if err != nil {
			return arg, &fault.Error{Code: fault.Validation, Err: err, Text: fmt.Sprintf("%q is no glob over refs: %s", text, err),
				Hint: []string{"rye ls '**'", "rye ls 'tool:acme/**'"}, Details: map[string]any{"ref": text}}
		}
		arg.Glob = &g
		if colon {
			_, err := v.CheckKind(kind)
			return arg, err
		}
		return arg, nil
	case known:
		ref, err := model.ParseRef(text)
		if err != nil {
			return arg, BadRef(text, err)
		}
		arg.ref = ref
		return arg, nil
	}
	if ok, err := v.PathArg(&arg); ok || err != nil {
		return arg, err
	}
	if colon && id != "" && model.CheckKind(kind) == nil {
		_, err := v.CheckKind(kind)
		return arg, err
	}
	return arg, v.notAnItem(text)
}

func BadRef(text string, err error) *fault.Error {
	return &fault.Error{Code: fault.Validation, Err: err, Text: fmt.Sprintf("%q is no ref: %s", text, cmp.Or(errors.Unwrap(err), err)),
		Why:     []string{"a ref is kind:id, as in tool:acme/fetch"},
		Details: map[string]any{"ref": text}}
}

// notAnItem says that a text is neither a ref nor the path of a file, and which refs end like it.
func (v *Items) notAnItem(text string) error {
	f := &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("%q is neither a ref nor a file", text),
		Why: []string{"a ref is kind:id, as in tool:acme/fetch"}, Hint: []string{"rye ls"}, Details: map[string]any{"ref": text}}
	var meant []string
	for _, k := range v.Kinds() {
		ref := model.Ref{Kind: k.Name, ID: text}
		if all, err := v.All(context.Background(), ref); err == nil && len(all) > 0 {
			meant = append(meant, ref.String())
		}
	}
	if len(meant) > 0 {
		f.Why = append(f.Why, "did you mean "+strings.Join(meant, ", ")+"?")
		f.Details["did_you_mean"] = meant
	}
	return f
}

// PathArg reads an argument as a path in a space. It is false where there is nothing at the path.
func (v *Items) PathArg(arg *ItemArg) (bool, error) {
	s := v.App.Absolute(cli.Setting{Value: arg.Text})
	if s.Err != nil {
		return false, s.Err
	}
	fi, err := os.Lstat(s.Value)
	if err != nil {
		return false, nil // whatever it is, it is no item
	}
	paths := []string{s.Value}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(s.Value)); err == nil {
		paths = append(paths, filepath.Join(dir, filepath.Base(s.Value)))
	}
	for _, space := range v.Spaces() {
		if space.Dir == "" {
			continue
		}
		dirs := []string{space.Dir}
		if dir, err := filepath.EvalSymlinks(space.Dir); err == nil {
			dirs = append(dirs, dir)
		}
		for _, p := range paths {
			for _, dir := range dirs {
				rel, err := filepath.Rel(dir, p)
				if err != nil || !filepath.IsLocal(rel) {
					continue
				}
				arg.Space, arg.Path, arg.Dir = space, filepath.ToSlash(rel), fi.IsDir()
				return true, nil
			}
		}
	}
	f := &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is in no space", arg.Text),
		Why: []string{"items are below .ai of the project, or of the user outside of projects"}, Details: map[string]any{"path": arg.Text}}
	for _, space := range v.Spaces() {
		if space.Dir != "" {
			f.Why = append(f.Why, fmt.Sprintf("%-9s %s", space.Label, space.Dir))
		}
	}
	return true, f
}

// FindNamed returns the item that an argument names: that of the highest space, or the one at a path.
func (v *Items) FindNamed(ctx context.Context, text string) (*ai.Item, error) {
	arg, err := v.Arg(text)
	switch {
	case err != nil:
		return nil, err
	case arg.Glob != nil || arg.Dir:
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q may be many items, and one is needed", text),
			Hint: []string{"rye ls " + fault.Quote(text)}, Details: map[string]any{"ref": text}}
	case arg.Space != nil:
		f, err := v.At(arg.Space, arg.Path)
		if err != nil {
			return nil, err
		}
		return v.Load(ctx, f)
	}
	return v.Find(ctx, arg.ref)
}

// Covers reports whether an argument stands for a file; a ref and a glob for those of all spaces.
func (arg *ItemArg) Covers(ref model.Ref, s *ai.Space, path string) bool {
	switch {
	case arg.Glob != nil:
		return ref.Kind != "" && arg.Glob.Match(glob.Name{Kind: ref.Kind, ID: ref.ID})
	case arg.Space != nil:
		return arg.Space == s && (arg.Path == path || arg.Dir && (arg.Path == "." || strings.HasPrefix(path, arg.Path+"/")))
	}
	return arg.ref == ref
}

// List returns the files that arguments stand for, each once and in the order of a listing, and what is wrong there;
// without arguments those of all items. An argument that stands for nothing is an error. Among the files are such
// that carry no mark, which only loading them tells (ai.ErrAsset).
func (v *Items) List(ctx context.Context, texts ...string) (*ai.Listing, error) {
	args := make([]ItemArg, len(texts))
	var kinds []string // to look at; none for all
	for i, text := range texts {
		var err error
		if args[i], err = v.Arg(text); err != nil {
			return nil, err
		}
		if args[i].ref.Kind != "" {
			kinds = append(kinds, args[i].ref.Kind)
		}
	}
	if len(kinds) < len(args) {
		kinds = nil
	}
	l, err := v.Files(ctx, kinds...)
	if err != nil || len(args) == 0 {
		return l, err
	}
	found := make([]bool, len(args))
	covered := func(ref model.Ref, s *ai.Space, path string) (any bool) {
		for i := range args {
			if args[i].Covers(ref, s, path) {
				found[i], any = true, true
			}
		}
		return any
	}
	out := &ai.Listing{}
	for _, f := range l.Files {
		if covered(f.Ref, f.Space, f.Path) {
			out.Files = append(out.Files, f)
		}
	}
	for _, p := range l.Problems {
		ref := p.Ref
		if ref == (model.Ref{}) {
			if f, err := v.At(p.Space, p.Path); err == nil {
				ref = f.Ref
			}
		}
		if covered(ref, p.Space, p.Path) {
			out.Problems = append(out.Problems, p)
		}
	}
	for i := range args {
		if !found[i] {
			return nil, v.NothingAt(ctx, &args[i])
		}
	}
	return out, nil
}

// NothingAt says why an argument stands for nothing.
func (v *Items) NothingAt(ctx context.Context, arg *ItemArg) error {
	switch {
	case arg.Glob != nil || arg.Dir:
		f := fault.New(fault.NotFound, "%q matches no item", arg.Text).On("ref", arg.Text).Try("rye ls")
		if arg.Dir {
			strays, err := v.straysBelow(ctx, arg.Space, arg.Path, NewKnownFiles())
			if err != nil {
				return err
			}
			for _, g := range strayGroups(strays) {
				f.Why = append(f.Why, v.Place(arg.Space, g.Path)+" "+g.words())
			}
		}
		return f
	case arg.Space != nil:
		f, err := v.At(arg.Space, arg.Path)
		if err == nil {
			err = &ai.ItemError{Ref: f.Ref, Space: f.Space, Path: f.Path, Err: ai.ErrAsset}
		}
		return err
	}
	_, err := v.Find(ctx, arg.ref)
	return cmp.Or(err, fmt.Errorf("%q: %w", arg.ref, fs.ErrNotExist))
}

// Place names a file of a space as people find it: by its path from the working directory, if it is below that, else
// from the root; by its space where it is on no disk.
func (v *Items) Place(s *ai.Space, path string) string {
	if s.Dir == "" {
		return s.Label + "/" + path
	}
	return v.App.FromHere(filepath.Join(s.Dir, filepath.FromSlash(path)))
}
