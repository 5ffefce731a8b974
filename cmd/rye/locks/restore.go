package locks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy/glob"
)

func RestoreCommand() cli.Command {
	return cli.Command{
		Path: "restore", Quiet: true, Group: "lock", Help: "Restore items to their locked content.",
		More: "The bytes come from .ai/vendor or the store. All files of a tool are put back, or none; files beside it that the lock doesn't know are left and " +
			"told of. What was there before goes into the store, and its digest is said: rye store cat gives it back.\n\nExamples:\n\n" +
			"    rye restore tool:acme/fetch\n    rye restore '**' --dry-run",
		Aka: []string{"revert", "reset"},
		New: func() cli.Runner { return new(restoreRun) }, Schema: "restore/1", Output: restoreAnswer{},
	}
}

type restoreRun struct {
	Items  []string `arg:"" name:"item" complete:"pinned" help:"Refs or globs of locked items."`
	DryRun bool     `name:"dry-run" help:"Show what would change; write nothing."`
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

func (r restoreAnswer) Text(t *cli.Terminal) {
	verb := cli.DryVerb(r.DryRun, "restored", "would restore")
	for i, f := range r.Files {
		if i == mostRestored && !t.Verbose {
			t.Printf("%s  and %s more; -v tells all\n", verb, fault.Count(int64(len(r.Files)-i), "file"))
			break
		}
		if f.Only != "" {
			t.Printf("%s  %s  %s  only %s\n", verb, f.File, f.Ref, f.Only)
			continue
		}
		t.Printf("%s  %s  %s\n", verb, f.File, f.Ref)
		if f.Before != "" && !r.DryRun {
			t.Note("what was there is %s", f.Before)
		}
	}
	if len(r.Files) == 0 && r.Items > 0 && !r.failed {
		t.Note("%s as the lock has them", fault.Count(int64(r.Items), "item"))
	}
	for _, l := range r.Left {
		t.Warn("%s is left, and isn't in the lock: %s", l.File, l.Ref)
	}
}

func (c *restoreRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if !c.DryRun {
		unlock, err := places.Alone(ctx, a, false)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	l, err := places.OpenLock(a, false)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := l.NeedLock(); err != nil {
		return nil, err
	}
	pins, err := c.pins(ctx, l)
	if err != nil {
		return nil, err
	}
	r := &restoring{l: l, now: a.Now(), writes: !c.DryRun}
	if r.objects, err = l.Objects(); err != nil {
		return nil, err
	}
	if r.dir, err = c.openDir(l.DotAI); err != nil {
		return nil, err
	}
	if r.dir != nil {
		defer r.dir.Close()
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
	ans.Left = append(ans.Left, left(ctx, l, pins)...)
	return ans, nil
}

// openDir opens .ai to write in it, and makes it where it is wiped; nil where there is none and nothing is to be
// written.
func (c *restoreRun) openDir(dir string) (*osfile.Dir, error) {
	if !c.DryRun {
		return edit.OpenDir(dir, ai.Project)
	}
	if err := ai.Inside(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	d, err := osfile.OpenDir(dir, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return d, err
}

// pins are those of the project that the arguments mean, each once.
func (c *restoreRun) pins(ctx context.Context, l *places.Lock) (pins []lockfile.Pin, err error) {
	chosen := make([]bool, len(l.Old.Pins))
	for _, text := range c.Items {
		found := false
		g, globErr := glob.Parse(text)
		for i := range l.Old.Pins {
			p := &l.Old.Pins[i]
			exact := p.Ref.String() == text
			if !exact && (globErr != nil || !g.Match(glob.Name{Kind: p.Ref.Kind, ID: p.Ref.ID})) {
				continue
			}
			found = true
			chosen[i] = chosen[i] || p.From == lockfile.FromProject
			if exact && p.From != lockfile.FromProject {
				l.App.Term.Note("%s is from %s, and stands in no file of the project", text, p.From)
			}
		}
		if !found {
			return nil, notLocked(ctx, l, text)
		}
	}
	for i, yes := range chosen {
		if yes {
			pins = append(pins, l.Old.Pins[i])
		}
	}
	return pins, nil
}

// left are the files that would be part of restored tools, and that the lock doesn't know. Whoever has no policy isn't
// told: it says what counts.
func left(ctx context.Context, l *places.Lock, pins []lockfile.Pin) (left []restoreLeft) {
	var refs []model.Ref
	for i := range pins {
		if p := &pins[i]; !p.Files.IsZero() {
			refs = append(refs, p.Ref)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	err := l.Look(ctx)
	found := &lockDiff{}
	if err == nil {
		err = drift(ctx, l, found, refs...)
	}
	if err != nil {
		l.App.Term.Detail("what else there is: %s", fault.Of(err).Text)
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
	line := restoreLine{File: path.Join(workspace.MarkerDir, f.path), Ref: f.ref.String(), Digest: f.want.Digest.String()}
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
	staged *osfile.Staged
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
