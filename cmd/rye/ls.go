package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
)

func lsCommand() command {
	return command{
		path: "ls", group: "items", help: "List items: which version, from which space, and who vouches for them.",
		more: "Without arguments it lists all. An argument is a ref (tool:acme/fetch), a glob over refs ('tool:acme/**', '**'), or a file or " +
			"directory below .ai. An item that another one of a higher space hides is listed and marked; so is one that is invalid or can't be " +
			"read, which stops nothing.\n\nExamples:\n\n    rye ls\n    rye ls 'tool:acme/**'\n    rye ls --kind tool --space project\n    rye ls --json",
		aka: []string{"list", "items"},
		new: func() runner { return new(lsRun) }, schema: "ls/1", output: &lsAnswer{},
	}
}

type lsRun struct {
	Items []string `arg:"" optional:"" name:"item" complete:"ref" help:"Refs, globs, files and directories."`
	Kind  string   `placeholder:"KIND" complete:"kind" help:"Only items of this kind."`
	Space string   `placeholder:"SPACE" complete:"space" help:"Only items of this space: project, user or system."`
}

type lsAnswer struct {
	Items    []itemLine     `json:"items"`
	Problems []checkProblem `json:"problems"` // files that are no items although they look like some
}

// itemLine is one item in a list.
type itemLine struct {
	Ref      string `json:"ref"`
	Version  string `json:"version"`
	Title    string `json:"title"`
	Space    string `json:"space"`
	Path     string `json:"path"` // in the space
	File     string `json:"file"`
	Raw      string `json:"raw"`
	worth           // inline
	HiddenBy string `json:"hidden_by,omitempty"` // the space whose item of this id counts instead
	Denied   bool   `json:"denied"`              // stands in front of a protected item, which the root policy doesn't allow
	Invalid  bool   `json:"invalid"`
	Errors   int    `json:"errors"`
	Warnings int    `json:"warnings"`
}

