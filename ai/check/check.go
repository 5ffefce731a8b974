// Package check checks items before they are signed or run.
//
// # How a check goes through here
//
// Checker.All loads the chosen files and calls check for each item, which collects the problems of the model, of an
// unfinished merge, of shadowing (Shadow), of the chain (chain, with Links) and of the tree (Admitter.Subject), and
// runs the Rules. Checker.Strays adds warnings for files that look like items. Report sorts and counts all
// problems.
package check

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
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/admission"
)

// A Checker checks items and collects their problems. It is for a single operation, and safe for concurrent use.
type Checker struct {
	View  *ai.View
	Admit *ai.Admitter
	Links *Links
	Name  func(s *ai.Space, path string) string // returns a file's name for people
	Rules []Rule

	known Known

	mu       sync.Mutex
	items    int
	problems []Problem
}

// A Rule is a check that requires more than the spaces. It returns the problems of an item.
type Rule func(ctx context.Context, c *Checker, it *Checked) []Problem

// Checked is a checked item with its subject for signatures. The subject is empty if the tree can't be read.
type Checked struct {
	*ai.Item
	Subject admission.Subject
	Tree    *tree.Tree
	Chain   *ai.Chain // of a tool, only while rules run; nil without a valid chain
	Bad     bool      // has an error
}

// A Chosen file is named by the user or matches a pattern. A named file must be an item.
type Chosen struct {
	ai.File
	Named bool
}

// All checks files, and calls each with the index of each item from many goroutines.
func (c *Checker) All(ctx context.Context, chosen []Chosen, each func(i int, it *Checked)) error {
	files := make([]ai.File, len(chosen))
	for i := range files {
		files[i] = chosen[i].File
	}
	var stop error
	err := c.View.Each(ctx, files, func(i int, it *ai.Item, err error) {
		if err != nil {
			if !errors.Is(err, ai.ErrAsset) || chosen[i].Named {
				c.known.Add(files[i].Space, files[i].Path)
				c.count()
				c.Add(c.About(files[i], value.Pos{}, err))
			}
			return
		}
		checked, err := c.check(ctx, it)
		if err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			stop = err
			return
		}
		each(i, checked)
	})
	return cmp.Or(err, stop)
}

// check checks one item. It returns only errors of the context.
func (c *Checker) check(ctx context.Context, it *ai.Item) (*Checked, error) {
	out := &Checked{Item: it}
	c.count()
	c.known.Add(it.Space, it.Path)
	c.known.AddTree(ctx, c.Admit, it)
	lines := c.Fields(it.File, slices.Concat(it.Model.Problems, ofExtractor(it)))
	if at := unmerged(it.Bytes); at > 0 {
		// Only a warning: a prompt may contain conflict markers to explain git.
		l := c.About(it.File, value.Pos{Line: at}, nil)
		l.Severity, l.Message = Warning, "git has left both sides of a merge here"
		lines = append(lines, l)
	}
	if it.Broken != nil {
		// Only a warning: signing the item again repairs its signature lines.
		l := c.About(it.File, value.Pos{}, it.Broken)
		l.Severity = Warning
		lines = append(lines, l)
	}
	if err := Shadow(ctx, c.View, it); err != nil {
		lines = append(lines, c.About(it.File, value.Pos{}, err))
	}
	walked, wrong := c.chain(ctx, out)
	lines = append(lines, wrong...)
	var err error
	out.Subject, out.Tree, err = c.Admit.Subject(ctx, it)
	if err != nil && ctx.Err() == nil {
		_, chain := errors.AsType[*ai.ChainError](err)
		if !chain || walked {
			lines = append(lines, c.ofTree(it, err)...)
		}
		out.Bad = true
	}
	if err == nil {
		for _, rule := range c.Rules {
			lines = append(lines, rule(ctx, c, out)...)
		}
	}
	out.Chain = nil
	out.Bad = out.Bad || slices.ContainsFunc(lines, func(l Problem) bool { return l.Severity == Error })
	c.Add(lines...)
	return out, ctx.Err()
}

// Risk is a Rule. It warns of a tool that declares no risk.
func Risk(_ context.Context, c *Checker, it *Checked) []Problem {
	note := it.Model.RiskNote()
	if note == "" {
		return nil
	}
	l := c.About(it.File, it.Model.Fields.At, nil)
	l.Severity, l.Field, l.Message = Warning, "risk", "risk: "+note
	return []Problem{l}
}

// unmerged returns the line of an unresolved merge conflict, or 0.
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

