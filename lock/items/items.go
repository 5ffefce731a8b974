// Package items is a workspace's view of its visible items: which ones an argument names, who signed them, whether
// they match the lock, and their problems.
//
// How a call goes through here: Open opens the spaces and the lock. Parse reads an argument, and List, Selected or
// FindNamed return the files or the item that it names. Worth asks the policy about an item, Locked compares it with
// the lock, and Check runs the rules of package check over the selected items.
package items

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"path/filepath"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/admission"
)

// Items are the visible items of a workspace.
type Items struct {
	*workspace.Items
	Abs func(path string) (string, error) // makes paths absolute; nil: arguments are only refs and globs
	// Library includes the library's items in listings and globs, which otherwise leave them out. Refs, and globs that
	// begin with "rye/", always find them.
	Library bool

	w *workspace.Workspace
}

// Open opens the visible items of a workspace.
func Open(ctx context.Context, workspace *workspace.Workspace, abs func(string) (string, error)) (*Items, error) {
	items, err := workspace.Items(ctx)
	if err != nil {
		return nil, err
	}
	// A file that isn't on disk is named by its space.
	items.Name = func(s *ai.Space, p string) string {
		if s.Dir == "" {
			return s.Label + "/" + p
		}
		return workspace.Show(filepath.Join(s.Dir, filepath.FromSlash(p)))
	}
	return &Items{Items: items, Abs: abs, w: workspace}, nil
}

// ForgetLock drops the lock's pins, for commands that read many items and don't need them. Its bundles are among the
// spaces already.
func (v *Items) ForgetLock() {
	if v.Lock != nil {
		v.Lock.Old = nil
	}
}

// Subject returns the content that an item's signatures cover. An item whose directory doesn't exist yet has no tree.
func (v *Items) Subject(ctx context.Context, it *ai.Item) (admission.Subject, error) {
	if _, err := fs.Stat(it.Space.FS, path.Dir(it.Path)); errors.Is(err, fs.ErrNotExist) {
		return admission.Subject{Name: it.Ref.String(), Style: it.Kind.Style(it.Path)}, nil
	}
	s, _, err := v.Admit.Subject(ctx, it)
	return s, err
}

// Invalid returns the error for an invalid item that is about to be written; file is where its text is now.
func (v *Items) Invalid(it *ai.Item, file string) *fault.Error {
	lines := (&check.Checker{Name: v.Name}).Fields(it.File, it.Model.Problems)
	f := fault.New(fault.Validation, "%q is not a valid %s", file, it.Ref.Kind).
		Try("rye docs "+model.FormatTopic(it.Ref.Kind)).On("ref", it.Ref.String()).On("problems", lines)
	for i := range lines {
		l := &lines[i]
		l.File = file
		f.Because(fmt.Sprintf("%s: %s: %s", l.At(), l.Severity, l.Message))
	}
	return f
}

// Remember caches executors, so that each is resolved once, and returns the cache.
func (v *Items) Remember() *check.Links {
	links := check.NewLinks(v.View)
	var x ai.Examiner
	if v.Asked != nil {
		x = v.Asked
	}
	v.Admit = ai.NewAdmitter(links, x)
	return links
}

// Checker returns a checker of items with additional rules. It caches executors.
func (v *Items) Checker(rules ...check.Rule) *check.Checker {
	links := v.Remember()
	return &check.Checker{View: v.View, Admit: v.Admit, Links: links, Name: v.Name, Rules: append(rules, packages)}
}

// packages reports problems in the list of packages that a tool names.
func packages(ctx context.Context, checker *check.Checker, it *check.Checked) []check.Problem {
	_, err := closure.ListOf(ctx, checker.Admit, it.Item, it.Tree)
	if err == nil {
		return nil
	}
	at := value.Pos{}
	if v := it.Model.Fields.Get("packages"); v != nil {
		at = v.At
	}
	l := checker.About(it.File, at, err)
	l.Field = "packages"
	if in, ok := errors.AsType[*closure.InListError](err); ok {
		l = checker.About(it.File, value.Pos{Line: in.Line}, in.Err)
		l.File = checker.Name(it.Space, in.Path)
	}
	return []check.Problem{l}
}

// Check checks the items that arguments name. Without arguments it checks all items that the user changes here, and
// files that look like items but aren't valid.
func (v *Items) Check(ctx context.Context, rules []check.Rule, texts ...string) (*check.Checker, error) {
	only := (*ai.Space)(nil)
	if len(texts) == 0 {
		only = v.Own()
	}
	sel, err := v.Selected(ctx, only, texts...)
	if err != nil {
		return nil, err
	}
	checker := v.Checker(rules...)
	v.Admit.KeepTrees()
	checker.Listed(sel.Problems)
	if err := checker.All(ctx, sel.Files, func(int, *check.Checked) {}); err != nil {
		return nil, err
	}
	if checker.Report().Items == 0 && len(sel.Dirs) == 0 {
		if err := v.Nothing(ctx, texts); err != nil {
			return nil, err
		}
	}
	for _, w := range v.Warnings() {
		covered := w.Space == only || slices.ContainsFunc(sel.Files, func(f check.Chosen) bool {
			return f.Space == w.Space && f.Path == w.Path
		})
		known := slices.ContainsFunc(sel.Problems, func(p *ai.ItemError) bool {
			return p.Space == w.Space && p.Path == w.Path
		})
		if covered && !known {
			checker.Extractor(w)
		}
	}
	if only != nil {
		sel.Dirs = append(sel.Dirs, Arg{Space: only, Path: "."})
	}
	for _, dir := range sel.Dirs {
		if _, err := checker.Strays(ctx, dir.Space, dir.Path); err != nil {
			return nil, err
		}
	}
	return checker, nil
}
