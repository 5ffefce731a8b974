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
	Items []string `arg:"" optional:"" name:"item" complete:"ref" help:"Refs, globs, files or directories."`
	Kind  string   `placeholder:"KIND" complete:"kind" help:"Only items of this kind."`
	Space string   `placeholder:"SPACE" complete:"space" help:"Only items of this space: project, user or system."`
}

type lsAnswer struct {
	Items    []itemLine      `json:"items"`
	Problems []check.Problem `json:"problems"` // files that are no items although they look like some
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
	// stands in front of a protected item, which the root policy doesn't allow
	Denied   bool `json:"denied"`
	Invalid  bool `json:"invalid"`
	Errors   int  `json:"errors"`
	Warnings int  `json:"warnings"`
}

func (l *lsAnswer) Text(t *cli.Terminal) {
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
	t.Rows(rows)
	for _, p := range l.Problems {
		t.Warn("%s: %s", p.File, p.Message)
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
	t.Note("%s", strings.Join(parts, ", "))
}

func (c *lsRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	v, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	v.Admit.KeepTrees()
	var only []*ai.Space
	if c.Kind != "" {
		if _, err := v.CheckKind(c.Kind); err != nil {
			return nil, fault.Of(err).Try("rye ls")
		}
	}
	if c.Space != "" {
		if err := checkUserSpace(v, c.Space); err != nil {
			return nil, err
		}
		if only, err = v.Named(c.Space); err != nil {
			return nil, err
		}
	}
	l, err := v.List(ctx, c.Items...)
	if err != nil {
		return nil, err
	}
	for _, text := range c.Items {
		if arg, err := v.Parse(text); err == nil && onlyAssets(ctx, v, &arg, l) {
			return nil, v.NothingAt(ctx, &arg)
		}
	}
	wanted := func(kind string, s *ai.Space) bool {
		return (c.Kind == "" || kind == c.Kind) && (only == nil || slices.Contains(only, s))
	}
	ans := &lsAnswer{Problems: []check.Problem{}}
	for _, p := range l.Problems {
		kind := p.Ref.Kind
		if kind == "" {
			if k := kindAt(v, p.Path); k != nil {
				kind = k.Name
			}
		}
		if wanted(kind, p.Space) {
			ans.Problems = append(ans.Problems, broken(v, p))
		}
	}
	all := l
	if len(c.Items) > 0 { // what hides and is hidden need not be among what was asked for
		if all, err = v.Files(ctx); err != nil {
			return nil, err
		}
	}
	files := slices.DeleteFunc(slices.Clone(l.Files), func(f ai.File) bool { return !wanted(f.Ref.Kind, f.Space) })
	known := new(check.Known)
	if ans.Items, err = lines(ctx, v, files, ans, known); err != nil {
		return nil, err
	}
	if own := v.Own(); own != nil && len(c.Items) == 0 && c.Kind == "" && wanted("", own) {
		if err := warnStrays(ctx, v, own, known); err != nil {
			return nil, err
		}
	}
	if v.Trust == nil && slices.ContainsFunc(ans.Items, func(l itemLine) bool { return l.Trust == "refused" }) {
		_, err := paths.OpenTrust(a)
		f := fault.Of(err)
		a.Term.Warn("nothing but the library is trusted: %s: %s", f.Text, strings.Join(f.Hint, ", or "))
	}
	hide(ctx, v, ans.Items, all)
	v.Count()
	return ans, nil
}

// warnStrays counts the files of a space that have a signature line and are no items.
func warnStrays(ctx context.Context, v *spaces.Items, s *ai.Space, known *check.Known) error {
	all, err := check.Strays(ctx, v.View, s, known.In(s))
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
		v.App.Term.Warn("%s below %q %s: rye check says why", fault.Count(int64(byKind[dir]), "file"), v.Name(s, dir),
			verb)
	}
	return err
}

// checkUserSpace refuses to look into the user space where it doesn't count.
func checkUserSpace(v *spaces.Items, label string) error {
	if label != ai.User.String() || v.Root.Marker != workspace.MarkerFile {
		return nil
	}
	return fault.New(fault.Validation, "a project with %s doesn't use the user space", workspace.MarkerFile).
		Because("what works for you works for everybody who has the project; outside of it the space is there").
		Try("rye docs spaces").On("space", label)
}

// onlyAssets reports whether what a ref or a path stands for carries no mark of an item.
func onlyAssets(ctx context.Context, v *spaces.Items, arg *items.Arg, l *ai.Listing) bool {
	if arg.Glob != nil || arg.Dir {
		return false
	}
	for _, p := range l.Problems {
		if f, err := v.At(p.Space, p.Path); err == nil && arg.Covers(f.Ref, p.Space, p.Path) {
			return false
		}
	}
	for _, f := range l.Files {
		if !arg.Covers(f.Ref, f.Space, f.Path) {
			continue
		}
		if _, err := v.Load(ctx, f); !errors.Is(err, ai.ErrAsset) {
			return false
		}
	}
	return true
}

// kindAt is the kind in whose directory a path is, nil if it is in none.
func kindAt(v *spaces.Items, p string) *model.Kind {
	for _, k := range v.Kinds() {
		if p == k.Dir || strings.HasPrefix(p, k.Dir+"/") {
			return k
		}
	}
	return nil
}

// broken is what is said of a file that is no item.
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

// lines loads files and says of each what it is worth. Assets are left out, and what can't be read becomes a problem.
func lines(ctx context.Context, v *spaces.Items, files []ai.File, ans *lsAnswer, known *check.Known) ([]itemLine,
	error) {
	lines := make([]itemLine, len(files))
	failed := make([]error, len(files))
	err := v.Each(ctx, files, func(i int, it *ai.Item, err error) {
		if err != nil {
			failed[i] = err
			return
		}
		known.Add(it.Space, it.Path)
		known.AddTree(ctx, v.Admit, it)
		w, _ := v.Worth(ctx, it)
		lines[i] = line(v, it, w)
	})
	if err != nil {
		return nil, err
	}
	for _, err := range failed {
		if e, ok := errors.AsType[*ai.ItemError](err); ok && !errors.Is(err, ai.ErrAsset) {
			ans.Problems = append(ans.Problems, broken(v, e))
		}
	}
	slices.SortStableFunc(ans.Problems, func(a, b check.Problem) int { return cmp.Compare(a.File, b.File) })
	lines = slices.DeleteFunc(lines, func(l itemLine) bool { return l.Ref == "" })
	return lines, nil
}

// line is what a list says of an item.
func line(v *spaces.Items, it *ai.Item, w items.Worth) itemLine {
	l := itemLine{Worth: w, Ref: it.Ref.String(), Version: it.Model.Version, Space: it.Space.Label,
		Path: it.Path, File: v.Name(it.Space, it.Path), Raw: it.Raw.String(), Invalid: it.Model.Invalid()}
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
func hide(ctx context.Context, v *spaces.Items, lines []itemLine, all *ai.Listing) {
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
		_, l.Denied = errors.AsType[*ai.ShadowError](check.Shadow(ctx, v.View, same[0]))
	}
}
