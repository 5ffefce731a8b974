// The problems that prevent rye bundle create.

package bundles

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/bundle/create"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/worktree"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// refused returns the error of a bundle that can't be created. The answer lists every problem with its place; hints
// say how to sign items, include them, or allow a file that only looks like a secret.
func (m *maker) refused(refusal *create.RefusedError) (cli.Answer, error) {
	var secrets, unsigned, below, links []string
	empty := false
	m.unused(refusal.Unused)
	for i := range refusal.Problems {
		problem := &refusal.Problems[i]
		m.problem(problem)
		f := fault.Of(problem.Err)
		if s, ok := errors.AsType[*create.SecretError](problem.Err); ok {
			secrets = append(secrets, s.Path)
		}
		if kind, ok := errors.AsType[*worktree.KindError](problem.Err); ok && kind.IsLink() {
			links = append(links, problem.Path)
		}
		empty = empty || errors.Is(problem.Err, create.ErrEmpty)
		if problem.Ref != "" && (f.Code == fault.Unsigned || f.Code == fault.Integrity ||
			f.Code == fault.UntrustedKey) {
			unsigned = append(unsigned, problem.Ref)
		}
		if problem.Ref != "" && f.Code == fault.BelowThreshold {
			below = append(below, fault.Quote(problem.Ref))
		}
	}
	n, same := 0, fault.Code("")
	for _, problem := range m.answer.Problems {
		if problem.Severity != check.Error {
			continue
		}
		if n++; n == 1 {
			same = problem.Code
		} else if problem.Code != same {
			same = fault.Validation
		}
	}
	failure := fault.New(same, "the bundle %q is refused: %s", m.recipe.ID,
		fault.Count(int64(n), "problem")).From(refusal)
	if empty && len(m.recipe.Include) == 0 {
		failure.Why = append(failure.Why,
			fmt.Sprintf("without include, a bundle contains the items with the id %q or below it, such as tool:%s/run",
				m.recipe.ID, m.recipe.ID),
			"to include others, write "+recipe.File+":", "id: "+m.recipe.ID, "version: "+m.recipe.Version,
			"include: [\".ai/**\"]")
	}
	if slices.Sort(secrets); len(secrets) > 0 {
		in, open, shut := recipe.File, "allow-secret:", ""
		if m.plugin != nil {
			in, open, shut = plugin.ManifestFile, `"extensions": {"`+plugin.Namespace+`": {"allow-secret": {`, "}}}"
		}
		failure.Why = append(failure.Why, "if it is not a secret, allow it in "+in+":", open)
		for i, path := range slices.Compact(secrets) {
			line := fmt.Sprintf("  %q: WHY IT MAY BE THERE", path)
			if m.plugin != nil {
				if line = fmt.Sprintf("  %q: \"WHY IT MAY BE THERE\"", path); i > 0 {
					failure.Why[len(failure.Why)-1] += ","
				}
			}
			failure.Why = append(failure.Why, line)
		}
		if shut != "" {
			failure.Why = append(failure.Why, shut)
		}
	}
	if slices.Sort(unsigned); len(unsigned) > 0 {
		unsigned = slices.Compact(unsigned)
		const most = 8
		refs := make([]string, 0, most)
		for _, ref := range unsigned[:min(len(unsigned), most)] {
			refs = append(refs, fault.Quote(ref))
		}
		failure.Hint = append(failure.Hint, "rye bundle create --sign "+strings.Join(refs, " "))
		if len(unsigned) > most {
			failure.Hint = append(failure.Hint, "rye sign --all")
		}
	}
	if slices.Sort(below); len(below) > 0 {
		below = slices.Compact(below)
		failure.Hint = append(failure.Hint, "rye sign "+strings.Join(below[:min(len(below), fault.MaxLines)],
			" ")+" --key OTHER")
	}
	failure.Hint = append(failure.Hint, m.unlink(links)...)
	return m.answer, failure
}

// unlink returns the commands that put the file or the directory that a symbolic link leads to in its place.
func (m *maker) unlink(links []string) (commands []string) {
	slices.Sort(links)
	for _, link := range links[:min(len(links), fault.MaxLines)] {
		at := m.found.Show(filepath.Join(m.dir, filepath.FromSlash(link)))
		if !filepath.IsAbs(at) {
			at = filepath.Join(m.app.Globals.Project, at) // for a shell that isn't in the directory of -C
		}
		link, file := fault.Quote(at), fault.Quote(at+".file")
		commands = append(commands, "cp -RL "+link+" "+file+" && rm "+link+" && mv "+file+" "+link)
	}
	return commands
}

// unused adds a warning for each pattern of bundle.yaml that matches nothing.
func (m *maker) unused(all []*recipe.UnusedError) {
	for _, e := range all {
		m.answer.Problems = append(m.answer.Problems,
			check.Problem{Severity: check.Warning, Code: fault.Validation, Space: find.InProject,
				File: recipe.File, Line: e.Line, Column: e.Column, Field: e.Field, Message: e.Error()})
	}
}

// problem converts a problem into lines of the answer: one for each error of an invalid item, else one.
func (m *maker) problem(problem *create.Problem) {
	at := check.Problem{Severity: check.Error, Ref: problem.Ref, Space: find.InProject, File: problem.Path}
	if at.File == "" {
		at.File = recipe.File
	}
	if invalid, ok := errors.AsType[*create.InvalidError](problem.Err); ok {
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
	f := fault.Of(problem.Err)
	at.Code, at.Message = f.Line().Code, f.Text
	if at.Code == fault.Unknown {
		at.Code = fault.Validation
	}
	if errors.Is(problem.Err, create.ErrEntrypoint) {
		at.Field, at.Message = "entrypoint", fmt.Sprintf("the entrypoint %q is not an item of the bundle",
			m.recipe.Entrypoint)
	}
	if e, ok := errors.AsType[*recipe.UnusedError](problem.Err); ok {
		at.Line, at.Column, at.Field = e.Line, e.Column, e.Field
	}
	if s, ok := errors.AsType[*create.SecretError](problem.Err); ok {
		at.Line, at.Column, at.Message = s.Line, s.Column,
			fmt.Sprintf("looks like a secret (%s): %s", s.Rule, s.Excerpt)
		if s.Line == 0 {
			at.Message = fmt.Sprintf("files of this name hold secrets (%s)", s.Excerpt)
		}
	}
	m.answer.Problems = append(m.answer.Problems, at)
}
