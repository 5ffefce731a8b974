package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/drift"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/workspace"
)

// A DriftLine says where the working tree differs from the lock.
type DriftLine struct {
	Kind     string `json:"kind"`
	Ref      string `json:"ref"`
	File     string `json:"file"`
	Expected string `json:"expected"`
	Found    string `json:"found"`
	Only     string `json:"only"` // "line-endings", "mode" where nothing else differs
}

// DriftLineOf describes a difference.
func DriftLineOf(d *drift.Difference) DriftLine {
	text := func(d cas.Digest) string {
		if d.IsZero() {
			return ""
		}
		return d.String()
	}
	line := DriftLine{Kind: string(d.Kind), Ref: d.Ref.String(), File: d.Path, Expected: text(d.Expected),
		Found: text(d.Found)}
	switch {
	case d.OnlyLineEndings:
		line.Only = "line-endings"
	case d.OnlyMode:
		line.Only = "mode"
	}
	if line.File != "" {
		line.File = workspace.MarkerDir + "/" + line.File
	}
	return line
}

// drift refuses a tool that differs in the working tree from what is pinned, with all that it runs from.
func (s *Session) drift(ctx context.Context, l *workspace.Lock, o drift.Options, ref model.Ref) error {
	found, err := drift.Find(ctx, s.set, o, ref)
	if no, ok := errors.AsType[*lock.NotLockedError](err); ok && no.Ref == ref {
		return s.notLocked(ctx, l, o.Working, no)
	}
	if err != nil || len(found) == 0 {
		return err
	}
	e := fault.New(fault.LockMismatch, "the working tree differs from the lock for %q", ref).On("ref",
		ref.String()).On("reason", "drift")
	var lines []string
	var files []map[string]string
	for _, d := range found {
		line := DriftLineOf(d)
		lines = append(lines, fmt.Sprintf("%s  %s  %s", line.Kind, line.File, line.Ref))
		files = append(files, map[string]string{"kind": line.Kind, "file": line.File, "ref": line.Ref,
			"expected": line.Expected, "found": line.Found})
	}
	e.List(lines...).On("drift", files)
	// After an edit of this one tool the user wants to run it again; else the first question is what differs.
	diff := fault.Command("rye diff", ref.String())
	edited := !l.User && !slices.ContainsFunc(found, func(d *drift.Difference) bool {
		return d.Ref != ref || d.Kind == drift.Gone
	})
	if edited = edited && !s.o.CI && ref.Kind == "tool"; edited {
		s.orDev(e, ref.String())
	} else if !l.User {
		e.Try(diff)
	}
	outlived := l.Outlived()
	e.Try(accepting(l, found, outlived)...)
	if !slices.ContainsFunc(found, func(d *drift.Difference) bool {
		return slices.Contains(outlived, d.Ref.String())
	}) {
		e.Try(fault.Command("rye exec", ref.String()) + " --pinned")
	}
	if edited {
		e.Try(diff)
	}
	return e
}

// accepting returns the commands that lock what the working tree has, or bring back an item that is gone.
func accepting(l *workspace.Lock, found []*drift.Difference, outlived []string) []string {
	var edited []string
	for _, d := range found {
		switch ref := d.Ref.String(); {
		case d.Ref.Kind == "": // an entry that isn't an item
		case d.Kind != drift.Gone && !slices.Contains(edited, ref):
			edited = append(edited, ref)
		case d.Kind == drift.Gone && !l.User:
			return []string{fault.Command("rye restore", ref)}
		}
	}
	again := l.LockAgain(outlived)
	switch {
	case len(edited) == 0:
		return []string{again}
	case l.User:
		return []string{fault.Command("rye sign", edited...), again}
	}
	return []string{fault.Command(l.LockCommand()+" --sign", append(edited, workspace.Accepting(outlived)...)...)}
}

// notLocked says how a tool that isn't pinned gets into the lock.
func (s *Session) notLocked(ctx context.Context, l *workspace.Lock, working *ai.View, no *lock.NotLockedError) error {
	from := ""
	it, missing := working.Find(ctx, no.Ref)
	if missing == nil && it.Space.Level == ai.System {
		from = it.Space.Label
	} else if missing != nil {
		id := l.BundleOf(ctx, no.Ref.String()) // the set may have only its pinned items
		if id == "" {
			return missing // a mistyped name, more likely than something to be locked
		}
		from = "the bundle " + id
	}
	rooted := len(l.Yaml.Roots) == 0 || slices.ContainsFunc(l.Yaml.Roots, func(r project.Root) bool {
		return r.Match(no.Ref, file.FromProject)
	})
	e := fault.Of(no)
	switch {
	case l.User && from != "":
		e.Because("the lock pins the items of " + from + " that an item of your own uses")
		e.Hint = []string{"rye docs lock"}
	case from != "" || !rooted && !l.User:
		e.Hint = []string{fault.Command("rye add", no.Ref.String())}
	default:
		e.Hint = []string{l.LockCommand()}
		return s.orDev(e, no.Ref.String())
	}
	return e
}

// orDev adds the command that runs a tool from the working tree, where that is allowed.
func (s *Session) orDev(e *fault.Error, tool string) error {
	if !s.o.CI {
		e.Try(fault.Command("rye exec", tool) + " --dev")
	}
	return e
}
