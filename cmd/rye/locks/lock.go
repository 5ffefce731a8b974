package locks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/sarif"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/closure"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/legacy"
	ryeyaml "github.com/rye-build/rye/lock/project"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/update"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/sign"
)

type lockRun struct {
	Names     []string `arg:"" optional:"" name:"name" complete:"locked" help:"Bundles for --update (rye/std: the library), items for --sign."`
	Check     bool     `help:"Change nothing; exit with 1 if out of date."`
	Update    bool     `help:"Update the bundles NAME, or all, to the newest allowed version."`
	Resolve   bool     `help:"Choose versions again, also to resolve a git merge conflict."`
	Sign      bool     `help:"Sign the items NAME first; default: those this key signed before."`
	Accept    []string `placeholder:"NAME" complete:"locked" help:"Allow this item or bundle to weaken the lock (repeatable)."`
	AllowUser bool     `name:"allow-user" help:"Use items of the user space, and pin them."`
	User      bool     `help:"Lock the user space, for use outside projects."`
	DryRun    bool     `name:"dry-run" help:"Show what would change; write nothing."`
	trusts.KeyFlag
	sarif.Flag
	question *paths.Question  // --check: the key of its cached answer
	yaml     []byte           // the new rye.yaml, written before the lock; nil if unchanged
	allow    *update.Allow    // rights to write into rye.yaml; nil: none
	pins     bool             // rye add: see adoption
	before   time.Time        // versions in registries that are newer are left out; zero: none
	archives sources.Archives // of all locks that the command opens
}

// LockAnswer is the result of rye lock and of the commands that lock after an edit.
type LockAnswer struct {
	update.Result
	Problems []check.Problem  `json:"problems"`
	Signed   []signs.SignLine `json:"signed"`
	Warnings []string         `json:"warnings"`
	// Advisories that cover locked bundles, as they were read last.
	Advisories []workspace.Cover `json:"advisories,omitempty"`
	// Unsigned plugins that were taken into the project, or would be.
	Plugins []*unsignedPlugin `json:"plugins,omitempty"`
	old     *paths.Lock       // the lock before; nil if it wasn't read
}

func newLockAnswer(c *lockRun) *LockAnswer {
	return &LockAnswer{Result: *update.NewResult(update.Options{DryRun: c.DryRun, Check: c.Check}),
		Problems: []check.Problem{}, Signed: []signs.SignLine{}, Warnings: []string{}}
}

func (c *LockAnswer) Text(term *cli.Terminal) {
	spaces.PrintProblems(term, c.Problems)
	if c.ID == "" || slices.ContainsFunc(c.Problems, func(p check.Problem) bool { return p.Severity == check.Error }) {
		return
	}
	printChanges(term, c.Changes)
	printRights(term, c.Rights, c.DryRun)
	verb := "unchanged"
	switch {
	case c.Checked && c.Changed:
		verb = "out of date"
	case c.Checked:
		verb = "current"
	case c.Changed && !c.Written:
		verb = "would lock"
	case c.Changed:
		verb = "locked"
	}
	what := fault.Count(int64(c.Pins), "item")
	switch {
	case c.Bundles > 0 && c.Artifacts > 0:
		what += ", " + fault.Count(int64(c.Bundles), "bundle") + " and " + fault.Count(int64(c.Artifacts),
			"file") + " of packages"
	case c.Bundles > 0:
		what += " and " + fault.Count(int64(c.Bundles), "bundle")
	case c.Artifacts > 0:
		what += " and " + fault.Count(int64(c.Artifacts), "file") + " of packages"
	}
	term.Printf("%s  %s  %s\n", term.Stdout.Paint(cli.RoleGood, verb, term.Ascii), what, c.ID)
}

// mostChanges is how many changes of one kind are printed one by one without --verbose.
const mostChanges = 12

