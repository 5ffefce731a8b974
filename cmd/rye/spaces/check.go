package spaces

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/template"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/manifest/exam"
)

func CheckCommand() cli.Command {
	return cli.Command{
		Path: "check", Group: "items", Help: "Validate items.",
		More: "Without arguments it checks every item of the project. An argument is a ref (tool:acme/fetch), a glob over refs ('tool:acme/**', " +
			"'**'), or a file or directory below .ai. For a tool, check follows the executors down to the primitive that runs it. It prints " +
			"every problem on a line of its own, FILE:LINE:COLUMN first. A file that looks like an item but isn't one is a warning. If a " +
			"problem is an error, the exit status is 1. rye verify checks signatures.\n\nExamples:\n\n    rye check\n    rye check tool:acme/fetch 'directive:**'\n    rye check .ai/tools/acme --json",
		Aka: []string{"validate", "lint"},
		New: func() cli.Runner { return new(checkRun) }, Schema: "check/1", Output: &checkAnswer{},
	}
}

type checkRun struct {
	Items []string `arg:"" optional:"" name:"item" complete:"ref" help:"Refs, globs, files or directories."`
}

// A CheckProblem is one thing wrong with an item.
type CheckProblem struct {
	Severity string     `json:"severity"` // "error", "warning"
	Code     fault.Code `json:"code"`
	Ref      string     `json:"ref"` // empty if the file's name is no item's
	Space    string     `json:"space"`
	File     string     `json:"file"`
	Line     int        `json:"line"` // 0 if it is about the whole file
	Column   int        `json:"column"`
	Field    string     `json:"field"`
	Message  string     `json:"message"`
}

const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

type checkAnswer struct {
	Items    int            `json:"items"` // that were looked at
	Errors   int            `json:"errors"`
	Warnings int            `json:"warnings"`
	Wrong    int            `json:"wrong"` // files with errors
	Problems []CheckProblem `json:"problems"`
}

func (c *checkAnswer) Text(t *cli.Terminal) {
	PrintProblems(t, c.Problems)
	if c.Errors == 0 {
		t.Printf("%s  %s%s\n", t.Stdout.Paint(cli.RoleGood, "checked", t.Ascii), fault.Count(int64(c.Items), "item"), c.alsoWarnings())
	}
}

func (c *checkAnswer) alsoWarnings() string {
	if c.Warnings == 0 {
		return ""
	}
	return ", " + fault.Count(int64(c.Warnings), "warning")
}

// At is the place of a problem as far as it is known: of some errors of YAML only the line is.
func (p *CheckProblem) At() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// PrintProblems writes each problem on a line that editors can follow.
func PrintProblems(t *cli.Terminal, problems []CheckProblem) {
	for _, p := range problems {
		colour := cli.RoleError
		if p.Severity == SeverityWarning {
			colour = cli.RoleWarn
		}
		t.Printf("%s: %s: %s\n", p.At(), t.Stdout.Paint(colour, p.Severity, t.Ascii), p.Message)
	}
}

func (c *checkRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	v, err := OpenItems(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	only := (*ai.Space)(nil)
	if len(c.Items) == 0 {
		only = v.Own()
	}
	sel, err := v.Selected(ctx, only, c.Items...)
	if err != nil {
		return nil, err
	}
	ck := NewItemChecker(v)
	v.Admit.KeepTrees()
	if err := ck.CheckAll(ctx, sel, func(int, *CheckedItem) {}); err != nil {
		return nil, err
	}
	ck.extractors(sel, only)
	if only != nil {
		if _, err := ck.Strays(ctx, only); err != nil {
			return nil, err
		}
	}
	for _, dir := range sel.dirs {
		if err := ck.straysBelow(ctx, dir.Space, dir.Path); err != nil {
			return nil, err
		}
	}
	ck.Count(a)
	ans := ck.Answer()
	if ans.Errors > 0 {
		return ans, ans.Fault("")
	}
	return ans, nil
}

// Fault says how much is wrong. It is the answer to a question unless something else was to be done.
func (c *checkAnswer) Fault(also string) *fault.Error {
	f := &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%s in %d of %s%s", fault.Count(int64(c.Errors), "error"), c.Wrong,
		fault.Count(int64(max(c.Items, c.Wrong)), "item"), c.alsoWarnings())}
	for _, kind := range []string{"directive", "knowledge", "tool"} {
		if slices.ContainsFunc(c.Problems, func(p CheckProblem) bool {
			return p.Severity == SeverityError && p.Field != "" && strings.HasPrefix(p.Ref, kind+":")
		}) {
			f.Hint = append(f.Hint, "rye docs "+kind+"-format")
		}
	}
	if also == "" {
		return f.Asked()
	}
	f.Text = also + ": " + f.Text
	return f
}

