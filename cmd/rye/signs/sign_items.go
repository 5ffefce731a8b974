package signs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/signing"
)

// A pending item is an item that is about to be signed.
type pending struct {
	*check.Checked
	before fs.FileInfo // nil: not an item, or it has a problem
	line   *signing.Signed
	staged *osfile.Staged
}

// An itemSigner signs many items in parallel and holds their common state.
type itemSigner struct {
	run    *SignRun
	v      *spaces.Items
	check  *check.Checker
	key    trusts.Signer
	signer *signing.Signer
	dirs   map[*ai.Space]*osfile.Dir
	write  *osfile.Batch
	all    []pending
	most   int64                       // the limit of cached
	cached atomic.Int64                // bytes of files in memory
	v1     atomic.Int64                // items signed in the first format that aren't upgraded
	deny   atomic.Pointer[fault.Error] // why such an item can't be upgraded, or why a signature doesn't count
}

// maxKept is how many bytes of files stay in memory between their check and their signature. Other files are read
// again and compared with the checked ones.
const maxKept = 32 << 20

// signItems signs all selected items, or none if one of them has a problem.
func (c *SignRun) signItems(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return c.SignWithin(ctx, a, maxKept)
}

// SignWithin is signItems with a limit on the bytes of files in memory.
func (c *SignRun) SignWithin(ctx context.Context, app *cli.App, most int64) (cli.Answer, error) {
	question, err := c.question(ctx, app)
	if err != nil {
		return nil, err
	}
	if ans := c.again(ctx, app, question); ans != nil {
		return ans, nil
	}
	v, err := c.open.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	v.ForgetLock()
	ans, err := c.signAll(ctx, app, v, most)
	if ans == nil {
		return nil, err // a nil pointer would not be a nil answer
	}
	if err == nil && !v.LeftOut() {
		c.remember(ctx, question, ans)
	}
	return ans, err
}

// signAll signs the selected items.
func (c *SignRun) signAll(ctx context.Context, app *cli.App, items *spaces.Items, most int64) (*SignAnswer, error) {
	sel, err := c.selected(ctx, items)
	if err != nil {
		return nil, err
	}
	if len(sel.Files)+len(sel.Problems) == 0 {
		app.Term.Note("no items to sign")
		return &SignAnswer{Files: []SignLine{}, Problems: []check.Problem{}, DryRun: c.DryRun}, nil
	}
	itemSigner := &itemSigner{run: c, v: items, check: items.Checker(), most: most, dirs: map[*ai.Space]*osfile.Dir{},
		write: osfile.NewBatch(len(sel.Files), app.Now()), all: make([]pending, len(sel.Files))}
	defer items.CountChecked(itemSigner.check)
	items.Admit.KeepTrees() // all files are read before the first is written
	itemSigner.check.Listed(sel.Problems)
	if err := itemSigner.check.All(ctx, sel.Files, func(i int,
		it *check.Checked) {
		itemSigner.all[i] = itemSigner.take(it)
	}); err != nil {
		return nil, err
	}
	if ans, err := itemSigner.refused(); err != nil {
		return ans, err
	}
	if itemSigner.key, err = trusts.SigningKey(ctx, app, c.Key); err != nil {
		return nil, err
	}
	itemSigner.signer = c.signer(app, itemSigner.key, items.Trust)
	for _, f := range sel.Files {
		if itemSigner.dirs[f.Space] != nil {
			continue
		}
		d, err := osfile.OpenDir(f.Space.Dir, 0o777)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		itemSigner.dirs[f.Space] = d
	}
	return itemSigner.finish(ctx)
}

// selected returns the items to sign. Items that are on no disk of this user are refused.
func (c *SignRun) selected(ctx context.Context, v *spaces.Items) (*items.Selection, error) {
	only := v.Own()
	if c.All && only == nil {
		if v.Root.Root == "" {
			if _, err := paths.Paths(v.App).OpenProject(); err != nil {
				return nil, err
			}
		}
		return &items.Selection{}, nil
	}
	sel, err := v.Selected(ctx, only, c.Items...)
	if err != nil {
		return nil, c.namesFile(err)
	}
	for _, f := range sel.Files {
		if f.Space.Level == ai.System {
			ref := f.Ref.String()
			return nil, fault.New(fault.Denied, "%q is in the space %q, whose items are not signed here", ref,
				f.Space.Label).Because("the library is vouched for by the binary, and a bundle by its manifest").
				Try("rye show "+fault.Quote(ref), "rye verify "+fault.Quote(ref)).On("reason", "immutable").
				On("ref", ref).On("space", f.Space.Label)
		}
	}
	if len(sel.Files)+len(sel.Problems) == 0 && !c.All {
		return nil, fault.New(fault.NotFound, "%q matches no item to sign here", strings.Join(c.Items, " ")).
			Because("globs mean items of the project, or of the user space outside of projects").Try("rye ls")
	}
	return sel, nil
}

// namesFile adds to the error for a file outside of all spaces how to sign it.
func (c *SignRun) namesFile(err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if ok && len(c.Items) == 1 && f.Details["path"] != nil {
		f.Hint = []string{asName("rye sign", c.Items[0])}
	}
	return err
}