func (l *lsAnswer) text(t *terminal) {
	var rows [][]string
	unsigned, invalid := 0, 0
	for i := range l.Items {
		it := &l.Items[i]
		row := []string{it.Ref, orDash(it.Version), it.Space, it.words()}
		switch {
		case it.HiddenBy != "" && isMerged(it.Ref):
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
	t.rows(rows)
	for _, p := range l.Problems {
		t.warn("%s: %s", p.File, p.Message)
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
	t.note("%s", strings.Join(parts, ", "))
}

func (c *lsRun) run(ctx context.Context, a *app) (answer, error) {
	v, err := a.items(ctx)
	if err != nil {
		return nil, err
	}
	defer v.close()
	v.admit.KeepTrees()
	var only []*ai.Space
	if c.Kind != "" {
		if _, err := v.kind(c.Kind); err != nil {
			return nil, err
		}
	}
	if c.Space != "" {
		if err := v.checkUserSpace(c.Space); err != nil {
			return nil, err
		}
		if only, err = v.named(c.Space); err != nil {
			return nil, err
		}
	}
	l, err := v.list(ctx, c.Items...)
	if err != nil {
		return nil, err
	}
	for _, text := range c.Items {
		if arg, err := v.arg(text); err == nil && v.onlyAssets(ctx, &arg, l) {
			return nil, v.nothingAt(ctx, &arg)
		}
	}
	wanted := func(kind string, s *ai.Space) bool {
		return (c.Kind == "" || kind == c.Kind) && (only == nil || slices.Contains(only, s))
	}
	ans := &lsAnswer{Problems: []checkProblem{}}
	for _, p := range l.Problems {
		kind := p.Ref.Kind
		if kind == "" {
			if k := v.kindAt(p.Path); k != nil {
				kind = k.Name
			}
		}
		if wanted(kind, p.Space) {
			ans.Problems = append(ans.Problems, v.broken(p))
		}
	}
	all := l
	if len(c.Items) > 0 { // what hides and is hidden need not be among what was asked for
		if all, err = v.Files(ctx); err != nil {
			return nil, err
		}
	}
	files := slices.DeleteFunc(slices.Clone(l.Files), func(f ai.File) bool { return !wanted(f.Ref.Kind, f.Space) })
	known := newKnownFiles()
	if ans.Items, err = v.lines(ctx, files, ans, known); err != nil {
		return nil, err
	}
	if own := v.own(); own != nil && len(c.Items) == 0 && c.Kind == "" && wanted("", own) {
		if err := v.tellStrays(ctx, own, known); err != nil {
			return nil, err
		}
	}
	if v.trust == nil && slices.ContainsFunc(ans.Items, func(l itemLine) bool { return l.Trust == "refused" }) {
		_, err := a.trust()
		f := classify(err)
		a.term.warn("nothing but the library is trusted: %s: %s", f.Text, strings.Join(f.Hint, ", or "))
	}
	v.hide(ctx, ans.Items, all)
	v.count(a)
	return ans, nil
}

// checkUserSpace refuses to look into the user space where it doesn't count.
func (v *items) checkUserSpace(label string) error {
	if label != ai.User.String() || v.root.marker != markerFile {
		return nil
	}
	return &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("in a project with %s the user space doesn't count", markerFile),
		Why:  []string{"what works for you works for everybody who has the project; outside of it the space is there"},
		Hint: []string{"rye docs spaces"}, Details: map[string]any{"space": label}}
}

// onlyAssets reports whether what a ref or a path stands for carries no mark of an item.
func (v *items) onlyAssets(ctx context.Context, arg *itemArg, l *ai.Listing) bool {
	if arg.glob != nil || arg.dir {
		return false
	}
	for _, p := range l.Problems {
		if f, err := v.At(p.Space, p.Path); err == nil && arg.covers(f.Ref, p.Space, p.Path) {
			return false
		}
	}
	for _, f := range l.Files {
		if !arg.covers(f.Ref, f.Space, f.Path) {
			continue
		}
		if _, err := v.Load(ctx, f); !errors.Is(err, ai.ErrAsset) {
			return false
		}
	}
	return true
}

// kindAt is the kind in whose directory a path is, nil if it is in none.
func (v *items) kindAt(p string) *model.Kind {
	for _, k := range v.Kinds() {
		if p == k.Dir || strings.HasPrefix(p, k.Dir+"/") {
			return k
		}
	}
	return nil
}

// broken is what is said of a file that is no item.
func (v *items) broken(e *ai.ItemError) checkProblem {
	f := classify(e)
	message := f.Text
	if p, ok := strings.CutPrefix(message, fmt.Sprintf("%q: ", faultPlace(e))); ok {
		message = p
	}
	line := checkProblem{Severity: severityError, Code: f.Code, Space: e.Space.Label, File: v.place(e.Space, e.Path), Message: message}
	if e.Ref.Kind != "" {
		line.Ref = e.Ref.String()
	}
	return line
}

// lines loads files and says of each what it is worth. Assets are left out, and what can't be read becomes a problem.
func (v *items) lines(ctx context.Context, files []ai.File, ans *lsAnswer, known *knownFiles) ([]itemLine, error) {
	lines := make([]itemLine, len(files))
	failed := make([]error, len(files))
	err := v.each(ctx, files, func(i int, it *ai.Item, err error) {
		if err != nil {
			failed[i] = err
			return
		}
		known.add(it.Space, it.Path)
		known.addTree(ctx, v, it)
		w, _ := v.worth(ctx, it)
		lines[i] = v.line(it, w)
	})
	if err != nil {
		return nil, err
	}
	for _, err := range failed {
		if e, ok := errors.AsType[*ai.ItemError](err); ok && !errors.Is(err, ai.ErrAsset) {
			ans.Problems = append(ans.Problems, v.broken(e))
		}
	}
	slices.SortStableFunc(ans.Problems, func(a, b checkProblem) int { return cmp.Compare(a.File, b.File) })
	lines = slices.DeleteFunc(lines, func(l itemLine) bool { return l.Ref == "" })
	return lines, nil
}

// line is what a list says of an item.
func (v *items) line(it *ai.Item, w worth) itemLine {
	l := itemLine{worth: w, Ref: it.Ref.String(), Version: it.Model.Version, Space: it.Space.Label,
		Path: it.Path, File: v.place(it.Space, it.Path), Raw: it.Raw.String(), Invalid: it.Model.Invalid()}
	for _, p := range it.Model.Problems {
		if p.Warning {
			l.Warnings++
		} else {
			l.Errors++
		}
	}
	// Of a tool the title is its name, which is known.
	if l.Title = it.Model.Title; l.Title == "" || l.Title == it.Ref.Name() && it.Model.Description != "" {
		l.Title = it.Model.Description
	}
	return l
}

// hide marks the items that others hide, and those that hide a protected one and may not.
func (v *items) hide(ctx context.Context, lines []itemLine, all *ai.Listing) {
	spaces := map[string]int{} // with a file that may be the item
	for _, f := range all.Files {
		spaces[f.Ref.String()]++
	}
	for i := range lines {
		l := &lines[i]
		if spaces[l.Ref] < 2 {
			continue
		}
		ref, err := model.ParseRef(l.Ref)
		if err != nil {
			continue
		}
		same, err := v.All(ctx, ref)
		if err != nil || len(same) < 2 {
			continue // an ambiguous id is a problem of its own
		}
		if front := same[0].Space.Label; front != l.Space {
			l.HiddenBy = front
			continue
		}
		_, l.Denied = errors.AsType[*ai.ShadowError](v.shadow(ctx, same[0]))
	}
}
