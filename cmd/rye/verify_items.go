package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/cas/fault"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// verifyReport is the evidence about all that was asked for.
type verifyReport struct {
	Files   []*verifyAnswer `json:"files"`
	Allowed int             `json:"allowed"`
	Refused int             `json:"refused"`
}

// newVerifyReport makes the report, and the refusal if anything is refused. Of one file that is its own.
func newVerifyReport(files []*verifyAnswer, one *fault.Error) (answer, error) {
	r := &verifyReport{Files: files}
	for _, v := range files {
		if v.Allowed {
			r.Allowed++
		} else {
			r.Refused++
		}
	}
	switch {
	case r.Refused == 0:
		return r, nil
	case one != nil:
		return r, one.Asked()
	}
	return r, r.fault().Asked()
}

// text is the evidence of one file, and of many a line for each.
func (r *verifyReport) text(t *terminal) {
	if len(r.Files) == 1 {
		r.Files[0].text(t)
		return
	}
	name, space := 0, 0
	for _, v := range r.Files {
		name, space = max(name, len(v.Name)), max(space, len(v.Space))
	}
	for _, v := range r.Files {
		word := t.stdout.paint(roleGood, "verified", t.ascii)
		if !v.Allowed {
			word = t.stdout.paint(roleError, "refused ", t.ascii)
		}
		t.printf("%s  %s  %s  %s\n", word, t.pad(v.Name, name), t.pad(v.Space, space), v.words())
	}
	if r.Refused == 0 {
		t.note("verified %s", fault.Count(int64(len(r.Files)), "item"))
	}
}

// words says in a few words who vouches, or why nobody does.
func (v *verifyAnswer) words() string {
	if !v.Allowed {
		if v.reason != "" {
			return fmt.Sprintf("%s: %s", v.Code, v.reason)
		}
		return fmt.Sprintf("%s (%s): %s", v.Code, v.Reason, v.Message)
	}
	beside := ""
	if v.TreeFiles > 0 {
		beside = ", with " + fault.Count(int64(v.TreeFiles), "file") + " beside it"
	}
	switch v.Trust {
	case "builtin":
		return "by the binary" + beside
	case "digest":
		return "by its digest" + beside
	}
	var names []string
	for _, s := range v.Signers {
		if s.Verdict == policy.Admitted.String() {
			names = append(names, cmp.Or(s.Name, short(s.Key)))
		}
	}
	return fmt.Sprintf("signed by %s, %d of %d under %q%s", strings.Join(names, ", "), v.Count, v.Threshold, v.Rule, beside)
}

// fault says how many are refused. Its code is the gravest of theirs.
func (r *verifyReport) fault() *fault.Error {
	f := &fault.Error{Text: fmt.Sprintf("%d of %s refused", r.Refused, fault.Count(int64(len(r.Files)), "item"))}
	var codes []fault.Code
	unsigned := false
	for _, v := range r.Files {
		if !v.Allowed {
			codes = append(codes, v.Code)
		}
		unsigned = unsigned || v.Code == fault.Unsigned && v.Space != ""
	}
	f.Code = fault.Gravest(codes)
	if unsigned {
		f.Hint = []string{"rye sign ITEM"}
	}
	for _, v := range r.Files {
		for _, hint := range v.hint {
			if !slices.Contains(f.Hint, hint) {
				f.Hint = append(f.Hint, hint)
			}
		}
	}
	return f
}

