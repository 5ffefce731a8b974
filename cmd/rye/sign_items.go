package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// A signing is an item on its way to its signature.
type signing struct {
	*checkedItem
	before fs.FileInfo // nil: it is no item, or something is wrong with it
	line   signLine
	no     *fault.Error // why policy doesn't let it be used all the same
	staged staged
}

// An itemSigner signs many items at once. It holds what they have in common.
type itemSigner struct {
	run   *signRun
	v     *items
	check *itemChecker
	key   signer
	write *rewriting
	all   []signing
	most  int64                       // bytes of files that stay in memory
	kept  atomic.Int64                // those that did
	v1    atomic.Int64                // items that are signed in the first format, and are not to be upgraded
	deny  atomic.Pointer[fault.Error] // why such a one can't be upgraded
}

// maxKept is how many bytes of files stay in memory between their check and their signature. What is beyond is read
// again, and held against what was checked.
const maxKept = 64 << 20

// signItems signs items of spaces: all that are meant, or, where anything is wrong with one of them, none.
func (c *signRun) signItems(ctx context.Context, a *app) (answer, error) {
	return c.signWithin(ctx, a, maxKept)
}

// signWithin is signItems with so many bytes of files in memory.
func (c *signRun) signWithin(ctx context.Context, a *app, most int64) (answer, error) {
	v, err := a.items(ctx)
	if err != nil {
		return nil, err
	}
	defer v.close()
	sel, err := c.selected(ctx, v)
	if err != nil {
		return nil, err
	}
	if len(sel.files)+len(sel.problems) == 0 {
		a.term.note("there is no item to sign")
		return &signAnswer{Files: []signLine{}, Problems: []checkProblem{}, DryRun: c.DryRun}, nil
	}
	s := &itemSigner{run: c, v: v, check: newItemChecker(v), most: most, write: newRewriting(len(sel.files), a.now()), all: make([]signing, len(sel.files))}
	defer s.write.close()
	defer s.check.count(a)
	if err := s.check.checkAll(ctx, sel, func(i int, it *checkedItem) { s.all[i] = s.take(it) }); err != nil {
		return nil, err
	}
	if ans, err := s.refused(); err != nil {
		return ans, err
	}
	if s.key, err = a.signingKey(ctx, c.Key); err != nil {
		return nil, err
	}
	for _, f := range sel.files {
		if err := s.write.open(f.Space); err != nil {
			return nil, err
		}
	}
	return s.finish(ctx)
}

// selected returns what is to be signed. Items that are on no disk of this user can't be.
func (c *signRun) selected(ctx context.Context, v *items) (*selection, error) {
	only := v.own()
	if c.All && only == nil {
		if v.root.root == "" {
			if _, err := v.app.project(); err != nil {
				return nil, err
			}
		}
		return &selection{}, nil
	}
	sel, err := v.selected(ctx, only, c.Items...)
	if err != nil {
		return nil, c.namesFile(err)
	}
	for _, f := range sel.files {
		if f.Space.Level == ai.System {
			ref := f.Ref.String()
			return nil, &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is in the space %q, which nobody signs here", ref, f.Space.Label),
				Why:     []string{"the library is vouched for by the binary, and a bundle by its manifest"},
				Hint:    []string{"rye show " + fault.Quote(ref), "rye verify " + fault.Quote(ref)},
				Details: map[string]any{"reason": "immutable", "ref": ref, "space": f.Space.Label}}
		}
	}
	if len(sel.files)+len(sel.problems) == 0 && !c.All {
		return nil, &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("%q covers no item that is to be signed here", strings.Join(c.Items, " ")),
			Why: []string{"globs mean items of the project, or of the user space outside of projects"}, Hint: []string{"rye ls"}}
	}
	return sel, nil
}

// namesFile adds to the refusal of a file outside of all spaces how it is signed.
func (c *signRun) namesFile(err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if ok && len(c.Items) == 1 && f.Details["path"] != nil {
		f.Hint = []string{"rye sign " + fault.Quote(c.Items[0]) + " --as NAME"}
	}
	return err
}

// itemAt returns the ref of the item that a file is anyway, as it lies in a space; "" if it is none.
func (a *app) itemAt(ctx context.Context, s subject) (string, error) {
	if s.IsDocument() {
		return "", nil
	}
	v, err := a.items(ctx)
	if err != nil {
		return "", err
	}
	defer v.close()
	arg := itemArg{text: s.file}
	if ok, err := v.pathArg(&arg); !ok || err != nil || arg.space == nil {
		return "", nil
	}
	f, err := v.At(arg.space, arg.path)
	if err != nil {
		return "", nil
	}
	ref := f.Ref.String()
	if _, err := v.Load(ctx, f); errors.Is(err, ai.ErrAsset) && ref != s.Name {
		return "", nil
	}
	return ref, nil
}

