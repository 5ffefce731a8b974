package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest"
)

func addCommand() command {
	return command{
		path: "add", group: "lock", help: "Let the project use a bundle, and lock it.",
		more: "A bundle comes from one place: --from names a project's directory, an archive, an archive's https address, or a repository of git at a " +
			"branch, tag or commit; --index names the address or " +
			"directory of a list of many versions (rye bundle index makes one). Without a range the newest version that there is, and what is " +
			"compatible with it, will do. A bundle that is in rye.yaml already gets the new range or place.\n\nExamples:\n\n" +
			"    rye add acme/base --index https://bundles.acme.example/index.yaml\n    rye add acme/base@^2.1 --index ../bundles\n" +
			"    rye add acme/notes --from ../notes\n    rye add acme/style --from git+https://git.acme.example/style.git@main",
		aka: []string{"require", "get"},
		new: func() runner { return new(addRun) }, schema: "add/1", output: &changeAnswer{},
	}
}

type addRun struct {
	Bundle string   `arg:"" help:"The id of a bundle, and with @RANGE which versions will do."`
	From   string   `placeholder:"PLACE" complete:"file" help:"The directory, archive, address or repository (git+https:…) of this one bundle."`
	Index  string   `placeholder:"PLACE" complete:"file" help:"The directory or address of a list of versions."`
	Sign   []string `placeholder:"REF" complete:"own" help:"Sign this item first, which uses the bundle. May be given again."`
	changeFlags
	keyFlag
}

func (c *addRun) complete(_ context.Context, a *app, name, _ string) []candidate {
	if name == "key" {
		return completeKeys(a)
	}
	return nil
}

// changeFlags are those of every command that changes rye.yaml, or which versions are used.
type changeFlags struct {
	Accept []string `placeholder:"NAME" complete:"locked" help:"Let this item or bundle weaken the lock. May be given again."`
	DryRun bool     `name:"dry-run" help:"Say what would change, and write nothing."`
}

// changeAnswer is what a command made of rye.yaml and of the lock.
type changeAnswer struct {
	Bundle string `json:"bundle"`
	Range  string `json:"range"` // empty: it isn't required any more
	Source string `json:"source"`
	Edited bool   `json:"edited"` // rye.yaml is another now
	*lockAnswer
}

func (c *changeAnswer) text(t *terminal) {
	switch {
	case c.Edited && c.Range != "":
		t.printf("%s  %s %s  from %s\n", dryVerb(c.DryRun, "requires", "would require"), c.Bundle, c.Range, c.Source)
	case c.Edited:
		t.printf("%s  %s\n", dryVerb(c.DryRun, "no longer requires", "would no longer require"), c.Bundle)
	}
	c.lockAnswer.text(t)
}

func dryVerb(dry bool, done, would string) string {
	if dry {
		return would
	}
	return done
}