// itemAt returns the ref of the item at a file's place in a space, or "". marked reports whether the file has the
// marker of its kind: a helper with a name like an item has none.
func itemAt(ctx context.Context, a *cli.App, subject signing.Subject) (ref string, marked bool, err error) {
	if subject.IsDocument() {
		return "", false, nil
	}
	view, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return "", false, err
	}
	defer view.Close()
	arg := items.Arg{Text: subject.File}
	if ok, err := view.PathArg(&arg); !ok || err != nil || arg.Space == nil {
		return "", false, nil
	}
	f, err := view.At(arg.Space, arg.Path)
	if err != nil {
		return "", false, nil
	}
	ref = f.Ref.String()
	_, err = view.Load(ctx, f)
	if marked = !errors.Is(err, ai.ErrAsset); !marked && ref != subject.Name {
		return "", false, nil
	}
	return ref, marked, nil
}

// take keeps the parts of a checked item that signing needs.
func (s *itemSigner) take(checked *check.Checked) pending {
	checked.Model = nil
	if s.cached.Add(int64(len(checked.Bytes))) > s.most {
		checked.Bytes = nil
	}
	if checked.Signed.Format == sign.V1 && s.run.Format == sign.V2.String() && !s.run.Upgrade {
		s.v1.Add(1)
		s.problem(checked, fault.New(fault.Validation, "is signed in the first format (v1): rye sign --upgrade %s",
			fault.Quote(checked.Ref.String())))
		checked.Bad = true
	}
	if s.run.Format == sign.V1.String() && checked.Tree != nil {
		s.problem(checked, fault.New(fault.Validation, "the first format (v1) doesn't cover the %s beside it",
			fault.Count(int64(len(checked.Tree.Files)), "file")))
		checked.Bad = true
	}
	if is, ok := s.run.shown[checked.Ref.String()]; ok && is != (content{checked.Stripped, checked.Subject.Tree}) {
		s.problem(checked, fault.New(fault.Conflict, "was changed after it was shown"))
		checked.Bad = true
	}
	before, err := fs.Lstat(checked.Space.FS, checked.Path)
	st := checked.File.Stat
	if errors.Is(err, fs.ErrNotExist) {
		err = fault.New(fault.Conflict, "%s", ai.ErrGone)
	} else if err == nil && st != (statcache.Stamp{}) &&
		(before.Size() != st.Size || before.ModTime().UnixNano() != st.Mtime) {
		err = fault.New(fault.Conflict, "was changed while it was read")
	}
	if err != nil {
		s.problem(checked, err)
		checked.Bad = true
	}
	if checked.Bad {
		return pending{Checked: checked}
	}
	return pending{Checked: checked, before: before}
}

func (s *itemSigner) problem(c *check.Checked, err error) {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Details["reason"] == policy.FormatNotAccepted.String() {
		s.deny.CompareAndSwap(nil, f)
	}
	s.check.Add(s.check.About(c.File, value.Pos{}, err))
}

// refused returns the answer if any item has a problem: every problem of all of them.
func (s *itemSigner) refused() (*SignAnswer, error) {
	found := s.check.Report()
	if found.Errors == 0 {
		return nil, nil
	}
	ans := &SignAnswer{Files: []SignLine{}, Problems: found.Problems, DryRun: s.run.DryRun}
	f := found.Fault("nothing was signed")
	f.Code = oneCode(found.Problems)
	if deny := s.deny.Load(); deny != nil {
		f.Why, f.Hint = append(f.Why, deny.Why...), append(deny.Hint, f.Hint...)
	} else if s.v1.Load() > 0 {
		f.Hint = append([]string{"rye sign --upgrade " + cli.JoinArgs(s.run.itemArgs())}, f.Hint...)
	}
	return ans, f
}

// itemArgs returns the arguments that select the same items again.
func (c *SignRun) itemArgs() []string {
	if c.All {
		return []string{"--all"}
	}
	return c.Items
}

// oneCode returns the code if there is a single error, or if all errors are about unreadable or unwritable files.
func oneCode(problems []check.Problem) fault.Code {
	var codes []fault.Code
	for _, p := range problems {
		if p.Severity == check.Error {
			codes = append(codes, p.Code)
		}
	}
	if len(codes) == 1 || len(codes) > 1 && !slices.ContainsFunc(codes, func(c fault.Code) bool {
		return c != fault.Files
	}) {
		return codes[0]
	}
	return fault.Validation
}

