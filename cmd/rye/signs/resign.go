package signs

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// A Resigner signs items before a build or export: the named ones, or those of the project that its key has signed
// before and that were changed since. It shows each change and asks the user.
type Resigner struct {
	App    *cli.App
	Key    trusts.Signer
	Flag   trusts.KeyFlag
	DryRun bool
	// whether a file below .ai is part of the result; nil: all are
	Includes func(path string) bool
	Before   func(ctx context.Context, it *ai.Item) []byte // the signed bytes; nil if unknown
	Open     Opener                                        // nil: spaces.OpenItems
}

// An Opener opens the items to sign.
type Opener func(context.Context, *cli.App) (*spaces.Items, error)

func (o Opener) open(ctx context.Context, a *cli.App) (*spaces.Items, error) {
	if o == nil {
		return spaces.OpenItems(ctx, a)
	}
	return o(ctx, a)
}

// A resigning is an item that this key has signed and that was changed since.
type resigning struct {
	ref  string
	file string
	at   time.Time // the time in the signature
	tree bool      // only other files of the tool were changed
	diff []string
	is   content // what the user is asked about
}

// A content is the content that a signature of an item covers.
type content struct{ stripped, tree cas.Digest }

// Sign signs the items, and returns the signed ones and all problems.
func (s *Resigner) Sign(ctx context.Context, refs []string) (signed []SignLine, problems []check.Problem, err error) {
	var shown map[string]content
	if len(refs) == 0 {
		if shown, err = s.agreed(ctx); err != nil || len(shown) == 0 {
			return nil, nil, err
		}
		refs = slices.Sorted(maps.Keys(shown))
	}
	ans, err := (&SignRun{Items: refs, Format: sign.V2.String(), DryRun: s.DryRun, KeyFlag: s.Flag, shown: shown,
		open: s.Open, counts: true}).signItems(ctx, s.App)
	all, ok := ans.(*SignAnswer)
	if !ok {
		return nil, nil, err
	}
	signed = slices.DeleteFunc(all.Files, func(l SignLine) bool { return !l.Changed })
	for _, l := range signed {
		s.App.Term.Note("%s %s as %s", cli.DryVerb(s.DryRun, "signed", "would sign"), l.File, l.Name)
	}
	return signed, all.Problems, err
}

// agreed asks whether to sign the changed items, and returns them by their refs; nil if nothing was changed.
func (s *Resigner) agreed(ctx context.Context) (shown map[string]content, err error) {
	all, err := s.changed(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		s.App.Term.Note("no item that %q has signed before was changed since", s.Key.Name)
		return nil, nil
	}
	s.show(all)
	shown = map[string]content{}
	for _, r := range all {
		shown[r.ref] = r.is
	}
	if !s.DryRun {
		err = s.App.Confirm(ctx, fmt.Sprintf("sign %s by %q?", fault.Count(int64(len(shown)), "changed item"),
			s.Key.Name))
	}
	return shown, err
}

// changed finds the items that this key has signed under their names and that were changed since. Items signed by
// other keys, or unsigned, must be named.
func (s *Resigner) changed(ctx context.Context) ([]resigning, error) {
	items, err := s.Open.open(ctx, s.App)
	if err != nil {
		return nil, err
	}
	defer items.Close()
	l, err := items.Files(ctx)
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(l.Files, func(f ai.File) bool {
		return f.Space != items.Project || s.Includes != nil && !s.Includes(f.Path)
	})
	items.Admit.KeepTrees()
	var mu sync.Mutex
	var all []resigning
	err = items.Each(ctx, files, func(_ int, it *ai.Item, err error) {
		if err != nil || it.Broken != nil {
			return // a later step reports the error
		}
		e, err := items.Admit.Admit(ctx, it, policy.ToUse)
		if err == nil && e.Decision.Allowed {
			return
		}
		r, ok := s.resigning(it)
		if !ok {
			return
		}
		r.file = items.Name(it.Space, it.Path)
		r.diff = diffSigned(s.Before(ctx, it), it)
		subject, _, _ := items.Admit.Subject(ctx, it) // without a subject nothing is signed
		r.is = content{it.Stripped, subject.Tree}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r)
	})
	slices.SortFunc(all, func(a, b resigning) int { return strings.Compare(a.ref, b.ref) })
	return all, err
}

// resigning looks for a signature line of this key over the item's name and other bytes. The line itself must be
// valid: anyone can copy a fingerprint.
func (s *Resigner) resigning(it *ai.Item) (resigning, bool) {
	public := s.Key.Public()
	for _, l := range it.Signed.Lines {
		claim := sign.Claim{Domain: sign.Item, Name: it.Ref.String(), Tree: l.Tree}
		if l.Key == public.Fingerprint() && claim.Holds(l, public) {
			return resigning{ref: it.Ref.String(), at: l.Time, tree: l.Digest == it.Stripped}, true
		}
	}
	return resigning{}, false
}

// diffSigned returns the changes in an item since it had these bytes, without signature lines.
func diffSigned(before []byte, it *ai.Item) []string {
	if before == nil || bytes.Equal(before, it.Bytes) {
		return nil
	}
	style := it.Kind.Style(it.Path)
	old, err := sign.Strip(before, style)
	if err != nil {
		return nil
	}
	now, err := sign.Strip(it.Bytes, style)
	if err != nil {
		return nil
	}
	return ChangedLines(old, now)
}

// MostChanged is how many lines of a change are shown.
const MostChanged = 12

// ChangedLines returns the changed lines between the common beginning and the common end of two texts.
func ChangedLines(before, after []byte) []string {
	a, b := bytes.Split(before, []byte("\n")), bytes.Split(after, []byte("\n"))
	from := 0
	for from < len(a) && from < len(b) && bytes.Equal(a[from], b[from]) {
		from++
	}
	to := 0
	for to < len(a)-from && to < len(b)-from && bytes.Equal(a[len(a)-1-to], b[len(b)-1-to]) {
		to++
	}
	removed, added := a[from:len(a)-to], b[from:len(b)-to]
	lines := []string{fmt.Sprintf("from line %d: %s before, %d now", from+1, fault.Count(int64(len(removed)), "line"),
		len(added))}
	for i, l := range append(slices.Clone(removed), added...) {
		if i == MostChanged {
			lines = append(lines, fmt.Sprintf("and %s more", fault.Count(int64(len(removed)+len(added)-i), "line")))
			break
		}
		mark := "- "
		if i >= len(removed) {
			mark = "+ "
		}
		lines = append(lines, mark+string(l))
	}
	return lines
}

// show lists the items to sign again, each with its changes.
func (s *Resigner) show(all []resigning) {
	for _, r := range all {
		what := "was changed"
		if r.tree {
			what = "has other files beside it"
		}
		s.App.Term.Note("%s: %s %s since it was signed at %s", r.file, r.ref, what, r.at.Format(time.RFC3339))
		for _, line := range r.diff {
			s.App.Term.Note("    %s", line)
		}
		if len(r.diff) == 0 && !r.tree {
			s.App.Term.Note("    the store doesn't have its signed content")
		}
	}
}
