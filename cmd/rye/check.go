package main

import (
	"bytes"
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
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/template"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/manifest/exam"
)

func checkCommand() command {
	return command{
		path: "check", group: "items", help: "Find everything that is wrong with items, before anything is signed or run.",
		more: "Without arguments it checks every item of the project. An argument is a ref (tool:acme/fetch), a glob over refs ('tool:acme/**', " +
			"'**'), or a file or directory below .ai. Each file is read anew. Tools are followed to the primitive that runs them. All problems are " +
			"told at once, one a line, FILE:LINE:COLUMN first, files that look like items and are none as warnings, in the project or the directories that are named; if one of them is an error, the exit status is 1. Whether items are signed is for " +
			"rye verify to say.\n\nExamples:\n\n    rye check\n    rye check tool:acme/fetch 'directive:**'\n    rye check .ai/tools/acme --json",
		aka: []string{"validate", "lint"},
		new: func() runner { return new(checkRun) }, schema: "check/1", output: &checkAnswer{},
	}
}

type checkRun struct {
	Items []string `arg:"" optional:"" name:"item" complete:"ref" help:"Refs, globs, files and directories."`
}

// A checkProblem is one thing wrong with an item.
type checkProblem struct {
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
	severityError   = "error"
	severityWarning = "warning"
)

type checkAnswer struct {
	Items    int            `json:"items"` // that were looked at
	Errors   int            `json:"errors"`
	Warnings int            `json:"warnings"`
	Wrong    int            `json:"wrong"` // files with errors
	Problems []checkProblem `json:"problems"`
}

func (c *checkAnswer) text(t *terminal) {
	printProblems(t, c.Problems)
	if c.Errors == 0 {
		t.printf("%s  %s%s\n", t.stdout.paint(roleGood, "checked", t.ascii), fault.Count(int64(c.Items), "item"), c.alsoWarnings())
	}
}

func (c *checkAnswer) alsoWarnings() string {
	if c.Warnings == 0 {
		return ""
	}
	return ", " + fault.Count(int64(c.Warnings), "warning")
}

// at is the place of a problem as far as it is known: of some errors of YAML only the line is.
func (p *checkProblem) at() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// printProblems writes each problem on a line that editors can follow.
func printProblems(t *terminal, problems []checkProblem) {
	for _, p := range problems {
		colour := roleError
		if p.Severity == severityWarning {
			colour = roleWarn
		}
		t.printf("%s: %s: %s\n", p.at(), t.stdout.paint(colour, p.Severity, t.ascii), p.Message)
	}
}

func (c *checkRun) run(ctx context.Context, a *app) (answer, error) {
	v, err := a.items(ctx)
	if err != nil {
		return nil, err
	}
	defer v.close()
	only := (*ai.Space)(nil)
	if len(c.Items) == 0 {
		only = v.own()
	}
	sel, err := v.selected(ctx, only, c.Items...)
	if err != nil {
		return nil, err
	}
	ck := newItemChecker(v)
	v.admit.KeepTrees()
	if err := ck.checkAll(ctx, sel, func(int, *checkedItem) {}); err != nil {
		return nil, err
	}
	ck.extractors(sel, only)
	if only != nil {
		if _, err := ck.strays(ctx, only); err != nil {
			return nil, err
		}
	}
	for _, dir := range sel.dirs {
		if err := ck.straysBelow(ctx, dir.space, dir.path); err != nil {
			return nil, err
		}
	}
	ck.count(a)
	ans := ck.answer()
	if ans.Errors > 0 {
		return ans, ans.fault("")
	}
	return ans, nil
}