// finish signs the pending items and replaces their files.
func (s *itemSigner) finish(ctx context.Context) (*SignAnswer, error) {
	runs := s.runs()
	release := s.v.Hold() // files that aren't in memory are read again
	err := cas.Parallel(ctx, 0, len(runs), func(ctx context.Context, i int) error {
		return s.some(ctx, runs[i])
	})
	release()
	files := make([]*osfile.Staged, len(s.all))
	for i := range s.all {
		files[i] = s.all[i].staged
	}
	if err != nil {
		s.write.Drop(files)
		return nil, fault.Of(err).Because("nothing was signed")
	}
	if ans, err := s.refused(); err != nil {
		s.write.Drop(files)
		return ans, err
	}
	err = s.write.Commit(ctx, files)
	ans := &SignAnswer{Files: []SignLine{}, Problems: s.check.Report().Problems, DryRun: s.run.DryRun}
	for i := range s.all {
		if w := &s.all[i]; w.before != nil && (w.staged == nil || w.staged.Placed()) {
			ans.add(w.line)
		}
	}
	if err != nil {
		f := fault.Of(err)
		f.Why = append(f.Why, fmt.Sprintf("%s signed before it: run the same command again for the rest",
			fault.Count(int64(ans.Signed), "item")))
		f.Hint = append(f.Hint, "rye "+cli.JoinArgs(s.v.App.Args))
		return ans, f
	}
	s.warn(ans)
	return ans, nil
}

// runs groups the items that can be signed by directory.
func (s *itemSigner) runs() (all [][]*pending) {
	const most = 64 // a directory of many files is worth several goroutines
	for i := range s.all {
		w := &s.all[i]
		if w.before == nil {
			continue
		}
		if n := len(all) - 1; n >= 0 && len(all[n]) < most && all[n][0].Space == w.Space &&
			path.Dir(all[n][0].Path) == path.Dir(w.Path) {
			all[n] = append(all[n], w)
		} else {
			all = append(all, []*pending{w})
		}
	}
	return all
}

// some signs items of one directory, which it opens once. It fails only for an error that would stop all others too.
func (s *itemSigner) some(ctx context.Context, run []*pending) error {
	var folder *osfile.Folder
	defer func() {
		if folder != nil {
			folder.Close()
		}
	}()
	open := func() (_ *osfile.Folder, err error) {
		if folder == nil {
			folder, err = s.write.Folder(s.dirs[run[0].Space], path.Dir(run[0].Path), false)
		}
		return folder, err
	}
	for _, w := range run {
		if ctx.Err() != nil {
			return nil
		}
		switch err := s.one(ctx, w, open); {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
			return err
		default:
			s.problem(w.Checked, err)
		}
	}
	return nil
}

// one signs one item and stages the result next to the old file.
func (s *itemSigner) one(ctx context.Context, pending *pending, folder func() (*osfile.Folder, error)) error {
	raw := pending.Bytes
	if raw == nil {
		again, err := pending.Space.Read(pending.Path)
		if err != nil {
			return &ai.ItemError{Ref: pending.Ref, Space: pending.Space, Path: pending.Path, Err: err}
		}
		if cas.Sum(again) != pending.Raw {
			return fault.New(fault.Conflict, "was changed after it was checked")
		}
		raw = again
	}
	sub := signing.Subject{Subject: pending.Subject, File: s.v.Name(pending.Space, pending.Path), Item: true}
	sub.Known = &admission.Known{Signed: pending.Signed, Err: pending.Broken}
	var err error
	if pending.line, err = s.signer.Sign(sub, raw); err != nil {
		return err
	}
	if no := pending.line.Refusal; no != nil && s.run.counts && no.Code != fault.BelowThreshold {
		// The new signature may replace one that counts. Below the threshold it is one of those that are needed.
		no.Hint = append([]string{fault.Command("rye trust add", s.key.Name, "--names", pending.Ref.String())},
			no.Hint...)
		s.deny.CompareAndSwap(nil, no)
		return no
	}
	if pending.Tree != nil {
		pending.line.Beside = len(pending.Tree.Files)
	}
	signed := pending.line.Bytes
	pending.Bytes, pending.line.Bytes = nil, nil
	if !pending.line.Changed || s.run.DryRun {
		return nil
	}
	f, err := folder()
	if err != nil {
		return err
	}
	pending.staged, err = f.Stage(path.Base(pending.Path), pending.before, pending.before.Mode().Perm(),
		osfile.BytesOf(signed))
	return err
}

// warn lists the items that the policy doesn't admit although they are signed now.
func (s *itemSigner) warn(ans *SignAnswer) {
	if len(ans.Files) == 1 && ans.Unchanged == 1 {
		s.v.App.Term.Note("%q is signed by %q already", ans.Files[0].Name, s.key.Name)
	}
	const most = 5
	refused := 0
	for _, w := range s.all {
		if w.line == nil || w.line.Refusal == nil {
			continue
		}
		if refused++; refused <= most {
			s.v.App.Term.Warn("that is not enough: %s", w.line.Refusal.Text)
		}
	}
	if refused > most {
		s.v.App.Term.Warn("and %d more: run rye verify", refused-most)
	}
}

// Signed returns the bytes of an item with k's signature.
func Signed(ctx context.Context, v *spaces.Items, it *ai.Item, k trusts.Signer) ([]byte, error) {
	s, err := v.Subject(ctx, it)
	if err != nil {
		return nil, err
	}
	var known sign.Keys
	if v.Trust != nil {
		known = v.Trust.Exam().Find
	}
	return sign.Sign(it.Bytes, s.Signing(), s.Claim(), k.Private, v.App.Clock().UTC().Truncate(time.Second), known)
}
