package bundles

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/bundle/create"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// refused tells all that keeps files from being a bundle, each with its place, and what helps.
func (m *making) refused(e *create.RefusedError) (cli.Answer, error) {
	var secrets, unsigned, below []string
	empty := false
	m.unused(e.Unused)
	for i := range e.Problems {
		p := &e.Problems[i]
		m.problem(p)
		f := fault.Of(p.Err)
		if s, ok := errors.AsType[*create.SecretError](p.Err); ok {
			secrets = append(secrets, s.Path)
		}
		empty = empty || errors.Is(p.Err, create.ErrEmpty)
		if p.Ref != "" && (f.Code == fault.Unsigned || f.Code == fault.Integrity || f.Code == fault.UntrustedKey) {
			unsigned = append(unsigned, p.Ref)
		}
		if p.Ref != "" && f.Code == fault.BelowThreshold {
			below = append(below, fault.Quote(p.Ref))
		}
	}
	n, same := 0, fault.Code("")
	for _, p := range m.answer.Problems {
		if p.Severity != check.Error {
			continue
		}
		if n++; n == 1 {
			same = p.Code
		} else if p.Code != same {
			same = fault.Validation
		}
	}
	f := fault.New(same, "the bundle %q is refused: %s", m.recipe.ID, fault.Count(int64(n), "problem")).From(e)
	if empty && len(m.recipe.Include) == 0 {
		f.Why = append(f.Why,
			fmt.Sprintf("without include, items belong to it whose id is %q or below it, as in tool:%s/run",
				m.recipe.ID, m.recipe.ID),
			"a "+recipe.File+" says which others do:", "id: "+m.recipe.ID, "version: "+m.recipe.Version,
			"include: [\".ai/**\"]")
	}
	if slices.Sort(secrets); len(secrets) > 0 {
		f.Why = append(f.Why, "if that is no secret, "+recipe.File+" says so:", "allow-secret:")
		for _, path := range slices.Compact(secrets) {
			f.Why = append(f.Why, fmt.Sprintf("  %q: WHY IT MAY BE THERE", path))
		}
	}
	if slices.Sort(unsigned); len(unsigned) > 0 {
		unsigned = slices.Compact(unsigned)
		const most = 8
		refs := make([]string, 0, most)
		for _, ref := range unsigned[:min(len(unsigned), most)] {
			refs = append(refs, fault.Quote(ref))
		}
		f.Hint = append(f.Hint, "rye bundle create --sign "+strings.Join(refs, " "))
		if len(unsigned) > most {
			f.Hint = append(f.Hint, "rye sign --all")
		}
	}
	if slices.Sort(below); len(below) > 0 {
		below = slices.Compact(below)
		f.Hint = append(f.Hint, "rye sign "+strings.Join(below[:min(len(below), fault.MaxLines)], " ")+" --key OTHER")
	}
	return m.answer, f
}

// unused adds a warning for each pattern of bundle.yaml that matches nothing.
func (m *making) unused(all []*recipe.UnusedError) {
	for _, e := range all {
		m.answer.Problems = append(m.answer.Problems,
			check.Problem{Severity: check.Warning, Code: fault.Validation, Space: find.InProject,
				File: recipe.File, Line: e.Line, Column: e.Column, Field: e.Field, Message: e.Error()})
	}
}

// problem adds a line for each thing that is wrong.
func (m *making) problem(p *create.Problem) {
	at := check.Problem{Severity: check.Error, Ref: p.Ref, Space: find.InProject, File: p.Path}
	if at.File == "" {
		at.File = recipe.File
	}
	if invalid, ok := errors.AsType[*create.InvalidError](p.Err); ok {
		for _, v := range invalid.Problems {
			l := at
			if v.Warning {
				l.Severity = check.Warning
			}
			l.Code, l.Line, l.Column, l.Field, l.Message = fault.Validation, v.At.Line, v.At.Column, v.Field, v.Message
			m.answer.Problems = append(m.answer.Problems, l)
		}
		return
	}
	f := fault.Of(p.Err)
	at.Code, at.Message = f.Line().Code, f.Text
	if at.Code == fault.Unknown {
		at.Code = fault.Validation
	}
	if errors.Is(p.Err, create.ErrEntrypoint) {
		at.Field, at.Message = "entrypoint", fmt.Sprintf("%q, the entrypoint, is no item of the bundle",
			m.recipe.Entrypoint)
	}
	if e, ok := errors.AsType[*recipe.UnusedError](p.Err); ok {
		at.Line, at.Column, at.Field = e.Line, e.Column, e.Field
	}
	if s, ok := errors.AsType[*create.SecretError](p.Err); ok {
		at.Line, at.Column, at.Message = s.Line, s.Column,
			fmt.Sprintf("looks like a secret (%s): %s", s.Rule, s.Excerpt)
		if s.Line == 0 {
			at.Message = fmt.Sprintf("files of this name hold secrets (%s)", s.Excerpt)
		}
	}
	m.answer.Problems = append(m.answer.Problems, at)
}