// fault says how much is wrong. It is the answer to a question unless something else was to be done.
func (c *checkAnswer) fault(also string) *fault.Error {
	f := &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%s in %d of %s%s", fault.Count(int64(c.Errors), "error"), c.Wrong,
		fault.Count(int64(max(c.Items, c.Wrong)), "item"), c.alsoWarnings())}
	for _, kind := range []string{"directive", "knowledge", "tool"} {
		if slices.ContainsFunc(c.Problems, func(p checkProblem) bool {
			return p.Severity == severityError && p.Field != "" && strings.HasPrefix(p.Ref, kind+":")
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

// count counts for --verbose what was read.
func (v *items) count(a *app) {
	items, bytes := v.Counts()
	a.count("items read").Store(items)
	a.count("bytes read").Store(bytes)
	hits, misses := v.admit.Rate()
	a.count("executor rule hits").Store(hits)
	a.count("executor rule misses").Store(misses)
}

// count adds to them how often an executor was remembered.
func (ck *itemChecker) count(a *app) {
	ck.v.count(a)
	ck.links.mu.Lock()
	defer ck.links.mu.Unlock()
	a.count("executor hits").Store(ck.links.hits)
	a.count("executor misses").Store(ck.links.misses)
}

// An itemChecker finds what is wrong with items. It is for one command, and may be used by many goroutines.
type itemChecker struct {
	v     *items
	links *remembering
	known *knownFiles

	mu       sync.Mutex
	items    int
	problems []checkProblem
}

func newItemChecker(v *items) *itemChecker {
	return &itemChecker{v: v, links: v.remember(), known: newKnownFiles()}
}

// A checkedItem is an item and what signatures of it are about. It has no subject if its tree can't be told.
type checkedItem struct {
	*ai.Item
	subject exam.Subject
	tree    *tree.Tree
	bad     bool // has an error
}

// checkAll checks what was selected, and hands each item to f with its place, from many goroutines.
func (ck *itemChecker) checkAll(ctx context.Context, sel *selection, f func(i int, it *checkedItem)) error {
	for _, p := range sel.problems {
		ck.file(p)
	}
	files := make([]ai.File, len(sel.files))
	for i := range files {
		files[i] = sel.files[i].File
	}
	var stop error
	err := ck.v.each(ctx, files, func(i int, it *ai.Item, err error) {
		if err != nil {
			if !errors.Is(err, ai.ErrAsset) || sel.files[i].named {
				ck.known.add(files[i].Space, files[i].Path)
				ck.look()
				ck.add(ck.line(files[i], value.Pos{}, err))
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
func (ck *itemChecker) check(ctx context.Context, it *ai.Item) (*checkedItem, error) {
	c := &checkedItem{Item: it}
	ck.look()
	ck.known.add(it.Space, it.Path)
	ck.known.addTree(ctx, ck.v, it)
	var lines []checkProblem
	for _, p := range slices.Concat(it.Model.Problems, ofExtractor(it)) {
		l := ck.line(it.File, p.At, nil)
		l.Field, l.Message = p.Field, p.Message
		if p.Warning {
			l.Severity = severityWarning
		}
		lines = append(lines, l)
	}
	if at := unmerged(it.Bytes); at > 0 {
		// A prompt may show them to explain git, so it is for whoever reads the line to say.
		l := ck.line(it.File, value.Pos{Line: at}, nil)
		l.Severity, l.Message = severityWarning, "git has left both sides of a merge here"
		lines = append(lines, l)
	}
	if it.Broken != nil {
		// Not what the item says, but what was done to its signatures: whoever signs it anew puts them right.
		l := ck.line(it.File, value.Pos{}, it.Broken)
		l.Severity = severityWarning
		lines = append(lines, l)
	}
	if err := ck.v.shadow(ctx, it); err != nil {
		lines = append(lines, ck.line(it.File, value.Pos{}, err))
	}
	walked := ck.chain(ctx, it, &lines)
	var err error
	c.subject, c.tree, err = ck.v.admit.Subject(ctx, it)
	if err != nil && ctx.Err() == nil {
		_, chain := errors.AsType[*ai.ChainError](err)
		if !chain || walked {
			lines = append(lines, ck.ofTree(it, err)...)
		}
		c.bad = true
	}
	if err == nil {
		lines = append(lines, ck.ofPackages(ctx, c)...)
	}
	c.bad = c.bad || slices.ContainsFunc(lines, func(l checkProblem) bool { return l.Severity == severityError })
	ck.add(lines...)
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
func (ck *itemChecker) chain(ctx context.Context, it *ai.Item, lines *[]checkProblem) bool {
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
		l := ck.line(it.File, at, err)
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
		l := ck.line(it.File, at, nil)
		l.Field, l.Code, l.Message = "executor_id", fault.Code(i.Code), i.Message
		*lines = append(*lines, l)
	}
	return true
}

// ofTemplates tells which names in the configuration of a tool stand for nothing, so that every call fails. Those of a
// runtime may be parameters of what it runs.
func (ck *itemChecker) ofTemplates(it *ai.Item, chain *ai.Chain) (lines []checkProblem) {
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
		l := ck.line(it.File, wrong.At, nil)
		l.Severity, l.Field = severityWarning, "config"
		l.Message = fmt.Sprintf("config %q: %s", wrong.Path, wrong.Err)
		lines = append(lines, l)
	}
	return lines
}

// ofTree tells which files keep a tool's directory from being its tree.
func (ck *itemChecker) ofTree(it *ai.Item, err error) (lines []checkProblem) {
	refused, ok := errors.AsType[*tree.RefusedError](err)
	at, item := errors.AsType[*ai.ItemError](err)
	if !ok || !item {
		return []checkProblem{ck.line(it.File, value.Pos{}, err)}
	}
	for _, f := range refused.Files {
		l := ck.line(it.File, value.Pos{}, f.Err)
		l.File = ck.v.place(it.Space, path.Join(at.Path, f.Path))
		l.Message = fmt.Sprintf("%s: it can't be part of the tree of %s", l.Message, it.Ref)
		lines = append(lines, l)
	}
	return lines
}

// ofPackages tells what is wrong with the list of packages that a tool names.
func (ck *itemChecker) ofPackages(ctx context.Context, it *checkedItem) []checkProblem {
	_, err := closure.ListOf(ctx, ck.v.admit, it.Item, it.tree)
	if err == nil {
		return nil
	}
	at := value.Pos{}
	if v := it.Model.Fields.Get("packages"); v != nil {
		at = v.At
	}
	l := ck.line(it.File, at, err)
	l.Field = "packages"
	if in, ok := errors.AsType[*closure.InListError](err); ok {
		l = ck.line(it.File, value.Pos{Line: in.Line}, in.Err)
		l.File = ck.v.place(it.Space, in.Path)
	}
	return []checkProblem{l}
}

// line makes a problem of an error about a file.
func (ck *itemChecker) line(f ai.File, at value.Pos, err error) checkProblem {
	l := checkProblem{Severity: severityError, Code: fault.Validation, Space: f.Space.Label, File: ck.v.place(f.Space, f.Path),
		Line: at.Line, Column: at.Column}
	if f.Ref.Kind != "" {
		l.Ref = f.Ref.String()
	}
	if err != nil {
		l.Code, l.Message = wordsFor(err)
	}
	if errors.Is(err, ai.ErrAsset) && !errors.Is(err, ai.ErrGone) {
		l.Message += ": " + missingMark(f.Ref.Kind, f.Path)
	}
	return l
}

// file makes a problem of what a listing says about a file.
func (ck *itemChecker) file(e *ai.ItemError) {
	ck.look()
	ck.known.add(e.Space, e.Path)
	ck.add(ck.line(ai.File{Ref: e.Ref, Space: e.Space, Path: e.Path}, value.Pos{}, e))
}

// wordsFor returns the code of an error about a file, and what it says without naming the file again.
func wordsFor(err error) (fault.Code, string) {
	if e, ok := errors.AsType[*ai.ItemError](err); ok && error(e) == err {
		err = e.Err
	}
	f := classify(err)
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return fault.Files, pe.Err.Error()
	}
	if f.Code == fault.Unknown {
		f.Code = fault.Validation
	}
	return f.Code, f.Text
}

// extractors tells which of the extractors that were looked at don't count.
func (ck *itemChecker) extractors(sel *selection, only *ai.Space) {
	for _, w := range ck.v.Warnings() {
		covered := w.Space == only || slices.ContainsFunc(sel.files, func(c chosen) bool { return c.Space == w.Space && c.Path == w.Path })
		known := slices.ContainsFunc(sel.problems, func(p *ai.ItemError) bool { return p.Space == w.Space && p.Path == w.Path })
		if !covered || known {
			continue
		}
		l := ck.line(ai.File{Ref: w.Ref, Space: w.Space, Path: w.Path}, value.Pos{}, w)
		l.Severity, l.Message = severityWarning, "the extractor doesn't count: "+l.Message
		ck.add(l)
	}
}

// look counts an item, or what looks like one.
func (ck *itemChecker) look() {
	ck.mu.Lock()
	defer ck.mu.Unlock()
	ck.items++
}

func (ck *itemChecker) add(lines ...checkProblem) {
	ck.mu.Lock()
	defer ck.mu.Unlock()
	ck.problems = append(ck.problems, lines...)
}

// answer returns what was found, sorted.
func (ck *itemChecker) answer() *checkAnswer {
	ans := &checkAnswer{Items: ck.items, Problems: append([]checkProblem{}, ck.problems...)}
	slices.SortStableFunc(ans.Problems, func(a, b checkProblem) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Message, b.Message))
	})
	ans.Problems = slices.Compact(ans.Problems)
	wrong := map[string]bool{}
	for _, p := range ans.Problems {
		if p.Severity == severityWarning {
			ans.Warnings++
			continue
		}
		ans.Errors++
		wrong[p.File] = true
	}
	ans.Wrong = len(wrong)
	return ans
}
