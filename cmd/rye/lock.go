package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/closure"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/manifest/sign"
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
		aka: []string{"freeze", "pin"},
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
	state  cas.Digest   // for --check: what there was before the lock was made
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
	Artifacts  int               `json:"artifacts"` // files of packages
	Changes    []lockfile.Change `json:"changes"`
	Weakenings []weakeningLine   `json:"weakenings"`
	Problems   []checkProblem    `json:"problems"`
	Signed     []signLine        `json:"signed"`
	Warnings   []string          `json:"warnings"`
	TakenOver  int               `json:"taken_over"` // locks of the first format (v1) that this one stands for now
	written    bool
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
	printChanges(t, c.Changes)
	verb := "unchanged"
	switch {
	case c.Checked && c.Changed:
		verb = "not as it would be made"
	case c.Checked:
		verb = "current"
	case c.Changed && !c.written:
		verb = "would lock"
	case c.Changed:
		verb = "locked"
	}
	what := fault.Count(int64(c.Pins), "item")
	switch {
	case c.Bundles > 0 && c.Artifacts > 0:
		what += ", " + fault.Count(int64(c.Bundles), "bundle") + " and " + fault.Count(int64(c.Artifacts), "file") + " of packages"
	case c.Bundles > 0:
		what += " and " + fault.Count(int64(c.Bundles), "bundle")
	case c.Artifacts > 0:
		what += " and " + fault.Count(int64(c.Artifacts), "file") + " of packages"
	}
	t.printf("%s  %s  %s\n", t.stdout.paint(roleGood, verb, t.ascii), what, c.ID)
}

// mostChanges is how many changes of one kind are told one by one, without --verbose.
const mostChanges = 12

// printChanges tells changes, and of very many of one kind how many they are.
func printChanges(t *terminal, all []lockfile.Change) {
	for i := 0; i < len(all); {
		n := i + 1
		for n < len(all) && all[n].Kind == all[i].Kind {
			n++
		}
		told := n
		if n-i > mostChanges && !t.verbose {
			told = i + mostChanges - 2
		}
		for _, c := range all[i:told] {
			t.printf("%s\n", changeText(c))
		}
		if told < n {
			t.printf("%s  and %d more; -v tells all\n", strings.ReplaceAll(string(all[i].Kind), "_", " "), n-told)
		}
		i = n
	}
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
	if c.Check {
		if ans, err := c.current(ctx, a); ans != nil || err != nil {
			return ans, err
		}
	}
	ans := newLockAnswer(c)
	if !c.Check && !c.DryRun {
		unlock, err := a.alone(ctx, c.User)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	open := func(conflict bool) (*locking, error) { return a.locking(conflict) }
	if c.User {
		open = func(conflict bool) (*locking, error) { return a.userLocking(conflict) }
	}
	l, err := open(c.Resolve)
	if err != nil {
		return nil, c.no(err)
	}
	defer l.close()
	l.allowUser = c.AllowUser && !c.User
	if c.Check {
		if err := l.needLock(); err != nil {
			return nil, classify(err).Asked()
		}
	}
	if !c.Check {
		err = l.open()
	}
	if err == nil && (c.Check || c.User) {
		err = l.look(ctx)
	}
	if err == nil && c.User {
		err = l.findInstalled(ctx)
	}
	if err != nil {
		return nil, err
	}
	return c.make(ctx, l, ans)
}

// signHint puts the line that signs in terms of the command that was given: another one doesn't know yet what it would
// add.
func (c *lockRun) signHint(a *app, f *fault.Error, err error) {
	if c.before == nil && !c.AllowUser {
		return
	}
	refs, ok := unsignedRefs(err)
	for i, line := range f.Hint {
		if !ok || !strings.HasPrefix(line, "rye lock --sign ") {
			continue
		}
		if c.before == nil {
			f.Hint[i] = "rye lock --allow-user " + strings.TrimPrefix(line, "rye lock ")
			continue
		}
		var more []string
		for _, ref := range refs {
			more = append(more, "--sign", ref)
		}
		f.Hint[i] = a.with(more...)
	}
}

// no makes the answer to --check of what can't be the lock.
func (c *lockRun) no(err error) error {
	if f := classify(err); c.Check && f.Code == fault.LockMismatch {
		return f.Asked()
	}
	return err
}

// sensible refuses flags that don't go together.
func (c *lockRun) sensible(a *app) error {
	switch {
	case len(c.Names) > 0 && !c.Update && !c.Sign:
		return c.aimless(a)
	case c.Update && c.Sign && len(c.Names) > 0:
		return &fault.Error{Code: fault.Validation, Text: "--update and --sign would both mean " + fault.Quote(c.Names[0])}
	case c.Check && (c.Update || c.Sign || c.Resolve || c.DryRun || len(c.Accept) > 0):
		return &fault.Error{Code: fault.Validation, Text: "--check changes nothing, and goes with none of --update, --resolve, --sign, --accept and --dry-run"}
	}
	return nil
}

// aimless is about names without a flag that says what they are for; the first may be a flag without its --, or another
// command about the lock.
func (c *lockRun) aimless(a *app) *fault.Error {
	word := c.Names[0]
	f := &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("what is to be done with %q?", word), Details: map[string]any{"argument": word}}
	switch word {
	case "check", "update", "resolve", "sign":
		meant(f, a.args, word, []string{"--" + word})
		return f
	}
	for _, other := range a.commands {
		if other.group == "lock" && other.path == word {
			f.Why, f.Details["did_you_mean"] = []string{"did you mean " + word + "?"}, []string{word}
			at := len(a.args) - 1
			for at > 0 && a.args[at] != word {
				at--
			}
			for at > 0 && a.args[at] != "lock" {
				at--
			}
			f.Hint = []string{"rye " + joinArgs(slices.Delete(slices.Clone(a.args), at, at+1))}
			return f
		}
	}
	if !c.Check {
		f.Hint = []string{a.with("--update"), a.with("--sign")}
	} else {
		f.Hint = []string{"rye lock --check"}
	}
	return f
}