// printChanges prints changes. Of a kind with more than mostChanges it prints the first ones and a count.
func printChanges(term *cli.Terminal, all []lockfile.Change) {
	for i := 0; i < len(all); {
		n := i + 1
		for n < len(all) && all[n].Kind == all[i].Kind {
			n++
		}
		shown := n
		if n-i > mostChanges && !term.Verbose {
			shown = i + mostChanges - 2
		}
		for _, c := range all[i:shown] {
			term.Printf("%s\n", update.ChangeText(c))
		}
		if shown < n {
			term.Printf("%s  and %d more; -v shows all\n", strings.ReplaceAll(string(all[i].Kind), "_", " "), n-shown)
		}
		i = n
	}
}

// Relock updates the project's lock and reports whether it changed. A project without a lock stays without one.
func Relock(ctx context.Context, a *cli.App) (bool, error) {
	p, err := paths.Paths(a).OpenProject()
	if err != nil {
		return false, err
	}
	if _, err := os.Lstat(filepath.Join(p.Root, lockfile.Name)); err != nil {
		return false, nil
	}
	ans, err := new(lockRun).Run(ctx, a)
	if err != nil {
		return false, err
	}
	return ans.(*LockAnswer).Changed, nil
}

func (c *lockRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	defer closeArchives(app, &c.archives)
	run := func() (cli.Answer, error) { return c.lock(ctx, app) }
	if c.Check {
		return c.Render(app, "lock --check", run)
	}
	if c.Format != "" && c.Format != "text" {
		return nil, fault.New(fault.Validation, "--format %s needs --check",
			c.Format).Try("rye lock --check --format " + c.Format)
	}
	if c.DryRun {
		return run() // a dry run changes nothing, so it offers no fix that would
	}
	return signs.Meet(ctx, app, "", nil, run)
}

// closeArchives removes what a command has unpacked.
func closeArchives(app *cli.App, archives *sources.Archives) {
	if err := archives.Close(); err != nil {
		app.Term.Detail("removing unpacked archives: %v", err)
	}
}