// Count counts for --verbose what was read.
func (v *Items) Count(a *cli.App) {
	items, bytes := v.Counts()
	a.Count("items read").Store(items)
	a.Count("bytes read").Store(bytes)
	hits, misses := v.Admit.Rate()
	a.Count("executor rule hits").Store(hits)
	a.Count("executor rule misses").Store(misses)
}

// Count adds to them how often an executor was remembered.
func (ck *ItemChecker) Count(a *cli.App) {
	ck.v.Count(a)
	ck.links.mu.Lock()
	defer ck.links.mu.Unlock()
	a.Count("executor hits").Store(ck.links.hits)
	a.Count("executor misses").Store(ck.links.misses)
}

// An ItemChecker finds what is wrong with items. It is for one command, and may be used by many goroutines.
type ItemChecker struct {
	v     *Items
	links *remembering
	known *KnownFiles

	mu       sync.Mutex
	items    int
	problems []CheckProblem
}

func NewItemChecker(v *Items) *ItemChecker {
	return &ItemChecker{v: v, links: v.Remember(), known: NewKnownFiles()}
}

// A CheckedItem is an item and what signatures of it are about. It has no subject if its tree can't be told.
type CheckedItem struct {
	*ai.Item
	Subject exam.Subject
	Tree    *tree.Tree
	Bad     bool // has an error
}

// CheckAll checks what was selected, and hands each item to f with its place, from many goroutines.
func (ck *ItemChecker) CheckAll(ctx context.Context, sel *Selection, f func(i int, it *CheckedItem)) error {
	for _, p := range sel.Problems {
		ck.file(p)
	}
	files := make([]ai.File, len(sel.Files))
	for i := range files {
		files[i] = sel.Files[i].File
	}
	var stop error
	err := ck.v.Each(ctx, files, func(i int, it *ai.Item, err error) {
		if err != nil {
			if !errors.Is(err, ai.ErrAsset) || sel.Files[i].Named {
				ck.known.Add(files[i].Space, files[i].Path)
				ck.look()
				ck.Add(ck.Line(files[i], value.Pos{}, err))
			}
			return
		}
		c, err := ck.check(ctx, it)
		if err != nil {
			ck.mu.Lock()
			defer ck.mu.Unlock()
			stop = err
			return
		}
		f(i, c)
	})
	return cmp.Or(err, stop)
}

// check checks one item. An error is one of the context.
func (ck *ItemChecker) check(ctx context.Context, it *ai.Item) (*CheckedItem, error) {
	c := &CheckedItem{Item: it}
	ck.look()
	ck.known.Add(it.Space, it.Path)
	ck.known.AddTree(ctx, ck.v, it)
	var lines []CheckProblem
	for _, p := range slices.Concat(it.Model.Problems, ofExtractor(it)) {
		l := ck.Line(it.File, p.At, nil)
		l.Field, l.Message = p.Field, p.Message
		if p.Warning {
			l.Severity = SeverityWarning
		}
		lines = append(lines, l)
	}
	if at := unmerged(it.Bytes); at > 0 {
		// Only a warning: a prompt may show them to explain git.
		l := ck.Line(it.File, value.Pos{Line: at}, nil)
		l.Severity, l.Message = SeverityWarning, "git has left both sides of a merge here"
		lines = append(lines, l)
	}
	if it.Broken != nil {
		// Only a warning: signing the item again repairs its signature lines.
		l := ck.Line(it.File, value.Pos{}, it.Broken)
		l.Severity = SeverityWarning
		lines = append(lines, l)
	}
	if err := ck.v.Shadow(ctx, it); err != nil {
		lines = append(lines, ck.Line(it.File, value.Pos{}, err))
	}
	walked := ck.chain(ctx, it, &lines)
	var err error
	c.Subject, c.Tree, err = ck.v.Admit.Subject(ctx, it)
	if err != nil && ctx.Err() == nil {
		_, chain := errors.AsType[*ai.ChainError](err)
		if !chain || walked {
			lines = append(lines, ck.ofTree(it, err)...)
		}
		c.Bad = true
	}
	if err == nil {
		lines = append(lines, ck.ofPackages(ctx, c)...)
	}
	c.Bad = c.Bad || slices.ContainsFunc(lines, func(l CheckProblem) bool { return l.Severity == SeverityError })
	ck.Add(lines...)
	return c, ctx.Err()
}

