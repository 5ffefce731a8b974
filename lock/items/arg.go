package items

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/manifest/policy/glob"
)

// This file parses arguments that name items.

// Named returns the spaces of a label or of its first part: "system" means the bundles and the library.
func (v *Items) Named(label string) (spaces []*ai.Space, err error) {
	var labels []string
	for _, s := range v.Spaces() {
		if s.Label == label || strings.HasPrefix(s.Label, label+":") {
			spaces = append(spaces, s)
		}
		labels = append(labels, s.Label)
	}
	if spaces == nil {
		return nil, Unknown("space", label, labels)
	}
	return spaces, nil
}

// IsMerged reports whether an item is merged with those of its name in lower spaces, as config is. For other kinds
// the highest item hides the rest.
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
	return nil, Unknown("kind", name, names)
}

// Unknown is the error for an unknown word, with the valid words.
func Unknown(what, word string, names []string) *fault.Error {
	f := fault.New(fault.Validation, "unknown %s %q", what,
		word).Because("expected one of "+strings.Join(names, ", ")).On(what, word)
	return meant(f, suggest.Names(word, names))
}

// An Arg is a parsed argument of a command: a ref, a glob over refs, or a path in a space.
type Arg struct {
	Text  string
	ref   model.Ref  // zero with glob and space
	Glob  *glob.Glob // nil without stars
	Space *ai.Space  // of a path
	Path  string     // in the space; of a file or directory
	Dir   bool

	library bool // of a glob: it includes the library's items
}