func (c *lockRun) lock(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if err := c.checkFlags(app); err != nil {
		return nil, err
	}
	if c.Check {
		if ans, err := c.cachedAnswer(ctx, app); ans != nil || err != nil {
			return ans, err
		}
	}
	ans := newLockAnswer(c)
	if !c.Check && !c.DryRun {
		unlock, err := paths.Alone(ctx, app, c.User)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	open := func(conflict bool) (*paths.Lock, error) { return paths.OpenLock(app, conflict) }
	if c.User {
		open = func(conflict bool) (*paths.Lock, error) { return paths.OpenUserLock(app, conflict) }
	}
	lock, err := open(c.Resolve)
	if err != nil && c.Check && fault.CodeOf(err) == fault.LockMismatch {
		return nil, fault.Of(err).Asked() // an unreadable lock is out of date
	} else if err != nil {
		return nil, err
	}
	defer lock.Close()
	lock.AllowUser, lock.Before, lock.Archives, ans.old = c.AllowUser && !c.User, c.before, &c.archives, lock
	if !c.Check {
		err = lock.Open()
	} else if err := lock.NeedLock(); err != nil {
		return nil, fault.Of(err).Asked()
	}
	if err == nil && (c.Check || c.User) {
		err = lock.Look(ctx)
	}
	if err == nil && c.User {
		err = lock.FindInstalled(ctx)
	}
	if err != nil {
		return nil, err
	}
	if c.Check || c.User {
		return c.make(ctx, lock, ans)
	}
	undo, err := c.takePlugins(ctx, lock, ans)
	if err != nil || len(ans.Plugins) == 0 {
		if err != nil {
			return nil, err
		}
		return c.make(ctx, lock, ans)
	}
	if c.DryRun { // without the items no lock can be made
		return ans, nil
	}
	again, err := open(c.Resolve) // the policy may have changed
	if err != nil {
		return nil, errors.Join(err, undo())
	}
	defer again.Close()
	again.AllowUser, again.Before, again.Archives = lock.AllowUser, c.before, &c.archives
	if err = again.Open(); err == nil {
		var made cli.Answer
		if made, err = c.make(ctx, again, ans); err == nil {
			c.notePlugins(again, ans)
			return made, nil
		}
	}
	return ans, errors.Join(err, undo())
}

// notePlugins tells which digests the policy admits and nothing uses any more.
func (c *lockRun) notePlugins(lock *paths.Lock, ans *LockAnswer) {
	for _, p := range ans.Plugins {
		if p.wasLocked != "" {
			noteDigest(lock, p.wasLocked)
		}
	}
}

// checkFlags refuses flags that can't be combined.
func (c *lockRun) checkFlags(a *cli.App) error {
	switch {
	case c.Check && (c.Update || c.Sign || c.Resolve || c.DryRun || len(c.Accept)+len(c.Names) > 0):
		return fault.New(fault.Validation,
			"--check can't be combined with names, --update, --resolve, --sign, --accept or --dry-run").
			Try("rye lock --check")
	case len(c.Names) > 0 && !c.Update && !c.Sign:
		return fault.New(fault.Validation, "%q needs --update or --sign", c.Names[0]).On("argument",
			c.Names[0]).Try(a.With("--update"), a.With("--sign"))
	case c.Update && c.Sign && len(c.Names) > 0:
		return fault.New(fault.Validation, "--update and --sign can't both take names")
	}
	return nil
}

// make makes the lock and writes it, unless the flags or a problem forbid that.
func (c *lockRun) make(ctx context.Context, lock *paths.Lock, ans *LockAnswer) (cli.Answer, error) {
	app := lock.App
	options := update.Options{Check: c.Check, DryRun: c.DryRun, Resolve: c.Resolve, Accept: c.Accept, Yaml: c.yaml,
		Allow: c.allow, Toolchain: session.Toolchain(lock.Lock, paths.MachineHost(app))}
	if c.Update {
		options.Update, options.UpdateAll = c.Names, len(c.Names) == 0
	}
	p := app.Progress("locking", 0)
	defer p.Done()
	lock.Progress = p.Add
	if c.Sign {
		options.Sign = func(ctx context.Context, bundles []lockfile.Bundle) error {
			p.Done()
			return c.signItems(ctx, lock, bundles, ans)
		}
	}
	result, err := update.Make(ctx, lock.Lock, options)
	p.Done()
	if errors.Is(err, errUnsigned) {
		app.Term.Note("sign these first: the rest of the lock depends on them")
		return ans, nil
	}
	if closed, ok := errors.AsType[*closure.Error](err); ok {
		ans.Problems = append(ans.Problems, Problems(ctx, lock, closed)...)
		f := fault.Of(err)
		// The hint "rye lock --sign" would lack the new rye.yaml or the user space, so repeat this command instead.
		if refs, ok := closed.Unsigned(); ok && c.yaml != nil {
			f.Hint = []string{app.With("--sign", strings.Join(refs, ","))}
		} else if ok && c.AllowUser {
			f.Hint = []string{app.With(append([]string{"--sign"}, refs...)...)}
		} else if ok && c.othersSign(lock, refs) {
			f.Hint = slices.DeleteFunc(f.Hint, func(hint string) bool { return strings.Contains(hint, " --sign ") })
			f.Try(fault.Command("rye trust check", refs[0]))
		}
		if c.Check {
			f = f.Asked()
		}
		return ans, f
	}
	if result == nil {
		if len(ans.Problems) > 0 {
			return ans, err
		}
		return nil, err
	}
	ans.Result = *result
	if c.Update && lock.Old != nil && result.Made != nil {
		noteChanged(ctx, lock, result.Made.Lock)
	}
	warn(lock, result, ans)
	if f, ok := err.(*fault.Error); ok && f.Details["reason"] == "weaker" {
		f.Hint[len(f.Hint)-1] = app.With(workspace.Accepting(f.Details["names"].([]string))...)
	}
	if result.Written && err == nil {
		noteTools(lock, result)
	}
	if c.Check && err == nil {
		c.remember(ctx, lock, ans)
	}
	return ans, err
}

// warn prints what the user should know of the new lock.
func warn(lock *paths.Lock, result *update.Result, ans *LockAnswer) {
	for _, err := range result.UnreadV1 {
		line := check.Problem{Severity: check.Error, Code: fault.LockMismatch, Message: err.Error()}
		if e, ok := err.(*legacy.Error); ok {
			line.File, line.Line, line.Column, line.Message = path.Join(workspace.MarkerDir, e.Path), e.Line, e.Column,
				e.Err.Error()
		}
		ans.Problems = append(ans.Problems, line)
	}
	if n := result.V1; n > 0 {
		lock.App.Term.Note("compared with %s of the first format (v1); %d apply", fault.Count(int64(n), "lock"),
			result.TakenOver)
	}
	made := result.Made
	if made == nil {
		return
	}
	var texts []string
	if vendored, err := lock.Vendored(); result.Written && moreToVendor(result) && (vendored != nil || err != nil) {
		texts = append(texts, fmt.Sprintf("%s is what the lock was before: run rye vendor",
			fault.Quote(lock.Show(lock.VendorDir()))))
	}
	for _, err := range made.Unfound {
		texts = append(texts, "not pinned: "+fault.Of(err).Text)
	}
	for _, name := range made.Unasked {
		texts = append(texts, name+
			": its list allows more files than are pinned, but rye is offline: run rye lock --update later")
	}
	for _, v := range lock.Young.Over(made.Lock) {
		texts = append(texts, fmt.Sprintf("left out as too new: %s %s, public since %s", v.Bundle, v.Version,
			v.Since.Format(time.DateOnly)))
	}
	for _, text := range texts {
		ans.Warnings = append(ans.Warnings, text)
		lock.App.Term.Warn("%s", text)
	}
	ans.covered(lock, made.Lock.Bundles)
	own := len(ans.Warnings)
	for _, d := range made.Closure.Drafts {
		p := problem(lock, d, check.Warning)
		ans.Warnings = append(ans.Warnings, "draft, not locked: "+p.At()+": "+p.Message)
	}
	for _, w := range made.Closure.Warnings {
		p := problem(lock, w, check.Warning)
		ans.Warnings = append(ans.Warnings, p.At()+": "+p.Message)
	}
	printWarnings(lock.App, ans.Warnings[own:])
}

// covered warns about advisories that cover the bundles of a lock.
func (c *LockAnswer) covered(lock *paths.Lock, bundles []lockfile.Bundle) {
	c.Advisories = lock.Covers(bundles)
	paths.WarnCovers(lock.App, c.Advisories)
}

// moreToVendor reports whether the new lock names bytes that .ai/vendor of the old one lacks. The library isn't
// vendored.
func moreToVendor(result *update.Result) bool {
	return slices.ContainsFunc(result.Changes, func(change lockfile.Change) bool {
		switch change.Kind {
		case lockfile.BundleAdded, lockfile.BundleUpgraded, lockfile.BundleDowngraded, lockfile.BundleReplaced,
			lockfile.ArtifactAdded, lockfile.ArtifactReplaced:
			return true
		}
		ref, err := model.ParseRef(change.Name)
		if err != nil {
			return false
		}
		pin := result.Made.Lock.Pin(ref)
		return pin != nil && pin.From != lockfile.FromStd
	})
}

// othersSign reports whether a signature by this user's key would count for none of the items.
func (c *lockRun) othersSign(lock *paths.Lock, refs []string) bool {
	own, known := trusts.KnownSigner(lock.App, c.Key)
	if !known || lock.Trust == nil {
		return false
	}
	named, _ := lock.Trust.Root.Side.Policy.Key(own.Fingerprint())
	return !slices.ContainsFunc(refs, func(ref string) bool {
		rule, ok := lock.Trust.Root.Side.Policy.RuleOf(ref)
		return ok && slices.Contains(rule.Keys, named.Name)
	})
}

// signItems signs items before the lock is made. bundles are the bundles of the new lock.
func (c *lockRun) signItems(ctx context.Context, lock *paths.Lock, bundles []lockfile.Bundle, ans *LockAnswer) error {
	if c.User {
		return fault.New(fault.Validation, "--sign signs items of a project").Try("rye sign --all")
	}
	key, err := trusts.SigningKey(ctx, lock.App, c.Key)
	if err != nil {
		return err
	}
	r := &signs.Resigner{App: lock.App, Key: key, Flag: c.KeyFlag, DryRun: c.DryRun,
		Before: func(ctx context.Context, it *ai.Item) []byte { return update.PinnedBytes(ctx, lock.Lock, it.Ref) }}
	r.Open = func(ctx context.Context, a *cli.App) (*spaces.Items, error) {
		w, err := paths.OpenWorkspace(a)
		if err != nil {
			return nil, err
		}
		w.Bundles, w.AllowUser = bundles, lock.AllowUser
		return spaces.ItemsOf(ctx, w)
	}
	signed, problems, err := r.Sign(ctx, c.Names)
	ans.Signed = append(ans.Signed, signed...)
	ans.Problems = append(ans.Problems, problems...)
	if err == nil && c.DryRun && len(signed) > 0 {
		err = errUnsigned
	}
	return err
}

// errUnsigned stops a dry run that would sign items.
var errUnsigned = errors.New("items aren't signed yet")

// Problems returns everything that keeps the project from being locked, as rye check reports it.
func Problems(ctx context.Context, l *paths.Lock, err error) (lines []check.Problem) {
	if closed, ok := errors.AsType[*closure.Error](err); ok {
		for _, p := range closed.Problems {
			line := problem(l, p, check.Error)
			if wrong, ok := errors.AsType[*sign.IntegrityError](p.Err); ok && wrong.What == "tree" {
				line.Message += changedFiles(ctx, l, p.Ref)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// changedFiles lists the files of an item that differ from their pins in the old lock; "" if that is unknown.
func changedFiles(ctx context.Context, l *paths.Lock, ref model.Ref) string {
	var d lockDiff
	if l.Old == nil || l.Old.Pin(ref) == nil || drift(ctx, l, &d, ref) != nil {
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

// problem places a problem of the closure: in the item's file, or at a root in rye.yaml if it has no space.
func problem(lock *paths.Lock, problem *closure.Problem, severity string) check.Problem {
	line := check.Problem{Severity: severity, Line: problem.At.Line, Column: problem.At.Column, Field: problem.Field}
	line.Code, line.Message = check.Words(problem.Err)
	if gone, ok := errors.AsType[*ai.NotFoundError](problem.Err); ok && len(gone.Near) > 0 {
		near := "; did you mean " + strings.Join(gone.Near, ", ") + "?"
		line.Message = strings.TrimSuffix(line.Message, near) + near // the message may end with it already
	}
	if problem.Ref != (model.Ref{}) {
		line.Ref = problem.Ref.String()
	}
	if problem.Space == nil {
		line.File = workspace.MarkerFile
		root := line.Ref
		if nothing, ok := errors.AsType[*closure.NothingError](problem.Err); ok {
			root = nothing.Root
		}
		roots := lock.Yaml.Roots
		if severity == check.Error && lock.Stands != nil {
			roots = lock.Stands.Roots // the edit won't be written, so use the lines of the file on disk
		}
		if i := slices.IndexFunc(roots, func(r ryeyaml.Root) bool { return r.Text == root }); i >= 0 {
			line.Line, line.Column = roots[i].Line, roots[i].Column
		}
	} else {
		line.Space, line.File = problem.Space.Label, problem.Path
		if problem.Space.Label == lockfile.FromProject {
			line.File = path.Join(workspace.MarkerDir, problem.Path)
		}
	}
	return line
}
