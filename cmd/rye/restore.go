package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest/policy/glob"
)

func restoreCommand() command {
	return command{
		path: "restore", group: "lock", help: "Put items of the project back as the lock has them.",
		more: "The bytes come from .ai/vendor or the store. All files of a tool are put back, or none; files beside it that the lock doesn't know are left and " +
			"told of. What was there before goes into the store, and its digest is said: rye store cat gives it back.\n\nExamples:\n\n" +
			"    rye restore tool:acme/fetch\n    rye restore '**' --dry-run",
		aka: []string{"revert", "reset"},
		new: func() runner { return new(restoreRun) }, schema: "restore/1", output: restoreAnswer{},
	}
}

type restoreRun struct {
	Items  []string `arg:"" name:"item" complete:"pinned" help:"Refs or globs of items in the lock."`
	DryRun bool     `name:"dry-run" help:"Say what would change, and write nothing."`
}

type restoreAnswer struct {
	DryRun bool          `json:"dry_run"`
	Items  int           `json:"items"`
	Files  []restoreLine `json:"files"` // those that were not as they are pinned
	Left   []restoreLeft `json:"left"`  // those that would be part of an item, and that the lock doesn't know
	failed bool
}

type restoreLine struct {
	File   string `json:"file"`
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
	Before string `json:"before"` // the digest of what was there; empty: nothing
	Only   string `json:"only"`   // "mode" where the bytes are those of the lock
}

// mostRestored is how many files are told one by one, without --verbose.
const mostRestored = 100

type restoreLeft struct {
	File string `json:"file"`
	Ref  string `json:"ref"`
}

func (r restoreAnswer) text(t *terminal) {
	verb := dryVerb(r.DryRun, "restored", "would restore")
	for i, f := range r.Files {
		if i == mostRestored && !t.verbose {
			t.printf("%s  and %s more; -v tells all\n", verb, fault.Count(int64(len(r.Files)-i), "file"))
			break
		}
		if f.Only != "" {
			t.printf("%s  %s  %s  only %s\n", verb, f.File, f.Ref, f.Only)
			continue
		}
		t.printf("%s  %s  %s\n", verb, f.File, f.Ref)
		if f.Before != "" && !r.DryRun {
			t.note("what was there is %s", f.Before)
		}
	}
	if len(r.Files) == 0 && r.Items > 0 && !r.failed {
		t.note("%s as the lock has them", fault.Count(int64(r.Items), "item"))
	}
	for _, l := range r.Left {
		t.warn("%s is left, and isn't in the lock: %s", l.File, l.Ref)
	}
}

func (c *restoreRun) run(ctx context.Context, a *app) (answer, error) {
	if !c.DryRun {
		unlock, err := a.alone(ctx, false)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	l, err := a.locking(false)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if err := l.needLock(); err != nil {
		return nil, err
	}
	pins, err := c.pins(ctx, l)
	if err != nil {
		return nil, err
	}
	r := &restoring{l: l, now: a.now(), writes: !c.DryRun}
	if r.objects, err = l.objects(); err != nil {
		return nil, err
	}
	if r.dir, err = c.openDir(l.dotAI); err != nil {
		return nil, err
	}
	if r.dir != nil {
		defer r.dir.close()
	}
	if err := r.add(ctx, pins); err != nil {
		return nil, err
	}
	ans := restoreAnswer{DryRun: c.DryRun, Items: len(pins), Files: []restoreLine{}, Left: []restoreLeft{}}
	if err := r.compare(ctx); err != nil {
		return nil, err
	}
	if c.DryRun {
		err = r.missing(ctx)
	} else {
		err = r.write(ctx)
	}
	for _, f := range r.files {
		if f.done || c.DryRun && err == nil {
			ans.Files = append(ans.Files, f.line())
		}
	}
	if err != nil {
		ans.failed = true
		return ans, err
	}
	ans.Left = append(ans.Left, l.left(ctx, pins)...)
	return ans, nil
}

// openDir opens .ai to write in it, and makes it where it is wiped; nil where there is none and nothing is to be
// written.
func (c *restoreRun) openDir(dir string) (*confined, error) {
	if !c.DryRun {
		return openAI(dir, ai.Project)
	}
	if err := ai.Inside(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	d, err := confine(dir, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return d, err
}

// pins are those of the project that the arguments mean, each once.
func (c *restoreRun) pins(ctx context.Context, l *locking) (pins []lockfile.Pin, err error) {
	chosen := make([]bool, len(l.old.Pins))
	for _, text := range c.Items {
		found := false
		g, globErr := glob.Parse(text)
		for i := range l.old.Pins {
			p := &l.old.Pins[i]
			exact := p.Ref.String() == text
			if !exact && (globErr != nil || !g.Match(glob.Name{Kind: p.Ref.Kind, ID: p.Ref.ID})) {
				continue
			}
			found = true
			chosen[i] = chosen[i] || p.From == lockfile.FromProject
			if exact && p.From != lockfile.FromProject {
				l.app.term.note("%s is from %s, and stands in no file of the project", text, p.From)
			}
		}
		if !found {
			return nil, l.notLocked(ctx, text)
		}
	}
	for i, yes := range chosen {
		if yes {
			pins = append(pins, l.old.Pins[i])
		}
	}
	return pins, nil
}

// left are the files that would be part of restored tools, and that the lock doesn't know. Whoever has no policy isn't
// told: it says what counts.
func (l *locking) left(ctx context.Context, pins []lockfile.Pin) (left []restoreLeft) {
	var refs []model.Ref
	for i := range pins {
		if p := &pins[i]; !p.Files.IsZero() {
			refs = append(refs, p.Ref)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	err := l.look(ctx)
	found := &lockDiff{}
	if err == nil {
		err = l.drift(ctx, found, refs...)
	}
	if err != nil {
		l.app.term.detail("what else there is: %s", classify(err).Text)
		return nil
	}
	for _, d := range found.Drift {
		if ref, err := model.ParseRef(d.Ref); err == nil && d.Kind == string(lock.Added) && slices.Contains(refs, ref) {
			left = append(left, restoreLeft{d.File, d.Ref})
		}
	}
	return left
}

// line says what was done with a file.
func (f *restored) line() restoreLine {
	line := restoreLine{File: path.Join(markerDir, f.path), Ref: f.ref.String(), Digest: f.want.Digest.String()}
	if f.before != nil {
		line.Before = f.found.String()
		if f.found == f.want.Digest {
			line.Only = "mode"
		}
	}
	return line
}

// A restored file is one that isn't as it is pinned.
type restored struct {
	ref    model.Ref
	path   string // below .ai
	where  string // for people
	want   cas.Info
	mode   cas.Mode
	before fs.FileInfo // nil: there was nothing
	found  cas.Digest  // of what was there
	part   string      // the new file beside the old one, "" as long as there is none
	done   bool
}

func (f *restored) notRegular() error {
	return &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is no regular file", f.where), Details: map[string]any{"reason": "special", "path": f.where},
		Hint: []string{"ls -l " + fault.Quote(f.where)}}
}

// sameMode reports whether a file may be executed if it should be; where a system can't say, it is as it should be.
func (f *restored) sameMode(fi fs.FileInfo) bool {
	return !modesAreKept || (fi.Mode().Perm()&0o100 != 0) == (f.mode == cas.Exec)
}