// unmerged returns the line at which git has left both sides of a merge, 0 if it has not.
func unmerged(b []byte) int {
	rest, line := b, 1
	for i, mark := range []string{"<<<<<<< ", "=======", ">>>>>>> "} {
		at := 0
		if !bytes.HasPrefix(rest, []byte(mark)) {
			if at = bytes.Index(rest, []byte("\n"+mark)) + 1; at == 0 {
				return 0
			}
		}
		if i == 0 {
			line += bytes.Count(rest[:at], []byte("\n"))
		}
		rest = rest[at:]
	}
	return line
}

// ofExtractor returns what is wrong with an extractor as such, whether or not it counts already.
func ofExtractor(it *ai.Item) []*value.Problem {
	if !it.Model.IsExtractor() || path.Ext(it.Path) != ".yaml" {
		return nil
	}
	_, problems := it.Model.Extractor()
	return problems
}

// chain follows a tool to its primitive and reports whether there is one. What is wrong with the tool itself was told
// before; an extractor isn't run.
func (ck *ItemChecker) chain(ctx context.Context, it *ai.Item, lines *[]CheckProblem) bool {
	t := it.Model.Tool
	if t == nil || t.Type == "extractor" {
		return true
	}
	chain, err := ai.WalkFrom(ctx, ck.links, it)
	if err == nil && ctx.Err() == nil {
		*lines = append(*lines, ck.ofTemplates(it, chain)...)
	}
	if err == nil || ctx.Err() != nil {
		return true
	}
	at := value.Pos{}
	if v := it.Model.Fields.Get("executor_id"); v != nil {
		at = v.At
	}
	broken, ok := errors.AsType[*ai.ChainError](err)
	if !ok || len(broken.Issues) == 0 {
		l := ck.Line(it.File, at, err)
		l.Field = "executor_id"
		if missing, ok := errors.AsType[*ai.NotFoundError](err); ok {
			_, err := ck.v.Find(ctx, missing.Ref)
			if found, ok := errors.AsType[*ai.NotFoundError](err); ok && len(found.Near) > 0 {
				l.Message += "; did you mean " + strings.Join(found.Near, ", ") + "?"
			}
		}
		*lines = append(*lines, l)
		return false
	}
	own := 0 // the issues begin with the tool's own problems
	for _, p := range it.Model.Problems {
		if !p.Warning {
			own++
		}
	}
	for _, i := range broken.Issues[min(own, len(broken.Issues)):] {
		l := ck.Line(it.File, at, nil)
		l.Field, l.Code, l.Message = "executor_id", fault.Code(i.Code), i.Message
		*lines = append(*lines, l)
	}
	return true
}

// ofTemplates tells which names in the configuration of a tool stand for nothing, so that every call fails. Those of a
// runtime may be parameters of what it runs.
func (ck *ItemChecker) ofTemplates(it *ai.Item, chain *ai.Chain) (lines []CheckProblem) {
	t := it.Model.Tool
	if t.Config.IsNull() || t.Primitive || t.Type == "runtime" {
		return nil
	}
	var links []template.Link
	for _, l := range chain.Links {
		links = append(links, template.Link{Name: l.Ref.String(), Config: l.Model.Tool.Config})
	}
	merged, err := template.Merge(links...)
	if err != nil {
		return nil // what isn't an object was told
	}
	declares := sync.OnceValue(func() func(string) bool { // most tools have no name in their own configuration
		schema, err := exec.Input(t)
		if err != nil {
			return func(string) bool { return true }
		}
		return schema.Declares
	})
	for _, wrong := range merged.Unknown(it.Ref.String(), exec.Named(), func(name string) bool { return declares()(name) }) {
		l := ck.Line(it.File, wrong.At, nil)
		l.Severity, l.Field = SeverityWarning, "config"
		l.Message = fmt.Sprintf("config %q: %s", wrong.Path, wrong.Err)
		lines = append(lines, l)
	}
	return lines
}