// take keeps what signing an item needs, and lets go of the rest.
func (s *itemSigner) take(c *checkedItem) signing {
	c.Model = nil
	if s.kept.Add(int64(len(c.Bytes))) > s.most {
		c.Bytes = nil
	}
	if c.Signed.Format == sign.V1 && s.run.Format == sign.V2.String() && !s.run.Upgrade {
		s.v1.Add(1)
		s.problem(c, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("is signed in the first format (v1): rye sign --upgrade %s", fault.Quote(c.Ref.String()))})
		c.bad = true
	}
	if s.run.Format == sign.V1.String() && c.tree != nil {
		s.problem(c, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("a signature of the first format (v1) vouches for none of the %s beside it",
			fault.Count(int64(len(c.tree.Files)), "file"))})
		c.bad = true
	}
	if is, ok := s.run.shown[c.Ref.String()]; ok && is != (content{c.Stripped, c.subject.Tree}) {
		s.problem(c, &fault.Error{Code: fault.Conflict, Text: "was changed after it was shown"})
		c.bad = true
	}
	before, err := fs.Lstat(c.Space.FS, c.Path)
	st := c.File.Stat
	if errors.Is(err, fs.ErrNotExist) {
		err = &fault.Error{Code: fault.Conflict, Text: ai.ErrGone.Error()}
	} else if err == nil && st != (ai.Stat{}) && (before.Size() != st.Size || before.ModTime().UnixNano() != st.Mtime) {
		err = &fault.Error{Code: fault.Conflict, Text: "was changed while it was read"}
	}
	if err != nil {
		s.problem(c, err)
		c.bad = true
	}
	if c.bad {
		return signing{checkedItem: c}
	}
	return signing{checkedItem: c, before: before}
}

func (s *itemSigner) problem(c *checkedItem, err error) {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Details["reason"] == policy.FormatNotAccepted.String() {
		s.deny.CompareAndSwap(nil, f)
	}
	s.check.add(s.check.line(c.File, value.Pos{}, err))
}

// refused is the answer if anything is wrong with an item: every problem of all of them.
func (s *itemSigner) refused() (*signAnswer, error) {
	found := s.check.answer()
	if found.Errors == 0 {
		return nil, nil
	}
	ans := &signAnswer{Files: []signLine{}, Problems: found.Problems, DryRun: s.run.DryRun}
	f := found.fault("nothing was signed")
	if f.Code = fault.Validation; found.Errors == 1 {
		f.Code = oneCode(found.Problems)
	}
	if deny := s.deny.Load(); deny != nil {
		f.Why, f.Hint = append(f.Why, deny.Why...), append(deny.Hint, f.Hint...)
	} else if s.v1.Load() > 0 {
		f.Hint = append([]string{"rye sign --upgrade " + joinArgs(s.run.meant())}, f.Hint...)
	}
	return ans, f
}

// meant is what is to be signed, as it is typed.
func (c *signRun) meant() []string {
	if c.All {
		return []string{"--all"}
	}
	return c.Items
}

// oneCode is the code of the one error among problems.
func oneCode(problems []checkProblem) fault.Code {
	for _, p := range problems {
		if p.Severity == severityError {
			return p.Code
		}
	}
	return fault.Validation
}

// finish signs what was taken and puts it in its place.
func (s *itemSigner) finish(ctx context.Context) (answer, error) {
	err := inParallel(ctx, len(s.all), func(i int) {
		if s.all[i].before == nil {
			return
		}
		if err := s.one(ctx, &s.all[i]); err != nil && ctx.Err() == nil {
			s.problem(s.all[i].checkedItem, err)
		}
	})
	files := make([]staged, len(s.all))
	for i := range s.all {
		files[i] = s.all[i].staged
	}
	if err != nil {
		s.write.drop(files)
		return nil, err
	}
	if ans, err := s.refused(); err != nil {
		s.write.drop(files)
		return ans, err
	}
	done, err := s.write.replace(ctx, files)
	ans := &signAnswer{Files: []signLine{}, Problems: s.check.answer().Problems, DryRun: s.run.DryRun}
	for _, w := range s.all[:done] {
		if w.before != nil {
			ans.add(w.line)
		}
	}
	if err != nil {
		f := classify(err)
		f.Why = append(f.Why, fmt.Sprintf("%s signed before it; the same command goes on with the rest", fault.Count(int64(ans.Signed), "item")))
		f.Hint = append(f.Hint, "rye "+joinArgs(s.v.app.args))
		return ans, f
	}
	s.warn(ans)
	return ans, nil
}

// one signs one item and writes it beside the old one.
func (s *itemSigner) one(ctx context.Context, w *signing) error {
	raw := w.Bytes
	if raw == nil {
		again, err := s.v.Load(ctx, w.File)
		if err != nil {
			return err
		}
		if again.Raw != w.Raw {
			return &fault.Error{Code: fault.Conflict, Text: "was changed after it was checked"}
		}
		raw = again.Bytes
	}
	a, t := s.v.app, s.v.trust
	sub := subject{Subject: w.subject, file: s.v.place(w.Space, w.Path), item: true}
	out, _, err := s.run.signed(a, sub, bytes.NewReader(raw), s.key, t)
	if err != nil {
		return err
	}
	if w.line, w.no, err = s.run.line(a, sub, out, raw, s.key, t); err != nil {
		return err
	}
	if w.tree != nil {
		w.line.Beside = len(w.tree.Files)
	}
	w.Bytes = nil
	if w.line.Changed && !s.run.DryRun {
		w.staged, err = s.write.stage(w.Space, w.Path, w.before, out)
	}
	return err
}

// warn says which items the policy doesn't let be used although they are signed now.
func (s *itemSigner) warn(ans *signAnswer) {
	if len(ans.Files) == 1 && ans.Unchanged == 1 {
		s.v.app.term.note("%q is signed by %q already", ans.Files[0].Name, s.key.name)
	}
	const most = 5
	said := 0
	for _, w := range s.all {
		if w.no == nil {
			continue
		}
		if said++; said <= most {
			s.v.app.term.warn("that is not enough: %s", w.no.Text)
		}
	}
	if said > most {
		s.v.app.term.warn("and %d more: rye verify says why", said-most)
	}
}

// inParallel calls f for 0 to n-1, several at once, until the context ends.
func inParallel(ctx context.Context, n int, f func(i int)) error {
	return cas.Parallel(ctx, 0, n, func(_ context.Context, i int) error {
		f(i)
		return nil
	})
}
