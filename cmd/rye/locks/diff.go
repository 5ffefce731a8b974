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

func (d *lockDiff) Text(term *cli.Terminal) {
	spaces.PrintProblems(term, d.Problems)
	for _, l := range d.Drift {
		only := ""
		if l.Only != "" {
			only = "  only " + strings.ReplaceAll(l.Only, "-", " ")
		}
		term.Printf("%s  %s  %s%s\n", l.Kind, l.File, l.Ref, only)
	}
	printChanges(term, d.Changes)
	if d.Report != nil {
		(&bundles.BundleDiff{Report: d.Report}).WithItems(term)
	}
	if d.complete && len(d.Problems)+len(d.Drift)+len(d.Changes) == 0 &&
		(d.Report == nil || len(d.Report.Items)+len(d.Report.Files) == 0) {
		term.Note("no difference")
	}
}

func (c *diffRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return c.Render(a, "diff", func() (cli.Answer, error) { return c.diff(ctx, a) })
}

func (c *diffRun) diff(ctx context.Context, a *cli.App) (cli.Answer, error) {
	lock, err := paths.OpenLock(a, false)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	ans := &lockDiff{From: lock.LockPath(), To: "working tree", Changes: []lockfile.Change{},
		Drift: []session.DriftLine{}, Problems: []check.Problem{}, project: lock, text: lock.Text}
	isFile := c.To != ""
	if _, err := model.ParseRef(c.From); err != nil && c.From != "" {
		at := a.Absolute(cli.Setting{Value: c.From})
		_, err := os.Lstat(at.Value)
		isFile = isFile || at.Err == nil && err == nil || lock.NeedLock() != nil
	}
	switch {
	case isFile:
		err = c.locks(ctx, lock, ans)
	case lock.NeedLock() != nil:
		return nil, lock.NeedLock()
	case c.From != "":
		ref, ok := lock.Old.Named(c.From)
		if !ok {
			return nil, paths.NotLocked(ctx, lock, c.From)
		}
		err = diffItem(ctx, lock, ref, ans)
	default:
		err = diffAll(ctx, lock, ans)
	}
	ans.complete = err == nil
	return ans, err
}

// locks compares two lock files, or one with the project's lock.
func (c *diffRun) locks(ctx context.Context, locked *paths.Lock, ans *lockDiff) error {
	objects, err := locked.Objects()
	if err != nil {
		return err
	}
	from, file, err := otherLock(ctx, locked, c.From, objects)
	if err != nil {
		return err
	}
	ans.From, ans.To, ans.text = c.From, locked.LockPath(), func() []byte { return file }
	var to *lock.Side
	if c.To != "" {
		ans.To = c.To
		to, _, err = otherLock(ctx, locked, c.To, objects)
	} else if err = locked.NeedLock(); err == nil {
		to, err = lock.NewSide(ctx, locked.Old, locked.Id(), workspace.SetOptions(objects))
	}
	if err != nil {
		return err
	}
	return ans.compare(ctx, from, to)
}

// otherLock reads a lock file that isn't the project's, and returns its bytes too.
func otherLock(ctx context.Context, locked *paths.Lock, name string, objects lock.Source) (*lock.Side, []byte, error) {
	s := locked.App.Absolute(cli.Setting{Value: name})
	if s.Err != nil {
		return nil, nil, s.Err
	}
	hint := []string{"git show main:rye.lock > old.lock"}
	data, err := osfile.ReadSmall(s.Value, lockfile.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		f := fault.Of(err)
		f.Hint = hint
		return nil, nil, f
	}
	if err != nil {
		return nil, nil, err
	}
	read, err := lockfile.Parse(data)
	if err != nil {
		f := fault.Of(locked.LockFault(name, err))
		if f.Code == fault.LockMismatch {
			f.Hint = hint // the usual hint repairs the project's lock, which is fine
		}
		return nil, nil, f
	}
	side, err := lock.NewSide(ctx, read, cas.Sum(data), workspace.SetOptions(objects))
	return side, data, err
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
func diffAll(ctx context.Context, locked *paths.Lock, ans *lockDiff) error {
	if err := locked.Look(ctx); err != nil {
		return err
	}
	objects := locked.Here.Objects
	from, err := lock.NewSide(ctx, locked.Old, locked.Id(), workspace.SetOptions(objects))
	if err != nil {
		return err
	}
	r := restore.Request(ctx, locked.Lock)
	r.Update, r.Toolchain = []string{lock.Library}, session.Toolchain(locked.Lock, paths.MachineHost(locked.App))
	made, err := relock.Make(ctx, r)
	if closed, ok := errors.AsType[*closure.Error](err); ok {
		ans.Problems = append(ans.Problems, Problems(ctx, locked, closed)...)
		return drift(ctx, locked, ans)
	}
	if errors.Is(err, workspace.ErrElsewhere) {
		ans.Changes = append(ans.Changes, locked.RequirementChanges()...)
		return drift(ctx, locked, ans)
	}
	if err != nil {
		return err
	}
	to, err := update.Side(ctx, locked.Lock, made, objects)
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
func diffItem(ctx context.Context, locked *paths.Lock, ref model.Ref, ans *lockDiff) error {
	if err := locked.Look(ctx); err != nil {
		return err
	}
	if err := drift(ctx, locked, ans, ref); err != nil {
		return err
	}
	side, err := lock.NewSide(ctx, locked.Old, locked.Id(), workspace.SetOptions(locked.Here.Objects))
	if err != nil {
		return err
	}
	set, err := locked.Set(ctx)
	if err != nil {
		return err
	}
	working, admit, done, err := locked.View(ctx, set.Spaces()[len(set.Spaces())-1:])
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
