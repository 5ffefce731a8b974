package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/closure"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
)

func lockCommand() command {
	return command{
		path: "lock", group: "lock", help: "Pin every item that the project can reach, to the byte.",
		more: "rye.yaml says what is needed and where the roots are; rye.lock says which bytes that is: the version of each bundle, and for each item its " +
			"digest, its signers, and the digests of its interface and of what it asks for. Only what must change is changed: versions stay unless " +
			"--update names them. Every item must be valid, and signed by somebody whom the policy lets.\n\n" +
			"What weakens the lock is refused and shown: another signer, an older signature format, wider grants, a higher risk, another source. " +
			"--accept NAME takes it for one item or bundle.\n\n" +
			"--check changes nothing, asks no network, and exits with 1 where rye lock would change something: for pipelines. --resolve chooses versions " +
			"anew, and heals a lock in which git has left a merge unfinished. --sign REF signs items first, as rye sign does; --sign alone those that " +
			"this key has signed before and that were changed since, which it shows and asks for.\n\nExamples:\n\n    rye lock\n    rye lock --check\n" +
			"    rye lock --update acme/base\n    rye lock --sign tool:acme/fetch\n    rye lock --accept acme/base",
		aka: []string{"freeze", "pin", "install --lock"},
		new: func() runner { return new(lockRun) }, schema: "lock/1", output: &lockAnswer{},
	}
}

type lockRun struct {
	Names     []string `arg:"" optional:"" name:"name" complete:"locked" help:"With --update: bundles; rye/std is the library. With --sign: items."`
	Check     bool     `help:"Change nothing; exit with 1 if rye lock would."`
	Update    bool     `help:"Bring the bundles NAME, or all, to the newest version allowed."`
	Resolve   bool     `help:"Choose versions anew, and heal a merge that git left unfinished."`
	Sign      bool     `help:"Sign the items NAME first; without any, those that this key has signed before."`
	Accept    []string `placeholder:"NAME" complete:"locked" help:"Let this item or bundle weaken the lock. May be given again."`
	AllowUser bool     `name:"allow-user" help:"Let items of the user's space count, and pin them."`
	User      bool     `help:"Lock the user's space instead, for use outside of projects."`
	DryRun    bool     `name:"dry-run" help:"Say what would change, and write nothing."`
	keyFlag
	before func() error // is done when nothing but the disk stands in the way of the new lock; nil: nothing
}

type lockAnswer struct {
	File       string            `json:"file"`
	ID         string            `json:"id"` // the digest of rye.lock
	Changed    bool              `json:"changed"`
	DryRun     bool              `json:"dry_run"`
	Checked    bool              `json:"checked"`
	Bundles    int               `json:"bundles"`
	Pins       int               `json:"pins"`
	Changes    []lockfile.Change `json:"changes"`
	Weakenings []weakeningLine   `json:"weakenings"`
	Problems   []checkProblem    `json:"problems"`
	Signed     []signLine        `json:"signed"`
	Warnings   []string          `json:"warnings"`
}

func newLockAnswer(c *lockRun) *lockAnswer {
	return &lockAnswer{DryRun: c.DryRun, Checked: c.Check, Changes: []lockfile.Change{}, Weakenings: []weakeningLine{}, Problems: []checkProblem{},
		Signed: []signLine{}, Warnings: []string{}}
}

// A weakeningLine is something for which the lock asks for less than before, or somebody else.
type weakeningLine struct {
	Name     string   `json:"name"`
	Kind     string   `json:"kind"`
	From     string   `json:"from"`
	To       string   `json:"to"`
	Details  []string `json:"details"`
	Accepted bool     `json:"accepted"`
}

func (c *lockAnswer) text(t *terminal) {
	printProblems(t, c.Problems)
	if len(c.Problems) > 0 || c.ID == "" {
		return
	}
	for _, ch := range c.Changes {
		t.printf("%s\n", changeText(ch))
	}
	verb := "unchanged"
	switch {
	case c.Checked && c.Changed:
		verb = "not as it would be made"
	case c.Checked:
		verb = "current"
	case c.Changed && c.DryRun:
		verb = "would lock"
	case c.Changed:
		verb = "locked"
	}
	what := counted(int64(c.Pins), "item")
	if c.Bundles > 0 {
		what += " and " + counted(int64(c.Bundles), "bundle")
	}
	t.printf("%s  %s  %s\n", t.stdout.paint(roleGood, verb, t.ascii), what, c.ID)
}