// Parse reads an argument: with a star it is a glob over refs, with a known kind and a colon a ref, otherwise a path.
func (v *Items) Parse(text string) (Arg, error) {
	arg := Arg{Text: text}
	kind, id, colon := strings.Cut(text, ":")
	_, known := v.Kind(kind)
	switch {
	case strings.Contains(text, "*"):
		g, err := glob.Parse(text)
		if err != nil {
			return arg, fault.New(fault.Validation, "%q is not a valid glob over refs: %s", text, err).From(err).
				Try("rye ls '**'", "rye ls 'tool:acme/**'").On("ref", text)
		}
		arg.Glob = &g
		arg.library = v.Library || strings.HasPrefix(text, "rye/") || colon && strings.HasPrefix(id, "rye/")
		if colon {
			_, err := v.CheckKind(kind)
			return arg, err
		}
		return arg, nil
	case known && colon:
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
	refs, err := v.refsOf(text)
	if len(refs) == 1 {
		arg.ref = refs[0]
		return arg, nil
	}
	return arg, cmp.Or(err, v.w.OrNoProject(v.notAnItem(text, refs), text))
}

// refsOf returns the refs of all kinds that have an id.
func (v *Items) refsOf(id string) (refs []model.Ref, err error) {
	if portable.CheckID(id) != nil {
		return nil, nil
	}
	l, err := v.Files(context.Background())
	if err != nil {
		return nil, err
	}
	for _, f := range l.Files {
		if f.Ref.ID == id && !slices.Contains(refs, f.Ref) {
			refs = append(refs, f.Ref)
		}
	}
	return refs, nil
}

// BadRef is the error for an invalid ref.
func BadRef(text string, err error) *fault.Error {
	return fault.New(fault.Validation, "invalid ref %q: %s", text,
		cmp.Or(errors.Unwrap(err), err)).From(err).Because(refForm).On("ref", text).
		Try("rye ls")
}

const refForm = "a ref is kind:id, such as tool:acme/fetch"

// notAnItem is the error for a text that is neither a ref nor the path of a file; refs are those that it may mean.
func (v *Items) notAnItem(text string, refs []model.Ref) error {
	if len(refs) > 1 {
		names := collect(refs)
		return fault.New(fault.Ambiguous, "%q is ambiguous: %s", text, strings.Join(names, ", ")).
			Try("rye show "+fault.Quote(names[0])).On("ref", text).On("did_you_mean", names)
	}
	failure := fault.New(fault.NotFound, "%q is neither a ref nor a file",
		text).Because(refForm).Try("rye ls").On("ref",
		text).From(fs.ErrNotExist)
	if portable.CheckID(text) != nil {
		return failure
	}
	if slices.ContainsFunc(v.Kinds(), func(kind *model.Kind) bool { return kind.Name == text }) {
		all := text + ":**"
		failure.Hint = []string{fault.Command("rye ls", all)}
		return meant(failure, []string{all})
	}
	var near []string
	for _, kind := range v.Kinds() {
		_, err := v.Find(context.Background(), model.Ref{Kind: kind.Name, ID: text})
		if missing, ok := errors.AsType[*ai.NotFoundError](err); ok {
			near = append(near, missing.Near...)
		}
	}
	slices.Sort(near) // what has the very id is near for each kind
	return meant(failure, slices.Compact(near))
}

func collect(refs []model.Ref) (names []string) {
	for _, ref := range refs {
		names = append(names, ref.String())
	}
	return names
}

// meant adds suggestions to an error.
func meant(f *fault.Error, names []string) *fault.Error {
	if len(names) > 0 {
		f.Because("did you mean "+strings.Join(names, ", ")+"?").On("did_you_mean", names)
	}
	return f
}

// PathArg reads an argument as a path in a space. It returns false if the path doesn't exist.
func (v *Items) PathArg(arg *Arg) (bool, error) {
	if v.Abs == nil {
		return false, nil
	}
	at, err := v.Abs(arg.Text)
	if err != nil {
		return false, err
	}
	fi, err := os.Lstat(at)
	if err != nil {
		return false, nil // the caller reports it
	}
	paths := []string{at}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(at)); err == nil {
		paths = append(paths, filepath.Join(dir, filepath.Base(at)))
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
	f := fault.New(fault.Validation, "%q is in no space", arg.Text).On("path", arg.Text).
		Because("items are below .ai of the project, or of the user outside of projects")
	for _, space := range v.Spaces() {
		if space.Dir != "" {
			f.Because(fmt.Sprintf("%-9s %s", space.Label, space.Dir))
		}
	}
	return true, f
}

// FindNamed returns the item that an argument names: from the highest space, or at a path.
func (v *Items) FindNamed(ctx context.Context, text string) (*ai.Item, error) {
	arg, err := v.Parse(text)
	switch {
	case err != nil:
		return nil, err
	case arg.Glob != nil || arg.Dir:
		return nil, fault.New(fault.Validation, "%q matches several items: name one",
			text).Try("rye ls "+fault.Quote(text)).On("ref", text)
	case arg.Space != nil:
		f, err := v.At(arg.Space, arg.Path)
		if err != nil {
			return nil, err
		}
		return v.Load(ctx, f)
	}
	it, err := v.Find(ctx, arg.ref)
	return it, v.w.OrNoProject(err, arg.ref.ID)
}

// Reaches reports whether a glob can cover an item of a kind with this id, or one below it. "" is any kind, or all
// ids.
func (arg *Arg) Reaches(kind, id string) bool {
	named, text, colon := strings.Cut(arg.Text, ":")
	if !colon {
		named, text = "", arg.Text
	}
	if arg.Glob == nil || named != "" && kind != "" && named != kind {
		return false
	}
	if id == "" {
		return true
	}
	globs, segments := strings.Split(text, "/"), strings.Split(id, "/")
	for i, g := range globs {
		if g == "**" || i == len(segments) {
			return true
		}
		if ok, err := path.Match(g, segments[i]); !ok || err != nil {
			return false
		}
	}
	return len(globs) == len(segments)
}

// Covers reports whether an argument covers a file; refs and globs cover files of all spaces.
func (arg *Arg) Covers(ref model.Ref, s *ai.Space, path string) bool {
	switch {
	case arg.Glob != nil:
		return ref.Kind != "" && arg.Glob.Match(glob.Name{Kind: ref.Kind, ID: ref.ID})
	case arg.Space != nil:
		return arg.Space == s && (arg.Path == path || arg.Dir &&
			(arg.Path == "." || strings.HasPrefix(path, arg.Path+"/")))
	}
	return arg.ref == ref
}
