package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/diff"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/closure"
	lockfile "github.com/rye-build/rye/lock/file"
)

func diffCommand() command {
	return command{
		path: "diff", group: "lock", help: "Show how the project differs from its lock, in bytes and in meaning.",
		more: "Without arguments the working tree is compared with rye.lock, with a REF one item of it. With one file it is that lock against the project's, " +
			"with two the first against the second: git show main:rye.lock > old.lock gives one. Of items it tells what they ask for, what they may do, " +
			"and the words of their text.\n\nExamples:\n\n    rye diff\n    rye diff tool:acme/fetch\n    rye diff old.lock\n    rye diff old.lock new.lock --json",
		aka: []string{"compare", "changes", "status"},
		new: func() runner { return new(diffRun) }, schema: "diff/1", output: &lockDiff{},
	}
}

type diffRun struct {
	From string `arg:"" optional:"" name:"ref|lock" complete:"pinned" help:"The ref of an item, or the file of a lock."`
	To   string `arg:"" optional:"" name:"lock" complete:"file" help:"The file of a lock to compare with; the project's when left out."`
}

// lockDiff is what is different: between two locks, or between one and the working tree.
type lockDiff struct {
	From     string            `json:"from"`
	To       string            `json:"to"`
	Changes  []lockfile.Change `json:"changes"`
	Drift    []driftLine       `json:"drift"`    // files of the working tree that aren't as they are pinned
	Problems []checkProblem    `json:"problems"` // what keeps the working tree from being locked
	Report   *diff.Report      `json:"report,omitempty"`
	whole    bool              // nothing kept from looking at all of it
}

type driftLine struct {
	Kind     string `json:"kind"`
	Ref      string `json:"ref"`
	File     string `json:"file"`
	Expected string `json:"expected"`
	Found    string `json:"found"`
	Only     string `json:"only"` // "line-endings", "mode" where nothing else differs
}

func (d *lockDiff) text(t *terminal) {
	printProblems(t, d.Problems)
	for _, l := range d.Drift {
		only := ""
		if l.Only != "" {
			only = "  only " + strings.ReplaceAll(l.Only, "-", " ")
		}
		t.printf("%s  %s  %s%s\n", l.Kind, l.File, l.Ref, only)
	}
	printChanges(t, d.Changes)
	if d.Report != nil {
		(&bundleDiff{d.Report}).items(t)
	}
	if d.whole && len(d.Problems)+len(d.Drift)+len(d.Changes) == 0 && (d.Report == nil || len(d.Report.Items)+len(d.Report.Files) == 0) {
		t.note("no difference")
	}
}

func (c *diffRun) run(ctx context.Context, a *app) (answer, error) {
	l, err := a.locking(false)
	if err != nil {
		return nil, err
	}
	defer l.close()
	ans := &lockDiff{From: l.lockPath(), To: "working tree", Changes: []lockfile.Change{}, Drift: []driftLine{}, Problems: []checkProblem{}}
	ref, refErr := model.ParseRef(c.From)
	switch {
	case c.From != "" && (refErr != nil || c.To != ""):
		err = c.locks(ctx, l, ans)
	case l.needLock() != nil:
		return nil, l.needLock()
	case c.From != "":
		err = l.diffItem(ctx, ref, ans)
	default:
		err = l.diffAll(ctx, ans)
	}
	ans.whole = err == nil
	return ans, err
}

// locks compares two files.
func (c *diffRun) locks(ctx context.Context, l *locking, ans *lockDiff) error {
	objects, err := l.objects()
	if err != nil {
		return err
	}
	from, err := l.otherLock(ctx, c.From, objects)
	if err != nil {
		return err
	}
	ans.From, ans.To = c.From, l.lockPath()
	var to *lock.Side
	if c.To != "" {
		ans.To = c.To
		to, err = l.otherLock(ctx, c.To, objects)
	} else if err = l.needLock(); err == nil {
		to, err = lock.NewSide(ctx, l.old, l.id(), lock.SetOptions{Objects: objects, Std: librarySpace()})
	}
	if err != nil {
		return err
	}
	return ans.compare(ctx, from, to)
}

// otherLock reads a lock that isn't the project's.
func (l *locking) otherLock(ctx context.Context, name string, objects lock.Source) (*lock.Side, error) {
	s := l.app.absolute(setting{value: name})
	if s.err != nil {
		return nil, s.err
	}
	hint := []string{"rye diff tool:ID", "git show main:rye.lock > old.lock"}
	b, err := readSmall(s.value, lockfile.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		f := classify(err)
		f.Hint = hint
		return nil, f
	}
	if err != nil {
		return nil, err
	}
	read, err := lockfile.Parse(b)
	if err != nil {
		f := classify(l.app.lockFault(name, err))
		if f.Code == fault.LockMismatch {
			f.Hint = hint // the project's lock needs no mending
		}
		return nil, f
	}
	return lock.NewSide(ctx, read, cas.Sum(b), lock.SetOptions{Objects: objects, Std: librarySpace()})
}