// changeText says a change in one line.
func changeText(c lockfile.Change) string {
	short := func(s string) string {
		words := strings.Fields(s)
		for i, w := range words {
			if digits, ok := strings.CutPrefix(w, "blake3:"); ok && len(digits) == 64 {
				words[i] = "blake3:" + digits[:12]
			}
			if len(w) == 64 && strings.Trim(w, "0123456789abcdef") == "" {
				words[i] = w[:12]
			}
		}
		return strings.Join(words, " ")
	}
	line := strings.ReplaceAll(string(c.Kind), "_", " ") + "  " + c.Name
	switch {
	case c.From != "" && c.To != "":
		line += "  " + short(c.From) + " -> " + short(c.To)
	case c.From != "" || c.To != "":
		line += "  " + short(c.From+c.To)
	}
	return line
}

func (c *lockRun) complete(_ context.Context, a *app, name, _ string) []candidate {
	if name == "key" {
		return completeKeys(a)
	}
	return nil
}

func (c *lockRun) run(ctx context.Context, a *app) (answer, error) {
	if err := c.sensible(a); err != nil {
		return nil, err
	}
	ans := newLockAnswer(c)
	open := a.locking
	if c.User {
		open = a.userLocking
	}
	l, err := open(c.Resolve)
	if err != nil {
		return nil, err
	}
	defer l.close()
	l.allowUser = c.AllowUser && !c.User
	if c.Check {
		if err := l.needLock(); err != nil {
			return nil, classify(err).asked()
		}
	}
	if c.Sign {
		if err := c.signItems(ctx, l, ans); err != nil {
			return ans, err
		}
	}
	if c.Check && l.remembered(ctx) {
		l.describe(ans, l.old, l.file)
		return ans, nil
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	return c.make(ctx, l, ans)
}

// sensible refuses flags that don't go together.
func (c *lockRun) sensible(a *app) error {
	switch {
	case len(c.Names) > 0 && !c.Update && !c.Sign:
		return &fault{code: codeValidation, message: fmt.Sprintf("what is to be done with %q?", c.Names[0]), hint: []string{a.again("--update"), a.again("--sign")}}
	case c.Update && c.Sign && len(c.Names) > 0:
		return &fault{code: codeValidation, message: "--update and --sign would both mean " + quoteArg(c.Names[0])}
	case c.Check && (c.Update || c.Sign || c.Resolve || c.DryRun || len(c.Accept) > 0):
		return &fault{code: codeValidation, message: "--check changes nothing, and goes with none of --update, --resolve, --sign, --accept and --dry-run"}
	}
	return nil
}

// make makes the lock, and writes it if it may.
func (c *lockRun) make(ctx context.Context, l *locking, ans *lockAnswer) (answer, error) {
	a := l.app
	r := l.request()
	r.Resolve = c.Resolve
	if c.Update {
		r.Update, r.UpdateAll = c.Names, len(c.Names) == 0
	}
	if c.Resolve {
		r.Keep = l.mergedVersions()
	}
	p := a.progress("locking", 0)
	defer p.Done()
	var batch cas.Batch
	if !c.DryRun && !c.Check {
		var err error
		if batch, err = l.store().Batch(ctx); err != nil {
			return nil, err
		}
		defer batch.Close()
		r.Store = batch
	}
	made, err := lock.Make(ctx, r)
	p.Done()
	if problems := l.problems(err); len(problems) > 0 {
		ans.Problems = append(ans.Problems, problems...)
		f := classify(err)
		if c.Check {
			f = f.asked()
		}
		return ans, f
	}
	if err != nil {
		return nil, err
	}
	for _, w := range made.Closure.Warnings {
		ans.Warnings = append(ans.Warnings, w.Error())
		a.term.warn("%s", w.Error())
	}
	l.describe(ans, made.Lock, made.Bytes)
	ans.Changes = append(ans.Changes, made.Changes...)
	ans.Changed = !bytes.Equal(made.Bytes, l.file)
	if c.Check {
		return c.checked(ctx, l, ans)
	}
	if err := c.weaker(ctx, l, made, ans); err != nil {
		return ans, err
	}
	if c.DryRun {
		return ans, nil
	}
	if err := batch.Commit(ctx); err != nil {
		return nil, err
	}
	if err := l.keep(ctx, made); err != nil {
		return nil, err
	}
	if c.before != nil {
		if err := c.before(); err != nil {
			return nil, err
		}
	}
	if err := l.write(made.Bytes); err != nil {
		return nil, err
	}
	l.remember(ctx)
	return ans, nil
}

// checked is the answer to --check.
func (c *lockRun) checked(ctx context.Context, l *locking, ans *lockAnswer) (answer, error) {
	if !ans.Changed {
		l.remember(ctx)
		return ans, nil
	}
	f := &fault{code: "LOCK_MISMATCH", message: fmt.Sprintf("%q is not what rye lock would make: %s", l.lockPath(), counted(int64(len(ans.Changes)), "change")),
		hint: []string{"rye diff", "rye lock"}, details: map[string]any{"path": l.lockPath()}}
	return ans, f.asked()
}

// weaker refuses what weakens the lock and wasn't accepted.
func (c *lockRun) weaker(ctx context.Context, l *locking, made *lock.Made, ans *lockAnswer) error {
	if l.old == nil {
		return c.unused(nil)
	}
	all, err := l.weakenings(ctx, made)
	if err != nil {
		return err
	}
	f := &fault{code: "LOCK_MISMATCH", details: map[string]any{"reason": "weaker"}}
	names := []string{}
	for _, w := range all {
		line := weakeningLine{w.Name, string(w.Kind), w.From, w.To, slices.Clone(w.Details), slices.Contains(c.Accept, w.Name)}
		if line.Details == nil {
			line.Details = []string{}
		}
		ans.Weakenings = append(ans.Weakenings, line)
		if line.Accepted {
			continue
		}
		f.why = append(f.why, changeText(lockfile.Change{Kind: lockfile.Kind(line.Kind), Name: line.Name, From: line.From, To: line.To}))
		for _, d := range line.Details {
			f.why = append(f.why, "  "+d)
		}
		if !slices.Contains(names, w.Name) {
			names = append(names, w.Name)
		}
	}
	if err := c.unused(all); err != nil {
		return err
	}
	if len(names) == 0 {
		return nil
	}
	f.message = fmt.Sprintf("the new lock would be weaker: %s", counted(int64(len(f.why)), "change"))
	accept := "rye lock"
	for _, n := range names {
		accept += " --accept " + quoteArg(n)
	}
	f.hint = []string{"rye diff", accept}
	f.details["names"], f.details["weakenings"] = names, ans.Weakenings
	return f
}

// unused refuses to accept what isn't there: a name that is misspelt would be taken for a yes one day.
func (c *lockRun) unused(all []lock.Weakness) error {
	for _, name := range c.Accept {
		if !slices.ContainsFunc(all, func(w lock.Weakness) bool { return w.Name == name }) {
			return &fault{code: codeValidation, message: fmt.Sprintf("nothing about %q weakens the lock", name), hint: []string{"rye lock"}, details: map[string]any{"name": name}}
		}
	}
	return nil
}

// signItems signs items before the lock is made.
func (c *lockRun) signItems(ctx context.Context, l *locking, ans *lockAnswer) error {
	if c.User {
		return &fault{code: codeValidation, message: "--sign signs items of a project", hint: []string{"rye sign REF"}}
	}
	key, err := l.app.signingKey(ctx, c.Key)
	if err != nil {
		return err
	}
	r := &resigner{app: l.app, key: key, flag: c.keyFlag, dryRun: c.DryRun, before: l.pinnedBytes}
	signed, problems, err := r.sign(ctx, c.Names)
	ans.Signed = append(ans.Signed, signed...)
	ans.Problems = append(ans.Problems, problems...)
	return err
}

// pinnedBytes are the bytes that the lock has of an item of the project, if they are here.
func (l *locking) pinnedBytes(ctx context.Context, it *ai.Item) []byte {
	if l.old == nil {
		return nil
	}
	pin := l.old.Pin(it.Ref)
	objects, err := l.objects()
	if pin == nil || err != nil {
		return nil
	}
	return signedBytes(ctx, objects, pin.Digest)
}

// describe says what a lock holds.
func (l *locking) describe(ans *lockAnswer, lf *lockfile.Lock, b []byte) {
	ans.File, ans.ID = l.lockPath(), cas.Sum(b).String()
	ans.Bundles, ans.Pins = len(lf.Bundles), len(lf.Pins)
}

// mergedVersions are the versions of both sides of a merge that git left unfinished, the higher one of each: they are
// kept as far as the requirements let them.
func (l *locking) mergedVersions() map[string]string {
	keep := map[string]string{}
	ours, theirs, ok := lockfile.Sides(l.file)
	if !ok {
		return keep
	}
	for _, side := range [][]byte{ours, theirs} {
		one, err := lockfile.Parse(side)
		if err != nil {
			continue
		}
		for _, b := range one.Bundles {
			if have, twice := keep[b.ID]; !twice || manifest.CompareVersions(have, b.Version) < 0 {
				keep[b.ID] = b.Version
			}
		}
		if l.old == nil {
			l.old = one
		}
	}
	return keep
}

// lockFault says what is wrong with a lock.
func lockFault(path string, err error) error {
	if err == nil {
		return nil
	}
	f := &fault{code: "LOCK_MISMATCH", err: err, message: fmt.Sprintf("%q: %s", path, strings.TrimPrefix(err.Error(), "lock: ")),
		hint: []string{"git restore " + lockfile.Name, "rye lock --resolve"}, details: map[string]any{"path": path}}
	return f
}

// problems are all that keeps the project from being locked, as rye check tells of problems.
func (l *locking) problems(err error) (lines []checkProblem) {
	closed, ok := errors.AsType[*closure.Error](err)
	if !ok {
		return nil
	}
	for _, p := range closed.Problems {
		lines = append(lines, l.problem(p, severityError))
	}
	return lines
}

func (l *locking) problem(p *closure.Problem, severity string) checkProblem {
	line := checkProblem{Severity: severity, Line: p.At.Line, Column: p.At.Column, Field: p.Field}
	line.Code, line.Message = wordsFor(p.Err)
	if p.Ref != (model.Ref{}) {
		line.Ref = p.Ref.String()
	}
	if p.Space != nil {
		line.Space, line.File = p.Space.Label, p.Path
		if p.Space.Label == lockfile.FromProject {
			line.File = path.Join(markerDir, p.Path)
		}
	}
	return line
}

// weakenings says in what a new lock asks for less than the one that is there.
func (l *locking) weakenings(ctx context.Context, made *lock.Made) ([]lock.Weakness, error) {
	objects, err := l.objects()
	if err != nil {
		return nil, err
	}
	from, err := lock.NewSide(ctx, l.old, l.id(), lock.SetOptions{Objects: objects, Std: librarySpace()})
	if err != nil {
		return nil, err
	}
	to, err := l.side(ctx, made, objects)
	if err != nil {
		return nil, err
	}
	return lock.Weakening(ctx, from, to)
}

// side is a lock that was made, with the files of the project for what the store doesn't have yet.
func (l *locking) side(ctx context.Context, made *lock.Made, objects lock.Source) (*lock.Side, error) {
	files := &contentBlobs{os.DirFS(l.dotAI), make(map[cas.Digest]manifest.File, len(made.Lock.Pins))}
	for i := range made.Lock.Pins {
		if p := &made.Lock.Pins[i]; p.Path != "" {
			files.at[p.Digest] = manifest.File{Path: p.Path, Size: p.Size}
		}
	}
	return lock.NewSide(ctx, made.Lock, cas.Sum(made.Bytes), lock.SetOptions{Objects: lock.First(objects, nameless{files}), Std: librarySpace()})
}

// nameless has objects, and names for none.
type nameless struct{ cas.Getter }

func (nameless) Ref(string) (cas.ID, error) { return cas.ID{}, fs.ErrNotExist }

// keep makes the store keep what the lock names.
func (l *locking) keep(ctx context.Context, made *lock.Made) error {
	set, err := lock.NewSet(ctx, made.Lock, cas.Sum(made.Bytes), lock.SetOptions{Objects: l.store(), Std: librarySpace()})
	if err != nil {
		return err
	}
	objects, err := set.Objects(ctx)
	if err != nil {
		return err
	}
	return lock.Keep(ctx, l.store(), l.lockPath(), objects)
}