// verifyItems verifies items of spaces, each anew and by itself.
func (c *verifyRun) verifyItems(ctx context.Context, a *app) (answer, error) {
	t, err := a.trustToAsk()
	if err != nil {
		return nil, err
	}
	v, err := a.items(ctx)
	if err != nil {
		return nil, err
	}
	defer v.close()
	defer v.count(a)
	sel, err := v.selected(ctx, nil, c.Items...)
	if err != nil {
		if f, ok := errors.AsType[*fault.Error](err); ok && len(c.Items) == 1 && f.Details["path"] != nil {
			f.Hint = []string{"rye verify " + fault.Quote(c.Items[0]) + " --as NAME"}
		}
		return nil, err
	}
	files, faults := make([]*verifyAnswer, len(sel.files)), make([]*fault.Error, len(sel.files))
	v.remember()
	v.admit.KeepTrees()
	listed := make([]ai.File, len(sel.files))
	for i := range listed {
		listed[i] = sel.files[i].File
	}
	var warned sync.Map
	err = v.each(ctx, listed, func(i int, it *ai.Item, err error) {
		switch {
		case errors.Is(err, ai.ErrAsset) && !sel.files[i].named:
			return
		case err != nil:
			files[i], faults[i] = v.refusedFile(t, listed[i], err)
		default:
			files[i], faults[i] = v.verifyItem(ctx, t, it)
		}
		for _, w := range files[i].Warnings {
			if _, again := warned.LoadOrStore(w, true); !again {
				a.term.warn("%s", w)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for i, p := range sel.problems {
		if _, twice := errors.AsType[*ai.AmbiguousError](p); twice && i > 0 && sel.problems[i-1].Err == p.Err {
			continue // it names both files
		}
		ans, f := v.refusedFile(t, ai.File{Ref: p.Ref, Space: p.Space, Path: p.Path}, p)
		files, faults = append(files, ans), append(faults, f)
	}
	for _, b := range v.unread {
		if v.mayCover(b.ID, c.Items) {
			ans, f := v.refusedBundle(t, b)
			files, faults = append(files, ans), append(faults, f)
		}
	}
	faults = slices.DeleteFunc(faults, func(f *fault.Error) bool { return f == nil })
	files = slices.DeleteFunc(files, func(v *verifyAnswer) bool { return v == nil })
	if len(files) == 0 {
		return nil, &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("%q covers no item", strings.Join(c.Items, " ")), Hint: []string{"rye ls"}}
	}
	slices.SortStableFunc(files, func(a, b *verifyAnswer) int { return cmp.Compare(a.Name, b.Name) })
	var one *fault.Error
	if len(files) == 1 && len(faults) == 1 {
		one = faults[0]
	}
	return newVerifyReport(files, one)
}

// mayCover reports whether a glob among the arguments may stand for items of a bundle that nobody can see: what is
// pinned of it, and what would be below its id. A ref that was found means no other.
func (v *items) mayCover(id string, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		arg, err := v.arg(text)
		if err != nil || arg.glob == nil {
			return false
		}
		if v.lock.old != nil && slices.ContainsFunc(v.lock.old.Pins, func(p lockfile.Pin) bool {
			return p.From == lockfile.System+id && arg.covers(p.Ref, nil, "")
		}) {
			return true
		}
		_, path, colon := strings.Cut(text, ":")
		if !colon {
			path = text
		}
		fixed, _, _ := strings.Cut(path, "*")
		return strings.HasPrefix(fixed, id+"/") || strings.HasPrefix(id+"/", fixed)
	})
}

// refusedBundle is the evidence about the items of a bundle that nobody can see.
func (v *items) refusedBundle(t *trust, b unreadBundle) (*verifyAnswer, *fault.Error) {
	space := &ai.Space{Label: lockfile.System + b.ID, Level: ai.System}
	ans, f := v.refusedFile(t, ai.File{Space: space}, b.err)
	ans.Name, ans.File, ans.hint = "bundle:"+b.ID+"@"+b.Version, v.lock.lockPath(), f.Hint
	return ans, f
}

// verifyItem verifies an item with its tree.
func (v *items) verifyItem(ctx context.Context, t *trust, it *ai.Item) (*verifyAnswer, *fault.Error) {
	if err := v.shadow(ctx, it); err != nil {
		return v.refusedFile(t, it.File, err)
	}
	s := subject{file: v.place(it.Space, it.Path), item: true}
	var beside *tree.Tree
	var err error
	if s.Subject, beside, err = v.admit.Subject(ctx, it); err != nil {
		return v.refusedFile(t, it.File, err)
	}
	s.Listed = v.lists(it, beside)
	ans, f := verify(v.app, t, s, bytes.NewReader(it.Bytes))
	ans.Space = it.Space.Label
	if f != nil && f.Details["reason"] == "tree" && len(f.Hint) > 0 && v.pins(it) {
		f.Hint[0] = "rye diff " + fault.Quote(it.Ref.String())
	}
	if beside != nil {
		ans.TreeFiles = len(beside.Files)
	}
	return ans, f
}

// pins reports whether the lock has an item of the project, and so can tell what is different.
func (v *items) pins(it *ai.Item) bool {
	return it.Space == v.project && v.lock != nil && v.lock.old != nil && v.lock.old.Pin(it.Ref) != nil
}

// lists reports whether an admitted manifest lists an item that is signed in the first format, and all of its tree. Of
// others nobody needs to know.
func (v *items) lists(it *ai.Item, beside *tree.Tree) bool {
	if v.asked == nil || it.Signed.Format != sign.V1 || !v.asked.Listed(it.Raw) {
		return false
	}
	return beside == nil || !slices.ContainsFunc(beside.Files, func(f tree.File) bool { return !v.asked.Listed(f.Raw) })
}

// refusedFile is the evidence about what can't be looked at as an item.
func (v *items) refusedFile(t *trust, file ai.File, err error) (*verifyAnswer, *fault.Error) {
	f := classify(err)
	place := v.place(file.Space, file.Path)
	ans := &verifyAnswer{Name: place, File: place, Space: file.Space.Label, Trust: "refused", Format: "none", Signers: []signerLine{}, Warnings: []string{},
		Policy: t.root.path, PolicyID: t.root.side.Policy.ID().String(), Origin: t.root.origin}
	if file.Ref.Kind != "" {
		ans.Name = file.Ref.String()
	}
	ans.refuse(f)
	ans.Code, ans.Message = f.Line().Code, f.Text
	return ans, f
}