// make makes the lock, and writes it if it may.
func (c *lockRun) make(ctx context.Context, l *locking, ans *lockAnswer) (answer, error) {
	a := l.app
	r := l.request(ctx)
	r.Resolve = c.Resolve
	if c.Update {
		r.Update, r.UpdateAll = c.Names, len(c.Names) == 0
	}
	if l.sides != nil {
		var err error
		if r.Old, err = l.merged(); err != nil {
			return nil, err
		}
		r.Sides = l.sides
	}
	p := a.progress("locking", 0)
	defer p.Done()
	l.shown = p
	var batch cas.Batch
	if !c.DryRun && !c.Check {
		var err error
		if batch, err = l.store().Batch(ctx); err != nil {
			return nil, err
		}
		defer batch.Close()
		r.Store = batch
	}
	if c.Sign {
		// Not before the bundles are here: an item may be run by one of them that the old lock doesn't know.
		r.Ready = func(bundles []lockfile.Bundle) error {
			p.Done()
			a.coming, a.allowUser = bundles, l.allowUser
			return c.signItems(ctx, l, ans)
		}
	}
	made, err := lock.Make(ctx, r)
	p.Done()
	if errors.Is(err, errUnsigned) {
		a.term.note("the rest can be said when these are signed")
		return ans, nil
	}
	if errors.Is(err, errElsewhere) {
		return c.elsewhere(ctx, l, ans)
	}
	if problems := l.problems(ctx, err); len(problems) > 0 {
		ans.Problems = append(ans.Problems, problems...)
		f := classify(err)
		c.signHint(a, f, err)
		if c.Check {
			f = f.Asked()
		}
		return ans, f
	}
	if len(ans.Problems) > 0 {
		return ans, err
	}
	if _, ofSource := errors.AsType[*sources.Error](err); ofSource {
		return nil, l.ofBundle(c.no(err))
	}
	if err != nil {
		return nil, c.no(err)
	}
	l.warn(made, ans)
	l.describe(ans, made.Lock, made.Bytes)
	ans.Changes = append(ans.Changes, made.Changes...)
	ans.Changed = !bytes.Equal(made.Bytes, l.file)
	if c.Check {
		// Where the bytes that were pinned aren't here it can't be told what would be weaker.
		var weaker []string
		if no, ok := errors.AsType[*fault.Error](c.weaker(ctx, l, made, ans)); ok {
			weaker, _ = no.Details["names"].([]string)
		}
		return c.checked(ctx, l, ans, weaker)
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
	objects, err := l.kept(ctx, made)
	if err == nil && ans.Changed {
		err = lock.KeepToo(ctx, l.store(), l.lockPath(), objects)
	}
	if err != nil {
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
	ans.written = true
	return ans, lock.Keep(ctx, l.store(), l.lockPath(), objects)
}

// warn tells what somebody may not have meant, and of very much how much it is.
func (l *locking) warn(made *lock.Made, ans *lockAnswer) {
	all := made.Closure.Warnings
	var texts []string
	for _, err := range made.Unfound {
		texts = append(texts, "not pinned: "+classify(err).Text)
	}
	for _, name := range made.Unasked {
		texts = append(texts, name+": its list allows more files than are pinned, and rye is offline: rye lock --update asks for them")
	}
	for _, text := range texts {
		ans.Warnings = append(ans.Warnings, text)
		l.app.term.warn("%s", text)
	}
	told := len(all)
	if told > mostChanges && !l.app.term.verbose {
		told = mostChanges - 2
	}
	for i, w := range all {
		p := l.problem(w, severityWarning)
		text := p.at() + ": " + p.Message
		ans.Warnings = append(ans.Warnings, text)
		if i < told {
			l.app.term.warn("%s", text)
		}
	}
	if told < len(all) {
		l.app.term.warn("and %d more; -v tells all", len(all)-told)
	}
}

// checked is the answer to --check. What the new lock would be weaker in has to be accepted by name.
func (c *lockRun) checked(ctx context.Context, l *locking, ans *lockAnswer, weaker []string) (answer, error) {
	if !ans.Changed {
		c.remember(ctx, l, ans)
		return ans, nil
	}
	f := &fault.Error{Code: fault.LockMismatch, Text: fmt.Sprintf("%q is not what rye lock would make: %s", l.lockPath(), fault.Count(int64(len(ans.Changes)), "change")),
		Hint: []string{"rye diff", l.lockAgain(weaker)}, Details: map[string]any{"path": l.lockPath()}}
	return ans, f.Asked()
}

// signItems signs items before the lock is made.
func (c *lockRun) signItems(ctx context.Context, l *locking, ans *lockAnswer) error {
	if c.User {
		return &fault.Error{Code: fault.Validation, Text: "--sign signs items of a project", Hint: []string{"rye sign REF"}}
	}
	key, err := l.app.signingKey(ctx, c.Key)
	if err != nil {
		return err
	}
	r := &resigner{app: l.app, key: key, flag: c.keyFlag, dryRun: c.DryRun, before: func(ctx context.Context, it *ai.Item) []byte { return l.pinnedBytes(ctx, it) }}
	signed, problems, err := r.sign(ctx, c.Names)
	ans.Signed = append(ans.Signed, signed...)
	ans.Problems = append(ans.Problems, problems...)
	if err == nil && c.DryRun && len(signed) > 0 {
		err = errUnsigned
	}
	return err
}

// errUnsigned stops a dry run where items would be signed.
var errUnsigned = errors.New("items aren't signed yet")

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
	ans.Bundles, ans.Pins, ans.Artifacts = len(lf.Bundles), len(lf.Pins), len(lf.Artifacts)
}

// lockFault says what is wrong with a lock. Only a merge heals: whatever else is half a lock could have forgotten pins.
func (a *app) lockFault(path string, err error) error {
	if err == nil {
		return nil
	}
	f := &fault.Error{Code: fault.LockMismatch, Err: err, Text: fmt.Sprintf("%q: %s", path, strings.TrimPrefix(err.Error(), "lock: ")),
		Hint: []string{"git restore " + fault.Quote(a.fromHere(path))}, Details: map[string]any{"path": path}}
	if _, ok := errors.AsType[*lockfile.MergeError](err); ok {
		f.Hint = []string{"rye lock --resolve"}
	}
	if _, ok := errors.AsType[*canon.VersionError](err); ok {
		f.Code, f.Hint = fault.VersionMismatch, []string{"rye version"}
	}
	return f
}

// problems are all that keeps the project from being locked, as rye check tells of problems.
func (l *locking) problems(ctx context.Context, err error) (lines []checkProblem) {
	closed, ok := errors.AsType[*closure.Error](err)
	if !ok {
		return nil
	}
	for _, p := range closed.Problems {
		line := l.problem(p, severityError)
		if wrong, ok := errors.AsType[*sign.IntegrityError](p.Err); ok && wrong.What == "tree" {
			line.Message += l.beside(ctx, p.Ref)
		}
		lines = append(lines, line)
	}
	return lines
}

// beside names the files of an item that aren't as they are pinned, as far as the old lock tells.
func (l *locking) beside(ctx context.Context, ref model.Ref) string {
	var d lockDiff
	if l.old == nil || l.old.Pin(ref) == nil || l.drift(ctx, &d, ref) != nil {
		return ""
	}
	var files []string
	for _, line := range d.Drift {
		if line.Ref == ref.String() && line.File != "" {
			files = append(files, line.Kind+" "+line.File)
		}
	}
	if len(files) == 0 {
		return ""
	}
	if n := len(files) - fault.MaxLines; n > 0 {
		files = append(files[:fault.MaxLines], fmt.Sprintf("and %d more", n))
	}
	return ": " + strings.Join(files, ", ")
}

func (l *locking) problem(p *closure.Problem, severity string) checkProblem {
	line := checkProblem{Severity: severity, Line: p.At.Line, Column: p.At.Column, Field: p.Field}
	line.Code, line.Message = wordsFor(p.Err)
	if gone, ok := errors.AsType[*ai.NotFoundError](p.Err); ok && len(gone.Near) > 0 {
		near := "; did you mean " + strings.Join(gone.Near, ", ") + "?"
		line.Message = strings.TrimSuffix(line.Message, near) + near // an error around it says so itself
	}
	if p.Ref != (model.Ref{}) {
		line.Ref = p.Ref.String()
	}
	if p.Space == nil {
		line.File = markerFile
		root := line.Ref
		if nothing, ok := errors.AsType[*closure.NothingError](p.Err); ok {
			root = nothing.Root
		}
		roots := l.yaml.Roots
		if severity == severityError && l.stands != nil {
			roots = l.stands.Roots // an edit that ends so isn't written
		}
		if i := slices.IndexFunc(roots, func(r ryeyaml.Root) bool { return r.Text == root }); i >= 0 {
			line.Line, line.Column = roots[i].Line, roots[i].Column
		}
	} else {
		line.Space, line.File = p.Space.Label, p.Path
		if p.Space.Label == lockfile.FromProject {
			line.File = path.Join(markerDir, p.Path)
		}
	}
	return line
}

// kept is what the store is to keep for a lock, all of which it has.
func (l *locking) kept(ctx context.Context, made *lock.Made) ([]lock.Object, error) {
	set, err := lock.NewSet(ctx, made.Lock, cas.Sum(made.Bytes), lock.SetOptions{Objects: l.store(), Std: librarySpace()})
	if l.vendor != nil && isMissing(err) {
		// Of a bundle whose source isn't there the pinned items were vendored, and that did for the new lock too.
		if err := l.takeVendored(ctx, l.vendor, new(fetchAnswer)); err != nil {
			return nil, err
		}
		set, err = lock.NewSet(ctx, made.Lock, cas.Sum(made.Bytes), lock.SetOptions{Objects: l.store(), Std: librarySpace()})
	}
	if err != nil {
		return nil, err
	}
	return set.Objects(ctx)
}