// ofExtractor returns the problems of an extractor as such, even if it isn't in use yet.
func ofExtractor(it *ai.Item) []*value.Problem {
	if !it.Model.IsExtractor() || path.Ext(it.Path) != ".yaml" {
		return nil
	}
	_, problems := it.Model.Extractor()
	return problems
}

// chain follows a tool to its primitive, and reports whether the walk was possible. An extractor has no chain.
func (c *Checker) chain(ctx context.Context, it *Checked) (ok bool, lines []Problem) {
	t := it.Model.Tool
	if t == nil || t.Type == "extractor" {
		return true, nil
	}
	chain, err := ai.WalkFrom(ctx, c.Links, it.Item)
	if err == nil || ctx.Err() != nil {
		it.Chain = chain
		return true, nil
	}
	at := value.Pos{}
	if v := it.Model.Fields.Get("executor_id"); v != nil {
		at = v.At
	}
	problem := c.About(it.File, at, err)
	problem.Field = "executor_id"
	broken, isChain := errors.AsType[*ai.ChainError](err)
	if !isChain || len(broken.Issues) == 0 {
		if missing, ok := errors.AsType[*ai.NotFoundError](err); ok {
			_, err := c.View.Find(ctx, missing.Ref)
			if found, ok := errors.AsType[*ai.NotFoundError](err); ok && len(found.Near) > 0 {
				problem.Message += "; did you mean " + strings.Join(found.Near, ", ") + "?"
			}
		}
		return false, []Problem{problem}
	}
	own := 0 // the issues begin with the tool's own problems, which are reported already
	for _, p := range it.Model.Problems {
		if !p.Warning {
			own++
		}
	}
	for _, i := range broken.Issues[min(own, len(broken.Issues)):] {
		problem.Code, problem.Message = i.Code, i.Message
		lines = append(lines, problem)
	}
	return true, lines
}

// ofTree names the files that make the tree of a tool invalid.
func (c *Checker) ofTree(it *ai.Item, err error) (lines []Problem) {
	refused, ok := errors.AsType[*tree.RefusedError](err)
	at, item := errors.AsType[*ai.ItemError](err)
	if !ok || !item {
		return []Problem{c.About(it.File, value.Pos{}, err)}
	}
	for _, f := range refused.Files {
		l := c.About(it.File, value.Pos{}, f.Err)
		l.File = c.Name(it.Space, path.Join(at.Path, f.Path))
		l.Message = fmt.Sprintf("%s: it can't be part of the tree of %s", l.Message, it.Ref)
		lines = append(lines, l)
	}
	return lines
}

// About returns a problem for an error of a file.
func (c *Checker) About(f ai.File, at value.Pos, err error) Problem {
	problem := Problem{Severity: Error, Code: fault.Validation, Space: f.Space.Label, File: c.Name(f.Space, f.Path),
		Line: at.Line, Column: at.Column}
	if f.Ref.Kind != "" {
		problem.Ref = f.Ref.String()
	}
	if err != nil {
		problem.Code, problem.Message = Words(err)
	}
	if errors.Is(err, ai.ErrAsset) && !errors.Is(err, ai.ErrGone) {
		problem.Message += ": " + model.MissingMarker(f.Ref.Kind, f.Path)
	}
	return problem
}

// Fields returns the problems in an item's model.
func (c *Checker) Fields(f ai.File, problems []*value.Problem) []Problem {
	lines := []Problem{}
	for _, p := range problems {
		l := c.About(f, p.At, nil)
		l.Field, l.Message = p.Field, p.Message
		if !p.Refused() {
			l.Severity = Warning
		}
		lines = append(lines, l)
	}
	return lines
}

// Listed adds the problems of a listing.
func (c *Checker) Listed(problems []*ai.ItemError) {
	for _, e := range problems {
		c.count()
		c.known.Add(e.Space, e.Path)
		c.Add(c.About(ai.File{Ref: e.Ref, Space: e.Space, Path: e.Path}, value.Pos{}, e))
	}
}

// Extractor adds a warning about an ignored extractor.
func (c *Checker) Extractor(w *ai.ItemError) {
	l := c.About(ai.File{Ref: w.Ref, Space: w.Space, Path: w.Path}, value.Pos{}, w)
	l.Severity, l.Message = Warning, "the extractor doesn't count: "+l.Message
	c.Add(l)
}

// count counts an item or a file that looks like one.
func (c *Checker) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items++
}

// Add adds problems.
func (c *Checker) Add(lines ...Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, lines...)
}

// Report returns the results so far.
func (c *Checker) Report() *Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return newReport(c.items, c.problems)
}
