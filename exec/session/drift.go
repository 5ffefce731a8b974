package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/rye-build/rye/manifest/policy"
)

// A DriftLine is one difference between the working tree and the lock.
type DriftLine struct {
	Kind     string `json:"kind"`
	Ref      string `json:"ref"`
	File     string `json:"file"`
	Expected string `json:"expected"`
	Found    string `json:"found"`
	Only     string `json:"only"` // "line-endings", "mode" where nothing else differs
}

// DriftLineOf describes a difference.
func DriftLineOf(difference *drift.Difference) DriftLine {
	text := func(digest cas.Digest) string {
		if digest.IsZero() {
			return ""
		}
		return digest.String()
	}
	line := DriftLine{Kind: string(difference.Kind), Ref: difference.Ref.String(), File: difference.Path,
		Expected: text(difference.Expected), Found: text(difference.Found)}
	switch {
	case difference.OnlyLineEndings:
		line.Only = "line-endings"
	case difference.OnlyMode:
		line.Only = "mode"
	}
	if line.File != "" {
		line.File = workspace.MarkerDir + "/" + line.File
	}
	return line
}

// drift refuses an item if it, or an item or file that it uses, differs in the working tree from the lock.
func (s *Session) drift(ctx context.Context, current *workspace.Lock, o drift.Options, ref model.Ref) error {
	found, err := drift.Find(ctx, s.set, o, ref)
	if no, ok := errors.AsType[*lock.NotLockedError](err); ok && no.Ref == ref {
		return s.notLocked(ctx, current, o, no)
	}
	if err != nil || len(found) == 0 {
		return err
	}
	failure := fault.New(fault.LockMismatch, "the working tree differs from the lock for %q", ref).On("ref",
		ref.String()).On("reason", "drift")
	var lines []string
	var files []map[string]string
	for _, d := range found {
		line := DriftLineOf(d)
		lines = append(lines, fmt.Sprintf("%s  %s  %s", line.Kind, line.File, line.Ref))
		files = append(files, map[string]string{"kind": line.Kind, "file": line.File, "ref": line.Ref,
			"expected": line.Expected, "found": line.Found})
	}
	failure.List(lines...).On("drift", files)
	if closed := closed(found); len(closed) > 0 { // neither an edit nor a signature can be the answer
		return failure.Because("this user has no permission").Try(closed...).
			Try(fault.Command("rye exec", ref.String()) + " --pinned")
	}
	// After an edit of this one tool the user wants to run it again; else the first question is what differs.
	diff := fault.Command("rye diff", ref.String())
	edited := !current.User && !slices.ContainsFunc(found, func(d *drift.Difference) bool {
		return d.Ref != ref || d.Kind == drift.Gone
	})
	if edited = edited && !s.o.CI && ref.Kind == "tool"; edited {
		s.orDev(failure, ref.String())
	} else if !current.User {
		failure.Try(diff)
	}
	outlived := current.Outlived()
	failure.Try(accepting(current, found, outlived)...)
	if !slices.ContainsFunc(found, func(d *drift.Difference) bool {
		return slices.Contains(outlived, d.Ref.String())
	}) {
		failure.Try(fault.Command("rye exec", ref.String()) + " --pinned")
	}
	if edited {
		failure.Try(diff)
	}
	for _, d := range found {
		if it := s.movedTo(ctx, o, d); it != nil && !current.User {
			useMv(failure, current, d.Ref, d.Path, it)
			break
		}
	}
	return failure
}

// closed returns the commands that make files readable.
func closed(found []*drift.Difference) (commands []string) {
	for _, d := range found {
		if errors.Is(d.Err, fs.ErrPermission) {
			commands = append(commands, fault.Of(d.Err).Hint...)
		}
	}
	return slices.Compact(commands)
}

// accepting returns the commands that lock the working tree's items, or restore a missing one.
func accepting(current *workspace.Lock, found []*drift.Difference, outlived []string) []string {
	var edited []string
	for _, d := range found {
		switch ref := d.Ref.String(); {
		case d.Ref.Kind == "": // an entry that isn't an item
		case d.Kind != drift.Gone && !slices.Contains(edited, ref):
			edited = append(edited, ref)
		case d.Kind == drift.Gone && !current.User:
			return []string{fault.Command("rye restore", ref)}
		}
	}
	again := current.LockAgain(outlived)
	switch {
	case len(edited) == 0:
		return []string{again}
	case current.User:
		return []string{fault.Command("rye sign", edited...), again}
	}
	return []string{fault.Command(current.LockCommand()+" --sign",
		append(edited, workspace.Accepting(outlived)...)...)}
}

// notLocked adds to the error the commands that lock the tool.
func (s *Session) notLocked(ctx context.Context, current *workspace.Lock, options drift.Options,
	no *lock.NotLockedError) error {
	from := ""
	it, missing := options.Working.Find(ctx, no.Ref)
	if missing == nil && it.Space.Level == ai.System {
		from = it.Space.Label
	} else if missing != nil {
		id := current.BundleOf(ctx, no.Ref.String()) // the set may have only its pinned items
		if id == "" {
			return missing // a mistyped name, more likely than something to be locked
		}
		from = "the bundle " + id
	}
	rooted := len(current.Yaml.Roots) == 0 || slices.ContainsFunc(current.Yaml.Roots, func(r project.Root) bool {
		return r.Match(no.Ref, file.FromProject)
	})
	failure := fault.Of(no)
	if missing == nil && it.Space.Level == ai.Project {
		if old := movedFrom(current, it); old != nil {
			defer useMv(failure, current, old.Ref, old.Path, it)
		}
	}
	draft := missing == nil && from == "" && options.Admit.Require(ctx, it, policy.ToUse) != nil
	switch {
	case current.User && from != "":
		failure.Because("the lock pins the items of " + from + " that an item of your own uses")
		failure.Hint = []string{"rye docs lock"}
	case from != "" || !rooted && !current.User:
		add := []string{no.Ref.String()}
		if draft {
			add = append(add, "--sign", no.Ref.String())
		}
		failure.Hint = []string{fault.Command("rye add", add...)}
	case draft: // rye lock would leave it out
		failure.Hint = accepting(current, []*drift.Difference{{Kind: drift.Added, Ref: no.Ref}}, nil)
		return s.orDev(failure, no.Ref.String())
	default:
		failure.Hint = []string{current.LockCommand()}
		return s.orDev(failure, no.Ref.String())
	}
	return failure
}

// orDev adds the command that runs a tool from the working tree, where that is allowed.
func (s *Session) orDev(e *fault.Error, tool string) error {
	if !s.o.CI {
		e.Try(fault.Command("rye exec", tool) + " --dev")
	}
	return e
}