func (c *addRun) run(ctx context.Context, a *app) (answer, error) {
	l, unlock, err := a.editing(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer l.close()
	id, versions, given := strings.Cut(c.Bundle, "@")
	src, err := c.source(l, id)
	if err != nil {
		return nil, err
	}
	// The newest there is must be known before a range can be said, so the requirement begins as one that allows all.
	if !given {
		versions = "*"
	}
	need, err := ryeyaml.NewRequirement(id, versions, src)
	if err != nil {
		return nil, badRequirement(c.Bundle, err)
	}
	if l.yaml, err = l.yaml.Add(need); err != nil {
		return nil, badRequirement(c.Bundle, err)
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	if !given {
		if versions, err = l.compatible(ctx, id, src); err != nil {
			return nil, err
		}
		if l.yaml, err = l.yaml.SetVersion(id, versions); err != nil {
			return nil, err
		}
	}
	ans := &changeAnswer{Bundle: id, Range: versions, Source: src.Where}
	return ans, c.change(ctx, l, ans, &lockRun{Sign: len(c.Sign) > 0, Names: c.Sign, keyFlag: c.keyFlag})
}

// source is where the bundle comes from: what the flags say, or what rye.yaml says of it already.
func (c *addRun) source(l *locking, id string) (ryeyaml.Source, error) {
	old, known := l.yaml.Requirement(id)
	var f *fault.Error
	switch {
	case c.From != "" && c.Index != "":
		f = &fault.Error{Code: fault.Validation, Text: "a bundle comes from one place: --from or --index"}
	case c.From == "" && c.Index == "" && known:
		return old.Source, nil
	case c.From == "" && c.Index == "":
		f = &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("where does %q come from?", id),
			Hint: []string{l.app.with("--from", "DIR"), l.app.with("--index", "URL")}}
	}
	if f != nil {
		return ryeyaml.Source{}, f
	}
	where := c.From + c.Index
	if !strings.Contains(where, "://") {
		rel, err := l.relative(where)
		if err != nil {
			return ryeyaml.Source{}, err
		}
		where = rel
	}
	src, err := ryeyaml.ParseSource(where, c.Index != "")
	if err != nil {
		return src, &fault.Error{Code: fault.Validation, Err: err, Text: err.Error(), Details: map[string]any{"source": where}}
	}
	return src, nil
}

// relative is a path of this machine as rye.yaml has it: relative to the project.
func (l *locking) relative(where string) (string, error) {
	s := l.app.absolute(setting{value: where})
	if s.err != nil {
		return "", s.err
	}
	dir, err := filepath.EvalSymlinks(l.dir)
	if err != nil {
		return "", err
	}
	if to, err := filepath.EvalSymlinks(s.value); err == nil {
		s.value = to
	} else if errors.Is(err, fs.ErrNotExist) {
		return "", nothingAt(where, s.value)
	}
	rel, err := filepath.Rel(dir, s.value)
	if err != nil {
		return "", &fault.Error{Code: fault.Validation, Err: err, Text: fmt.Sprintf("%q can't be told relative to the project", where)}
	}
	return filepath.ToSlash(rel), nil
}

// nothingAt says that there is nothing at a place, and what is beside it that is meant perhaps.
func nothingAt(where, path string) *fault.Error {
	f := &fault.Error{Code: fault.NotFound, Err: fs.ErrNotExist, Text: fmt.Sprintf("there is nothing at %q", where), Hint: []string{"rye docs sources"},
		Details: map[string]any{"path": path}}
	entries, _ := os.ReadDir(filepath.Dir(path))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if meant := near.Names(filepath.Base(path), names); len(meant) > 0 {
		for i, name := range meant {
			meant[i] = filepath.Join(filepath.Dir(where), name)
		}
		f.Why = []string{"did you mean " + strings.Join(meant, ", ") + "?"}
		f.Details["did_you_mean"] = meant
	}
	return f
}

func badRequirement(text string, err error) error {
	id, _, _ := strings.Cut(text, "@")
	f := &fault.Error{Code: fault.Validation, Err: err, Text: fmt.Sprintf("%q: %s", text, err), Details: map[string]any{"bundle": text}}
	if portable.CheckID(id) == nil && id != lock.Library { // else no range will do
		f.Hint = []string{"rye add " + fault.Quote(id+"@^1.2")}
	}
	return f
}

// compatible is the range of the newest version that there is, and of what is compatible with it.
func (l *locking) compatible(ctx context.Context, id string, src ryeyaml.Source) (string, error) {
	all, err := l.sources.Versions(ctx, id)
	if err != nil {
		return "", err
	}
	newest := ""
	for _, v := range all {
		release, have := !strings.Contains(v.Version, "-"), !strings.Contains(newest, "-")
		if newest == "" || release && !have || release == have && manifest.CompareVersions(v.Version, newest) > 0 {
			newest = v.Version
		}
	}
	if newest == "" {
		return "", &fault.Error{Code: fault.NotFound, Err: fs.ErrNotExist, Text: fmt.Sprintf("%q has no version of %q", src.Where, id)}
	}
	version, _, _ := strings.Cut(newest, "+")
	return "^" + version, nil
}

// editing opens the project to change its rye.yaml; nobody else changes it until unlock.
func (a *app) editing(ctx context.Context) (*locking, func(), error) {
	unlock, err := a.alone(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	l, err := a.locking(false)
	if err == nil && l.found.root.marker != markerFile {
		l.yaml, err = ryeyaml.Parse(nil, a.running()) // an empty one that can be written
	}
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return l, unlock, nil
}

// change makes the lock of a changed rye.yaml, and writes both: first rye.yaml, so that a process that dies between
// leaves a lock that rye lock --check finds behind.
func (c *changeFlags) change(ctx context.Context, l *locking, ans *changeAnswer, run *lockRun) error {
	before, err := readSmall(filepath.Join(l.dir, markerFile), maxProject)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	after := l.yaml.Format()
	edited := string(before) != string(after)
	run.Accept, run.DryRun = c.Accept, c.DryRun
	run.before = func() error {
		if !edited {
			return nil
		}
		d, err := confine(l.dir, 0o777)
		if err != nil {
			return err
		}
		defer d.close()
		err = d.write(markerFile, 0o644, before == nil, after)
		ans.Edited = err == nil
		return err
	}
	ans.lockAnswer = newLockAnswer(run)
	_, err = run.make(ctx, l, ans.lockAnswer)
	ans.Edited = ans.Edited || err == nil && edited // of a dry run
	return err
}

func removeCommand() command {
	return command{
		path: "remove", group: "lock", help: "Let the project no longer use a bundle.",
		more: "It is taken out of rye.yaml, and with all that only it needed out of the lock. If an item still uses one of its items, that is refused, and " +
			"nothing is changed.\n\nExamples:\n\n    rye remove acme/base\n    rye remove acme/base --dry-run",
		aka: []string{"drop", "unrequire", "uninstall"},
		new: func() runner { return new(removeRun) }, schema: "remove/1", output: &changeAnswer{},
	}
}

type removeRun struct {
	Bundle string `arg:"" complete:"required" help:"The id of a bundle in rye.yaml."`
	changeFlags
}

func (c *removeRun) run(ctx context.Context, a *app) (answer, error) {
	l, unlock, err := a.editing(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer l.close()
	if l.yaml, err = l.yaml.Remove(c.Bundle); err != nil {
		return nil, err
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	ans := &changeAnswer{Bundle: c.Bundle}
	err = c.change(ctx, l, ans, &lockRun{})
	if f, ok := errors.AsType[*fault.Error](err); ok && len(ans.Problems) > 0 {
		f.Hint = []string{"rye why " + fault.Quote(c.Bundle)}
	}
	return ans, err
}

func updateCommand() command {
	return command{
		path: "update", group: "lock", help: "Bring bundles to the newest versions that rye.yaml allows.",
		more: "Without a name all of them. It is rye lock --update; rye outdated says what there is. What rye.yaml doesn't allow is allowed by " +
			"another range there: rye add acme/base@^3.\n\nExamples:\n\n    rye update\n    rye update acme/base\n    rye update --dry-run",
		aka: []string{"upgrade", "up"},
		new: func() runner { return new(updateRun) }, schema: "lock/1", output: &lockAnswer{},
	}
}

type updateRun struct {
	Bundles []string `arg:"" optional:"" name:"bundle" complete:"required" help:"Ids of bundles."`
	changeFlags
}

func (c *updateRun) run(ctx context.Context, a *app) (answer, error) {
	return (&lockRun{Names: c.Bundles, Update: true, Accept: c.Accept, DryRun: c.DryRun}).run(ctx, a)
}

func outdatedCommand() command {
	return command{
		path: "outdated", group: "lock", help: "Show which bundles there are newer versions of.",
		more: "ALLOWED is the newest that all ranges contain, which rye update takes; LATEST the newest that there is. It exits with 1 if there is " +
			"anything to update.\n\nExamples:\n\n    rye outdated\n    rye outdated --json",
		new: func() runner { return new(outdatedRun) }, schema: "outdated/1", output: outdatedAnswer{},
	}
}

type outdatedRun struct{}

type outdatedAnswer struct {
	Bundles []outdatedLine `json:"bundles"`
}

type outdatedLine struct {
	Bundle  string `json:"bundle"`
	Version string `json:"version"`
	Allowed string `json:"allowed"`
	Latest  string `json:"latest"`
}

func (o outdatedAnswer) text(t *terminal) {
	if len(o.Bundles) == 0 {
		t.note("every bundle is the newest there is")
		return
	}
	rows := [][]string{{"BUNDLE", "LOCKED", "ALLOWED", "LATEST"}}
	for _, b := range o.Bundles {
		rows = append(rows, []string{b.Bundle, b.Version, b.Allowed, b.Latest})
	}
	t.rows(rows)
}

func (*outdatedRun) run(ctx context.Context, a *app) (answer, error) {
	l, err := a.locking(false)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if err := l.needLock(); err != nil {
		return nil, err
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	chosen, err := lock.Choose(ctx, l.request(ctx))
	if err != nil {
		return nil, err
	}
	ans, behind := outdatedAnswer{Bundles: []outdatedLine{}}, 0
	for _, n := range chosen.Outdated() {
		ans.Bundles = append(ans.Bundles, outdatedLine{n.ID, n.Version, n.Allowed, n.Latest})
		if n.Allowed != n.Version {
			behind++
		}
	}
	if behind == 0 {
		return ans, nil
	}
	f := &fault.Error{Code: fault.VersionMismatch, Text: fmt.Sprintf("%s can be updated", fault.Count(int64(behind), "bundle")), Hint: []string{"rye update"}}
	return ans, f.Asked()
}