// ofTree tells which files keep a tool's directory from being its tree.
func (ck *ItemChecker) ofTree(it *ai.Item, err error) (lines []CheckProblem) {
	refused, ok := errors.AsType[*tree.RefusedError](err)
	at, item := errors.AsType[*ai.ItemError](err)
	if !ok || !item {
		return []CheckProblem{ck.Line(it.File, value.Pos{}, err)}
	}
	for _, f := range refused.Files {
		l := ck.Line(it.File, value.Pos{}, f.Err)
		l.File = ck.v.Place(it.Space, path.Join(at.Path, f.Path))
		l.Message = fmt.Sprintf("%s: it can't be part of the tree of %s", l.Message, it.Ref)
		lines = append(lines, l)
	}
	return lines
}

// ofPackages tells what is wrong with the list of packages that a tool names.
func (ck *ItemChecker) ofPackages(ctx context.Context, it *CheckedItem) []CheckProblem {
	_, err := closure.ListOf(ctx, ck.v.Admit, it.Item, it.Tree)
	if err == nil {
		return nil
	}
	at := value.Pos{}
	if v := it.Model.Fields.Get("packages"); v != nil {
		at = v.At
	}
	l := ck.Line(it.File, at, err)
	l.Field = "packages"
	if in, ok := errors.AsType[*closure.InListError](err); ok {
		l = ck.Line(it.File, value.Pos{Line: in.Line}, in.Err)
		l.File = ck.v.Place(it.Space, in.Path)
	}
	return []CheckProblem{l}
}

// Line makes a problem of an error about a file.
func (ck *ItemChecker) Line(f ai.File, at value.Pos, err error) CheckProblem {
	l := CheckProblem{Severity: SeverityError, Code: fault.Validation, Space: f.Space.Label, File: ck.v.Place(f.Space, f.Path),
		Line: at.Line, Column: at.Column}
	if f.Ref.Kind != "" {
		l.Ref = f.Ref.String()
	}
	if err != nil {
		l.Code, l.Message = check.Words(err)
	}
	if errors.Is(err, ai.ErrAsset) && !errors.Is(err, ai.ErrGone) {
		l.Message += ": " + model.MissingMarker(f.Ref.Kind, f.Path)
	}
	return l
}

// file makes a problem of what a listing says about a file.
func (ck *ItemChecker) file(e *ai.ItemError) {
	ck.look()
	ck.known.Add(e.Space, e.Path)
	ck.Add(ck.Line(ai.File{Ref: e.Ref, Space: e.Space, Path: e.Path}, value.Pos{}, e))
}

// extractors tells which of the extractors that were looked at don't count.
func (ck *ItemChecker) extractors(sel *Selection, only *ai.Space) {
	for _, w := range ck.v.Warnings() {
		covered := w.Space == only || slices.ContainsFunc(sel.Files, func(c Chosen) bool { return c.Space == w.Space && c.Path == w.Path })
		known := slices.ContainsFunc(sel.Problems, func(p *ai.ItemError) bool { return p.Space == w.Space && p.Path == w.Path })
		if !covered || known {
			continue
		}
		l := ck.Line(ai.File{Ref: w.Ref, Space: w.Space, Path: w.Path}, value.Pos{}, w)
		l.Severity, l.Message = SeverityWarning, "the extractor doesn't count: "+l.Message
		ck.Add(l)
	}
}

// look counts an item, or what looks like one.
func (ck *ItemChecker) look() {
	ck.mu.Lock()
	defer ck.mu.Unlock()
	ck.items++
}

func (ck *ItemChecker) Add(lines ...CheckProblem) {
	ck.mu.Lock()
	defer ck.mu.Unlock()
	ck.problems = append(ck.problems, lines...)
}

// Answer returns what was found, sorted.
func (ck *ItemChecker) Answer() *checkAnswer {
	ans := &checkAnswer{Items: ck.items, Problems: append([]CheckProblem{}, ck.problems...)}
	slices.SortStableFunc(ans.Problems, func(a, b CheckProblem) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Message, b.Message))
	})
	ans.Problems = slices.Compact(ans.Problems)
	wrong := map[string]bool{}
	for _, p := range ans.Problems {
		if p.Severity == SeverityWarning {
			ans.Warnings++
			continue
		}
		ans.Errors++
		wrong[p.File] = true
	}
	ans.Wrong = len(wrong)
	return ans
}
