package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// A resigning is an item that this key has signed, and that was changed since.
type resigning struct {
	ref  string
	file string
	at   time.Time // when the signature says that it was made
	tree bool      // it is the files beside it that were changed
	diff []string
}

// signItems signs items before the bundle is made: those that are named, or those that this key has signed before.
func (m *making) signItems(ctx context.Context) (answer, error) {
	refs := m.run.Refs
	if len(refs) == 0 {
		all, err := m.changed(ctx)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			m.app.term.note("no item that %q has signed before was changed since", m.key.name)
			return nil, nil
		}
		m.show(all)
		for _, r := range all {
			refs = append(refs, r.ref)
		}
		if !m.run.DryRun {
			question := fmt.Sprintf("sign %s by %q?", counted(int64(len(refs)), "changed item"), m.key.name)
			if err := m.app.confirm(ctx, question); err != nil {
				return nil, err
			}
		}
	}
	ans, err := (&signRun{Items: refs, Format: sign.V2.String(), DryRun: m.run.DryRun, keyFlag: m.run.keyFlag}).signItems(ctx, m.app)
	signed, ok := ans.(*signAnswer)
	if !ok {
		return nil, err
	}
	m.answer.Signed = slices.DeleteFunc(signed.Files, func(l signLine) bool { return !l.Changed })
	m.answer.Problems = append(m.answer.Problems, signed.Problems...)
	for _, l := range m.answer.Signed {
		verb := "signed"
		if m.run.DryRun {
			verb = "would sign"
		}
		m.app.term.note("%s %s as %s", verb, l.File, l.Name)
	}
	if err != nil {
		return m.answer, err
	}
	return nil, nil
}

// changed finds the items of the bundle that this key has signed under their names, and that are not what it signed any
// more. An item that somebody else has signed, or nobody, has to be named.
func (m *making) changed(ctx context.Context) ([]resigning, error) {
	v, err := m.app.items(ctx)
	if err != nil {
		return nil, err
	}
	defer v.close()
	l, err := v.Files(ctx)
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(l.Files, func(f ai.File) bool {
		return f.Space != v.project || !m.recipe.Includes(markerDir+"/"+f.Path)
	})
	old := m.previous(ctx)
	v.admit.KeepTrees()
	var mu sync.Mutex
	var all []resigning
	err = v.each(ctx, files, func(_ int, it *ai.Item, err error) {
		if err != nil || it.Broken != nil {
			return // the creation tells what is wrong
		}
		e, err := v.admit.Admit(ctx, it, policy.ToUse)
		if err == nil && e.Decision.Allowed {
			return
		}
		r, ok := m.resigning(it)
		if !ok {
			return
		}
		r.file = v.place(it.Space, it.Path)
		r.diff = m.diff(ctx, old, it)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r)
	})
	slices.SortFunc(all, func(a, b resigning) int { return strings.Compare(a.ref, b.ref) })
	return all, err
}

// resigning looks for a line with which this key has signed the item's name over other bytes. The line itself must
// hold: that somebody has written our fingerprint down means nothing.
func (m *making) resigning(it *ai.Item) (resigning, bool) {
	public := m.key.Public()
	for _, l := range it.Signed.Lines {
		claim := sign.Claim{Domain: sign.Item, Name: it.Ref.String(), Tree: l.Tree}
		if l.Key == public.Fingerprint() && claim.Holds(l, public) {
			return resigning{ref: it.Ref.String(), at: l.Time, tree: l.Digest == it.Stripped}, true
		}
	}
	return resigning{}, false
}

// previous is the last manifest of the bundle, if the policy admits it: it names the bytes that were signed.
func (m *making) previous(ctx context.Context) *bundle.Bundle {
	old, err := readManifest(m.found.root.root, m.recipe.ID)
	if err != nil {
		return nil
	}
	e, err := m.trust.exam().ExamineDocument(&old.Document, time.Time{}, policy.ToUse)
	if err != nil || !e.Decision.Allowed {
		return nil
	}
	return old
}

// diff says what was changed in an item since the last manifest, if the store still has that.
func (m *making) diff(ctx context.Context, old *bundle.Bundle, it *ai.Item) []string {
	if old == nil {
		return nil
	}
	f, ok := old.File(markerDir + "/" + it.Path)
	if !ok || f.Digest == it.Raw {
		return nil
	}
	o, err := m.store.Get(ctx, cas.ID{Kind: cas.Blob, Digest: f.Digest})
	if err != nil {
		return nil
	}
	defer o.Close()
	before, err := io.ReadAll(io.LimitReader(o, maxSigned))
	if err != nil {
		return nil
	}
	style := it.Kind.Style(it.Path)
	was, err := sign.Strip(before, style)
	if err != nil {
		return nil
	}
	is, err := sign.Strip(it.Bytes, style)
	if err != nil {
		return nil
	}
	return changedLines(was, is)
}

// mostChanged is how many lines of a change are shown.
const mostChanged = 12

// changedLines shows what lies between the lines that two texts begin with and those that they end with.
func changedLines(was, is []byte) []string {
	a, b := bytes.Split(was, []byte("\n")), bytes.Split(is, []byte("\n"))
	from := 0
	for from < len(a) && from < len(b) && bytes.Equal(a[from], b[from]) {
		from++
	}
	to := 0
	for to < len(a)-from && to < len(b)-from && bytes.Equal(a[len(a)-1-to], b[len(b)-1-to]) {
		to++
	}
	gone, come := a[from:len(a)-to], b[from:len(b)-to]
	lines := []string{fmt.Sprintf("line %d: %s become %d", from+1, counted(int64(len(gone)), "line"), len(come))}
	for i, l := range append(slices.Clone(gone), come...) {
		if i == mostChanged {
			lines = append(lines, fmt.Sprintf("and %s more", counted(int64(len(gone)+len(come)-i), "line")))
			break
		}
		mark := "- "
		if i >= len(gone) {
			mark = "+ "
		}
		lines = append(lines, mark+string(l))
	}
	return lines
}

// show lists what is to be signed again, each with what changed.
func (m *making) show(all []resigning) {
	for _, r := range all {
		what := "was changed"
		if r.tree {
			what = "has other files beside it"
		}
		m.app.term.note("%s: %s %s since it was signed at %s", r.file, r.ref, what, r.at.Format(time.RFC3339))
		for _, line := range r.diff {
			m.app.term.note("    %s", line)
		}
		if len(r.diff) == 0 && !r.tree {
			m.app.term.note("    what it was is not in the store")
		}
	}
}
