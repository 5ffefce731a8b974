package items

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/lock/workspace"
)

type lsRun struct {
	Items []string `arg:"" optional:"" name:"item" complete:"ref|path" help:"Refs, globs, files or directories."`
	Kind  string   `placeholder:"KIND" complete:"kind" help:"Only items of this kind."`
	Space string   `placeholder:"SPACE" complete:"space" help:"Only items of this space: project, user or system."`
	All   bool     `help:"Include the library's items."`
}

type lsAnswer struct {
	Items    []itemLine      `json:"items"`
	Problems []check.Problem `json:"problems"` // files that look like items but are not valid ones
	more     bool            // the library was left out
}

// itemLine is one item in a list.
type itemLine struct {
	Ref         string `json:"ref"`
	Version     string `json:"version"`
	Title       string `json:"title"`
	Space       string `json:"space"`
	Path        string `json:"path"` // in the space
	File        string `json:"file"`
	Raw         string `json:"raw"`
	items.Worth        // inline
	HiddenBy    string `json:"hidden_by,omitempty"` // the space whose item of this id counts instead
	// hides a protected item, which the root policy doesn't allow
	Denied   bool `json:"denied"`
	Invalid  bool `json:"invalid"`
	Errors   int  `json:"errors"`
	Warnings int  `json:"warnings"`
}

func (l *lsAnswer) Text(term *cli.Terminal) {
	var rows [][]string
	unsigned, invalid := 0, 0
	for i := range l.Items {
		it := &l.Items[i]
		row := []string{it.Ref, trusts.OrDash(it.Version), it.Space, it.Words()}
		switch {
		case it.HiddenBy != "" && items.IsMerged(it.Ref):
			row = append(row, "merged under "+it.HiddenBy)
		case it.HiddenBy != "":
			row = append(row, "hidden by "+it.HiddenBy)
		case it.Denied:
			row = append(row, "refused: hides a protected item without override")
		}
		if it.Invalid {
			invalid++
			row = append(row, "invalid: "+fault.Count(int64(it.Errors), "error"))
		}
		if it.Trust == "unsigned" {
			unsigned++
		}
		rows = append(rows, row)
	}
	term.Rows(rows)
	for _, p := range l.Problems {
		term.Warn("%s: %s", p.File, p.Message)
	}
	parts := []string{fault.Count(int64(len(l.Items)), "item")}
	if unsigned > 0 {
		parts = append(parts, fmt.Sprintf("%d unsigned", unsigned))
	}
	if invalid > 0 {
		parts = append(parts, fmt.Sprintf("%d invalid", invalid))
	}
	if n := len(l.Problems); n > 0 {
		parts = append(parts, "and "+fault.Count(int64(n), "file")+" with a problem")
	}
	more := ""
	if l.more && len(l.Items) == 0 {
		more = "; rye ls --all includes the library's"
	}
	term.Note("%s%s", strings.Join(parts, ", "), more)
}

func (c *lsRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	view, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	view.Admit.KeepTrees()
	view.Library = c.All || c.Space != ""
	var only []*ai.Space
	if c.Kind != "" {
		if _, err := view.CheckKind(c.Kind); err != nil {
			return nil, fault.Of(err).Try("rye ls")
		}
	}
	if c.Space != "" {
		if err := checkUserSpace(view, c.Space); err != nil {
			return nil, err
		}
		if only, err = view.Named(c.Space); err != nil {
			return nil, err
		}
	}
	listing, err := view.List(ctx, c.Items...)
	if err != nil {
		return nil, err
	}
	for _, text := range c.Items {
		if arg, err := view.Parse(text); err == nil && onlyAssets(ctx, view, &arg, listing) {
			return nil, view.NothingAt(ctx, &arg)
		}
	}
	wanted := func(kind string, s *ai.Space) bool {
		return (c.Kind == "" || kind == c.Kind) && (only == nil || slices.Contains(only, s))
	}
	ans := &lsAnswer{Problems: []check.Problem{}, more: !view.Library}
	for _, p := range listing.Problems {
		kind := p.Ref.Kind
		if kind == "" {
			if k := kindAt(view, p.Path); k != nil {
				kind = k.Name
			}
		}
		if wanted(kind, p.Space) {
			ans.Problems = append(ans.Problems, broken(view, p))
		}
	}
	all := listing
	if len(c.Items) > 0 { // an item outside the selection may hide one of it
		if all, err = view.Files(ctx); err != nil {
			return nil, err
		}
	}
	files := slices.DeleteFunc(slices.Clone(listing.Files), func(f ai.File) bool {
		return !wanted(f.Ref.Kind,
			f.Space)
	})
	known := new(check.Known)
	if ans.Items, err = lines(ctx, view, files, ans, known); err != nil {
		return nil, err
	}
	if own := view.Own(); own != nil && len(c.Items) == 0 && c.Kind == "" && wanted("", own) {
		if err := warnStrays(ctx, view, own, known); err != nil {
			return nil, err
		}
	}
	if view.Trust == nil && slices.ContainsFunc(ans.Items,
		func(listing itemLine) bool { return listing.Trust == "refused" }) {
		_, err := paths.OpenTrust(app)
		f := fault.Of(err)
		app.Term.Warn("nothing but the library is trusted: %s: %s", f.Text, strings.Join(f.Hint, ", or "))
	}
	hide(ctx, view, ans.Items, all)
	view.Count()
	return ans, nil
}

