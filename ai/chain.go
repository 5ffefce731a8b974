package ai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
)

// MaxChain is how many links a chain may have.
const MaxChain = 10

// primitives is the prefix of the ids of primitives. No other item without an executor can run: an extractor has no
// executor either.
const primitives = "rye/core/primitives/"

// A Resolver finds the item of a ref as seen from a space; nil is a caller outside. A View is one, and so is a set of
// pins. A missing item is a *NotFoundError. It must be safe for concurrent use.
type Resolver interface {
	Resolve(ctx context.Context, ref model.Ref, from *Space) (*Item, error)
}

// A Chain is a tool, its executor, the executor's executor, and so on to the primitive.
type Chain struct {
	Links []*Item
}

// Tool returns the first link.
func (c *Chain) Tool() *Item { return c.Links[0] }

// Primitive returns the last link.
func (c *Chain) Primitive() *Item { return c.Links[len(c.Links)-1] }

// Walk finds the chain of a tool and checks that its links fit together. It checks neither signatures nor policy:
// Admit does that for each link. An error is a *ChainError or the context's.
func Walk(ctx context.Context, r Resolver, ref model.Ref) (*Chain, error) {
	if ref.Kind != "tool" {
		return nil, &ChainError{Code: fault.Validation, Ref: ref,
			Err: fmt.Errorf("%q is a %s: only a tool has a chain", ref, ref.Kind)}
	}
	first, err := r.Resolve(ctx, ref, nil)
	if err != nil {
		return nil, lost(ctx, fault.ToolNotFound, ref, []string{ref.String()}, err)
	}
	return WalkFrom(ctx, r, first)
}

// WalkFrom is Walk for a tool that the caller has found already.
func WalkFrom(ctx context.Context, r Resolver, tool *Item) (*Chain, error) {
	links, err := follow(ctx, r, tool)
	if err != nil {
		return nil, err
	}
	issues := check(links)
	if len(issues) == 0 {
		return &Chain{links}, nil
	}
	e := &ChainError{Code: fault.VersionMismatch, Ref: tool.Ref, Path: refs(links), Issues: issues}
	if slices.ContainsFunc(issues, func(i Issue) bool { return i.Code != fault.VersionMismatch }) {
		e.Code = fault.Validation
	}
	return nil, e
}

func refs(links []*Item) []string {
	return collect(links, func(i *Item) string { return i.Ref.String() })
}

// lost returns the error for a link that wasn't found. Only an absent link gets the code; a link that exists and
// can't be used keeps its own error.
func lost(ctx context.Context, code fault.Code, tool model.Ref, path []string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, shadow := errors.AsType[*ShadowError](err)
	_, many := errors.AsType[*AmbiguousError](err)
	switch {
	case shadow:
		code = fault.Policy
	case many:
		code = fault.Ambiguous
	case !errors.Is(err, fs.ErrNotExist):
		code = fault.Files
	}
	return &ChainError{Code: code, Ref: tool, Path: path, Err: err}
}

// follow follows executor_id from link to link.
func follow(ctx context.Context, resolver Resolver, tool *Item) ([]*Item, error) {
	links := []*Item{tool}
	for last := tool; ; {
		t := last.Model.Tool
		if t == nil || t.Primitive || t.Executor == "" {
			return links, nil
		}
		next := model.Ref{Kind: "tool", ID: t.Executor}
		path := append(refs(links), next.String())
		switch {
		case slices.ContainsFunc(links, func(i *Item) bool { return i.Ref == next }):
			return nil, &ChainError{Code: fault.Circular, Ref: tool.Ref, Path: path}
		case len(links) == MaxChain:
			return nil, &ChainError{Code: fault.TooDeep, Ref: tool.Ref, Path: path}
		}
		it, err := resolver.Resolve(ctx, next, last.Space)
		if err != nil {
			return nil, lost(ctx, fault.ExecutorNotFound, tool.Ref, path, err)
		}
		if it.Space != last.Space && !last.Space.mayUse(it.Space) {
			// Resolvers must prevent this. The check makes sure that a resolver's mistake doesn't run anything.
			return nil, &ChainError{Code: fault.Validation, Ref: tool.Ref, Path: path,
				Err: fmt.Errorf("%q in the space %q can't be run by %q in the space %q, which stands above", last.Ref,
					last.Space.Label, next, it.Space.Label)}
		}
		links = append(links, it)
		last = it
	}
}

// check returns all issues of the links and of neighbouring links.
func check(links []*Item) []Issue {
	var issues []Issue
	for i, it := range links {
		for _, p := range it.Model.Problems {
			if !p.Warning {
				issues = append(issues, Issue{Code: fault.Validation, Link: it.Ref,
					Message: fmt.Sprintf("%q: %v", it.Ref, p)})
			}
		}
		if i == 0 {
			continue
		}
		issues = append(issues, checkPair(links[i-1], it)...)
	}
	last := links[len(links)-1]
	t := last.Model.Tool
	if t == nil || !t.Primitive || !strings.HasPrefix(last.ID, primitives) {
		issues = append(issues, Issue{Code: fault.Validation, Link: last.Ref,
			Message: fmt.Sprintf("%q has no executor and is no primitive: those are tool:%s…", last.Ref, primitives)})
	}
	return issues
}

// checkPair checks a link's demands on its executor, next.
func checkPair(link, next *Item) (issues []Issue) {
	if link.Model.Tool == nil || next.Model.Tool == nil {
		return nil
	}
	has, wants := link.Model.Tool.Outputs, next.Model.Tool.Inputs
	var missing []string
	for _, name := range wants {
		if len(has) > 0 && !slices.Contains(has, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		issues = append(issues, Issue{fault.Validation, link.Ref,
			fmt.Sprintf("%q wants %q of %q, which gives %q", next.Ref, missing, link.Ref, has)})
	}
	for _, c := range next.Model.Tool.Constraints {
		if version := link.Model.Version; c.Child == link.ID && !c.Allows(version) {
			issues = append(issues, Issue{fault.VersionMismatch, link.Ref,
				fmt.Sprintf("%q runs %q in versions %s, which has %s", next.Ref, link.Ref, bounds(c),
					versionText(version))})
		}
	}
	return issues
}

func bounds(c model.Constraint) string {
	var all []string
	for _, b := range [...][2]string{{"from ", c.Min}, {"up to ", c.Max}, {"in ", c.Range}} {
		if b[1] != "" {
			all = append(all, b[0]+strconv.Quote(b[1]))
		}
	}
	return cmp.Or(strings.Join(all, " and "), "by semver 2.0")
}

func versionText(v string) string {
	if err := manifest.CheckVersion(v); err != nil {
		return fmt.Sprintf("%q, which is no version", v)
	}
	return v
}