func (d *lockDiff) compare(ctx context.Context, from, to *lock.Side) error {
	c, err := lock.Compare(ctx, from, to)
	if err != nil {
		return err
	}
	d.Changes, d.Report = append(d.Changes, c.Changes...), c.Report
	return nil
}

// diffAll compares the working tree with the lock: with the lock that it would make, and where it makes none, file by
// file.
func (l *locking) diffAll(ctx context.Context, ans *lockDiff) error {
	if err := l.look(ctx); err != nil {
		return err
	}
	objects := l.here.objects
	from, err := lock.NewSide(ctx, l.old, l.id(), lock.SetOptions{Objects: objects, Std: librarySpace()})
	if err != nil {
		return err
	}
	r := l.request(ctx)
	r.Update = []string{lock.Library}
	made, err := lock.Make(ctx, r)
	if closed, ok := errors.AsType[*closure.Error](err); ok {
		ans.Problems = append(ans.Problems, l.problems(ctx, closed)...)
		return l.drift(ctx, ans)
	}
	if errors.Is(err, errElsewhere) {
		ans.Changes = append(ans.Changes, l.requirementChanges()...)
		return l.drift(ctx, ans)
	}
	if err != nil {
		return err
	}
	to, err := l.side(ctx, made, objects)
	if err != nil {
		return err
	}
	return ans.compare(ctx, from, to)
}

// drift tells which files of the working tree aren't as they are pinned.
func (l *locking) drift(ctx context.Context, ans *lockDiff, refs ...model.Ref) error {
	set, err := l.set(ctx)
	if err != nil {
		return err
	}
	for i := range l.old.Bundles {
		l.listed.addAdmitted(l.trust, set.Bundle(l.old.Bundles[i].ID))
	}
	pinned, err := set.View(ctx, l.asked(ctx, l.dir), l.trust.root.side.Policy.MayOverride)
	if err != nil {
		return err
	}
	working, admit, done, err := l.workingView(ctx, set)
	if err != nil {
		return err
	}
	defer done()
	all, err := set.Drift(ctx, lock.DriftOptions{Pinned: pinned, Working: working, Admit: admit}, refs...)
	if err != nil {
		return err
	}
	for _, d := range all {
		ans.Drift = append(ans.Drift, driftLineOf(d))
	}
	return nil
}

// workingView is the working tree over the bundles of a set and the library.
func (l *locking) workingView(ctx context.Context, set *lock.Set) (*ai.View, *ai.Admitter, func(), error) {
	return l.view(ctx, slices.DeleteFunc(set.Spaces(), func(s *ai.Space) bool {
		return s.Label == lockfile.FromProject || s.Label == lockfile.FromUser
	}))
}

func driftLineOf(d *lock.Difference) driftLine {
	line := driftLine{Kind: string(d.Kind), Ref: d.Ref.String(), File: d.Path, Expected: digestText(d.Expected), Found: digestText(d.Found)}
	switch {
	case d.OnlyLineEndings:
		line.Only = "line-endings"
	case d.OnlyMode:
		line.Only = "mode"
	}
	if line.File != "" {
		line.File = markerDir + "/" + line.File
	}
	return line
}

func digestText(d cas.Digest) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

// diffItem compares one item.
func (l *locking) diffItem(ctx context.Context, ref model.Ref, ans *lockDiff) error {
	if l.old.Pin(ref) == nil {
		return l.notLocked(ctx, ref.String())
	}
	if err := l.look(ctx); err != nil {
		return err
	}
	if err := l.drift(ctx, ans, ref); err != nil {
		return err
	}
	side, err := lock.NewSide(ctx, l.old, l.id(), lock.SetOptions{Objects: l.here.objects, Std: librarySpace()})
	if err != nil {
		return err
	}
	set, err := l.set(ctx)
	if err != nil {
		return err
	}
	working, admit, done, err := l.view(ctx, set.Spaces()[len(set.Spaces())-1:])
	if err != nil {
		return err
	}
	defer done()
	ans.Report, err = lock.CompareItem(ctx, side, working, admit, ref)
	if err != nil {
		return err
	}
	ans.To = fmt.Sprintf("%s in the working tree", ref)
	return nil
}