// warnStrays warns about files of a space that have a signature line but are not items, with one line a directory.
func warnStrays(ctx context.Context, view *spaces.Items, space *ai.Space, known *check.Known) error {
	all, err := check.Strays(ctx, view.View, space, known.In(space))
	byKind := map[string]int{}
	for _, f := range all {
		if f.Signed {
			byKind[f.Kind.Dir]++
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(byKind)) {
		verb := "have a signature line but are not items"
		if byKind[dir] == 1 {
			verb = "has a signature line but is not an item"
		}
		view.App.Term.Warn("%s below %q %s: rye check says why", fault.Count(int64(byKind[dir]), "file"),
			view.Name(space, dir),
			verb)
	}
	return err
}

// checkUserSpace refuses --space user in a project with rye.yaml, which doesn't use the user space.
func checkUserSpace(v *spaces.Items, label string) error {
	if label != ai.User.String() || v.Root.Marker != workspace.MarkerFile {
		return nil
	}
	return fault.New(fault.Validation, "a project with %s doesn't use the user space", workspace.MarkerFile).
		Because("so a project works alike for everyone who has it; use the user space outside of projects").
		Try("rye docs spaces").On("space", label)
}

// onlyAssets reports whether a ref or path matches only files that are not marked as items.
func onlyAssets(ctx context.Context, view *spaces.Items, arg *items.Arg, l *ai.Listing) bool {
	if arg.Glob != nil || arg.Dir {
		return false
	}
	for _, p := range l.Problems {
		if f, err := view.At(p.Space, p.Path); err == nil && arg.Covers(f.Ref, p.Space, p.Path) {
			return false
		}
	}
	for _, f := range l.Files {
		if !arg.Covers(f.Ref, f.Space, f.Path) {
			continue
		}
		if _, err := view.Load(ctx, f); !errors.Is(err, ai.ErrAsset) {
			return false
		}
	}
	return true
}

// kindAt returns the kind whose directory contains a path, or nil.
func kindAt(v *spaces.Items, p string) *model.Kind {
	for _, k := range v.Kinds() {
		if p == k.Dir || strings.HasPrefix(p, k.Dir+"/") {
			return k
		}
	}
	return nil
}

// broken returns the problem of a file that is not a valid item.
func broken(v *spaces.Items, e *ai.ItemError) check.Problem {
	f := fault.Of(e)
	message := f.Text
	if p, ok := strings.CutPrefix(message, fmt.Sprintf("%q: ", e.Place())); ok {
		message = p
	}
	line := check.Problem{Severity: check.Error, Code: f.Code, Space: e.Space.Label, File: v.Name(e.Space, e.Path),
		Message: message}
	if e.Ref.Kind != "" {
		line.Ref = e.Ref.String()
	}
	return line
}

// lines loads files and returns a line with the trust of each item. It leaves out assets; an unreadable file
// becomes a problem of ans. It adds the items' files to known.
func lines(ctx context.Context, view *spaces.Items, files []ai.File, ans *lsAnswer, known *check.Known) ([]itemLine,
	error) {
	lines := make([]itemLine, len(files))
	failed := make([]error, len(files))
	err := view.Each(ctx, files, func(i int, it *ai.Item, err error) {
		if err != nil {
			failed[i] = err
			return
		}
		known.Add(it.Space, it.Path)
		known.AddTree(ctx, view.Admit, it)
		w, _ := view.Worth(ctx, it)
		lines[i] = line(view, it, w)
	})
	if err != nil {
		return nil, err
	}
	for _, err := range failed {
		if e, ok := errors.AsType[*ai.ItemError](err); ok && !errors.Is(err, ai.ErrAsset) {
			ans.Problems = append(ans.Problems, broken(view, e))
		}
	}
	slices.SortStableFunc(ans.Problems, func(a, b check.Problem) int { return cmp.Compare(a.File, b.File) })
	lines = slices.DeleteFunc(lines, func(l itemLine) bool { return l.Ref == "" })
	return lines, nil
}

// line returns the line of an item in a list.
func line(v *spaces.Items, it *ai.Item, w items.Worth) itemLine {
	itemLine := itemLine{Worth: w, Ref: it.Ref.String(), Version: it.Model.Version, Space: it.Space.Label,
		Path: it.Path, File: v.Name(it.Space, it.Path), Raw: it.Raw.String(), Invalid: it.Model.Invalid()}
	for _, p := range it.Model.Problems {
		if p.Refused() {
			itemLine.Errors++
		} else {
			itemLine.Warnings++
		}
	}
	// A tool's title may be only its name, which the ref shows already.
	if itemLine.Title = it.Model.Title; itemLine.Title == "" || itemLine.Title == it.Ref.Name() &&
		it.Model.Description != "" {
		itemLine.Title = it.Model.Description
	}
	return itemLine
}

// hide marks the items that another one hides, and those that hide a protected item without permission.
func hide(ctx context.Context, view *spaces.Items, lines []itemLine, all *ai.Listing) {
	spaces := map[string]int{} // from a ref to the number of files that may be it
	for _, f := range all.Files {
		spaces[f.Ref.String()]++
	}
	for i := range lines {
		itemLine := &lines[i]
		if spaces[itemLine.Ref] < 2 {
			continue
		}
		ref, err := model.ParseRef(itemLine.Ref)
		if err != nil {
			continue
		}
		same, err := view.All(ctx, ref)
		if err != nil || len(same) < 2 {
			continue // an ambiguous id is a problem of its own
		}
		if front := same[0].Space.Label; front != itemLine.Space {
			itemLine.HiddenBy = front
			continue
		}
		_, itemLine.Denied = errors.AsType[*ai.ShadowError](check.Shadow(ctx, view.View, same[0]))
	}
}
