package locks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/diff"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/bundles"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/sarif"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/closure"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/lock/restore"
	"github.com/rye-build/rye/lock/update"
	"github.com/rye-build/rye/lock/workspace"
)

type diffRun struct {
	From string `arg:"" optional:"" name:"ref|lock" complete:"pinned" help:"Item's ref, or lock file."`
	To   string `arg:"" optional:"" name:"lock" complete:"file" help:"Lock file to compare with; default: the project's."`
	sarif.Flag
}

// lockDiff is the difference between two locks, or between a lock and the working tree.
type lockDiff struct {
	From     string              `json:"from"`
	To       string              `json:"to"`
	Changes  []lockfile.Change   `json:"changes"`
	Drift    []session.DriftLine `json:"drift"`    // files of the working tree that differ from their pins
	Problems []check.Problem     `json:"problems"` // reasons why the working tree can't be locked
	Report   *diff.Report        `json:"report,omitempty"`
	complete bool                // everything was compared
	project  *paths.Lock         // the project's lock
	text     func() []byte       // the bytes of From
}

func (d *lockDiff) Text(t *cli.Terminal) {
	spaces.PrintProblems(t, d.Problems)
	for _, l := range d.Drift {
		only := ""
		if l.Only != "" {
			only = "  only " + strings.ReplaceAll(l.Only, "-", " ")
		}
		t.Printf("%s  %s  %s%s\n", l.Kind, l.File, l.Ref, only)
	}
	printChanges(t, d.Changes)
	if d.Report != nil {
		(&bundles.BundleDiff{Report: d.Report}).WithItems(t)
	}
	if d.complete && len(d.Problems)+len(d.Drift)+len(d.Changes) == 0 &&
		(d.Report == nil || len(d.Report.Items)+len(d.Report.Files) == 0) {
		t.Note("no difference")
	}
}

func (c *diffRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return c.Render(a, "diff", func() (cli.Answer, error) { return c.diff(ctx, a) })
}

func (c *diffRun) diff(ctx context.Context, a *cli.App) (cli.Answer, error) {
	l, err := paths.OpenLock(a, false)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	ans := &lockDiff{From: l.LockPath(), To: "working tree", Changes: []lockfile.Change{},
		Drift: []session.DriftLine{}, Problems: []check.Problem{}, project: l, text: l.Text}
	isFile := c.To != ""
	if _, err := model.ParseRef(c.From); err != nil && c.From != "" {
		at := a.Absolute(cli.Setting{Value: c.From})
		_, err := os.Lstat(at.Value)
		isFile = isFile || at.Err == nil && err == nil || l.NeedLock() != nil
	}
	switch {
	case isFile:
		err = c.locks(ctx, l, ans)
	case l.NeedLock() != nil:
		return nil, l.NeedLock()
	case c.From != "":
		ref, ok := l.Old.Named(c.From)
		if !ok {
			return nil, paths.NotLocked(ctx, l, c.From)
		}
		err = diffItem(ctx, l, ref, ans)
	default:
		err = diffAll(ctx, l, ans)
	}
	ans.complete = err == nil
	return ans, err
}

// locks compares two lock files, or one with the project's lock.
func (c *diffRun) locks(ctx context.Context, l *paths.Lock, ans *lockDiff) error {
	objects, err := l.Objects()
	if err != nil {
		return err
	}
	from, file, err := otherLock(ctx, l, c.From, objects)
	if err != nil {
		return err
	}
	ans.From, ans.To, ans.text = c.From, l.LockPath(), func() []byte { return file }
	var to *lock.Side
	if c.To != "" {
		ans.To = c.To
		to, _, err = otherLock(ctx, l, c.To, objects)
	} else if err = l.NeedLock(); err == nil {
		to, err = lock.NewSide(ctx, l.Old, l.Id(), workspace.SetOptions(objects))
	}
	if err != nil {
		return err
	}
	return ans.compare(ctx, from, to)
}

// otherLock reads a lock file that isn't the project's, and returns its bytes too.
func otherLock(ctx context.Context, l *paths.Lock, name string, objects lock.Source) (*lock.Side, []byte, error) {
	s := l.App.Absolute(cli.Setting{Value: name})
	if s.Err != nil {
		return nil, nil, s.Err
	}
	hint := []string{"rye diff tool:ID", "git show main:rye.lock > old.lock"}
	b, err := osfile.ReadSmall(s.Value, lockfile.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		f := fault.Of(err)
		f.Hint = hint
		return nil, nil, f
	}
	if err != nil {
		return nil, nil, err
	}
	read, err := lockfile.Parse(b)
	if err != nil {
		f := fault.Of(l.LockFault(name, err))
		if f.Code == fault.LockMismatch {
			f.Hint = hint // the usual hint repairs the project's lock, which is fine
		}
		return nil, nil, f
	}
	side, err := lock.NewSide(ctx, read, cas.Sum(b), workspace.SetOptions(objects))
	return side, b, err
}

func (d *lockDiff) compare(ctx context.Context, from, to *lock.Side) error {
	c, err := lock.Compare(ctx, from, to)
	if err != nil {
		return err
	}
	d.Changes, d.Report = append(d.Changes, c.Changes...), c.Report
	return nil
}

// diffAll compares the lock with the one that the working tree would give. If it gives none, it compares file by
// file.
func diffAll(ctx context.Context, l *paths.Lock, ans *lockDiff) error {
	if err := l.Look(ctx); err != nil {
		return err
	}
	objects := l.Here.Objects
	from, err := lock.NewSide(ctx, l.Old, l.Id(), workspace.SetOptions(objects))
	if err != nil {
		return err
	}
	r := restore.Request(ctx, l.Lock)
	r.Update, r.Toolchain = []string{lock.Library}, session.Toolchain(l.Lock, paths.MachineHost(l.App))
	made, err := relock.Make(ctx, r)
	if closed, ok := errors.AsType[*closure.Error](err); ok {
		ans.Problems = append(ans.Problems, Problems(ctx, l, closed)...)
		return drift(ctx, l, ans)
	}
	if errors.Is(err, workspace.ErrElsewhere) {
		ans.Changes = append(ans.Changes, l.RequirementChanges()...)
		return drift(ctx, l, ans)
	}
	if err != nil {
		return err
	}
	to, err := update.Side(ctx, l.Lock, made, objects)
	if err != nil {
		return err
	}
	return ans.compare(ctx, from, to)
}

// drift adds the files of the working tree that differ from their pins.
func drift(ctx context.Context, l *paths.Lock, ans *lockDiff, refs ...model.Ref) error {
	all, err := restore.Drift(ctx, l.Lock, refs...)
	for _, d := range all {
		ans.Drift = append(ans.Drift, session.DriftLineOf(d))
	}
	return err
}

// diffItem compares one item of the working tree with its pin.
func diffItem(ctx context.Context, l *paths.Lock, ref model.Ref, ans *lockDiff) error {
	if err := l.Look(ctx); err != nil {
		return err
	}
	if err := drift(ctx, l, ans, ref); err != nil {
		return err
	}
	side, err := lock.NewSide(ctx, l.Old, l.Id(), workspace.SetOptions(l.Here.Objects))
	if err != nil {
		return err
	}
	set, err := l.Set(ctx)
	if err != nil {
		return err
	}
	working, admit, done, err := l.View(ctx, set.Spaces()[len(set.Spaces())-1:])
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
