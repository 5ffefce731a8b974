package signs

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
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/sarif"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/clients"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/signing"
	"github.com/rye-build/rye/manifest/trust"
)

// VerifyReport is the result of rye verify.
type VerifyReport struct {
	*signing.Report
	Installed *clients.Report `json:"installed,omitempty"` // with --installed
}

func newReport(files []*signing.Evidence, one *fault.Error) (cli.Answer, error) {
	r, err := signing.NewReport(files, one)
	return &VerifyReport{Report: r}, err
}

// Text shows the evidence of a single file, or one line for each of several files.
func (r *VerifyReport) Text(term *cli.Terminal) {
	if r.Installed != nil {
		printInstalled(term, r.Installed)
		return
	}
	if len(r.Files) == 1 {
		printEvidence(term, r.Files[0])
		return
	}
	name, space := 0, 0
	for _, v := range r.Files {
		name, space = max(name, len(v.Name)), max(space, len(v.Space))
	}
	for _, v := range r.Files {
		word := term.Stdout.Paint(cli.RoleGood, "verified", term.Ascii)
		if !v.Allowed {
			word = term.Stdout.Paint(cli.RoleError, "refused ", term.Ascii)
		}
		term.Printf("%s  %s  %s  %s\n", word, term.Pad(v.Name, name), term.Pad(v.Space, space), words(v))
	}
	if r.Refused == 0 {
		term.Note("verified %s", fault.Count(int64(len(r.Files)), "item"))
	}
}

// Extent counts the files.
func (r *VerifyReport) Extent() string {
	if r.Installed != nil {
		return fault.Count(int64(r.Installed.Items), "item")
	}
	return fault.Count(int64(len(r.Files)), "item")
}

// Findings returns the refused files.
func (r *VerifyReport) Findings() (all []sarif.Finding) {
	if r.Installed != nil {
		return installedFindings(r.Installed)
	}
	for _, v := range r.Files {
		if !v.Allowed {
			all = append(all, sarif.Finding{Code: v.Code, Level: sarif.Error, File: v.File, Line: v.Line, Name: v.Name,
				Message: cmp.Or(v.Sentence, v.Message), Hint: v.Hint})
		}
	}
	return all
}

// words summarizes the evidence of a file: its signers, or why it is refused.
func words(evidence *signing.Evidence) string {
	if !evidence.Allowed {
		if evidence.Sentence != "" {
			return fmt.Sprintf("%s: %s", evidence.Code, evidence.Sentence)
		}
		return fmt.Sprintf("%s (%s): %s", evidence.Code, evidence.Reason, evidence.Message)
	}
	beside := ""
	if evidence.TreeFiles > 0 {
		beside = ", with " + fault.Count(int64(evidence.TreeFiles), "file") + " beside it"
	}
	switch evidence.Trust {
	case "builtin":
		return "by the binary" + beside
	case "digest":
		return "by its digest" + beside
	}
	var names []string
	for _, s := range evidence.Signers {
		if s.Verdict == policy.Admitted.String() {
			names = append(names, cmp.Or(s.Name, paths.Short(s.Key)))
		}
	}
	return fmt.Sprintf("signed by %s under %q%s", strings.Join(names, ", "), evidence.Rule, beside)
}

// verifyItems verifies items of spaces, each separately and without a cache.
func (c *VerifyRun) verifyItems(ctx context.Context, app *cli.App) (cli.Answer, error) {
	trusted, err := trustToAsk(app)
	if err != nil {
		return nil, err
	}
	items, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return nil, err
	}
	defer items.Close()
	defer items.Count()
	items.Library = c.All
	sel, err := items.Selected(ctx, nil, c.Items...)
	if err != nil {
		if f, ok := errors.AsType[*fault.Error](err); ok && len(c.Items) == 1 && f.Details["path"] != nil {
			f.Hint = []string{asName("rye verify", c.Items[0])}
		}
		return nil, err
	}
	files, faults := make([]*signing.Evidence, len(sel.Files)), make([]*fault.Error, len(sel.Files))
	items.Remember()
	items.Admit.KeepTrees()
	listed := make([]ai.File, len(sel.Files))
	for i := range listed {
		listed[i] = sel.Files[i].File
	}
	var warned sync.Map
	err = items.Each(ctx, listed, func(i int, it *ai.Item, err error) {
		switch {
		case errors.Is(err, ai.ErrAsset) && !sel.Files[i].Named:
			return
		case err != nil:
			files[i], faults[i] = refusedFile(items, trusted, listed[i], err)
		default:
			files[i], faults[i] = verifyItem(ctx, items, trusted, it)
		}
		for _, w := range files[i].Warnings {
			if _, again := warned.LoadOrStore(w, true); !again {
				app.Term.Warn("%s", w)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for i, p := range sel.Problems {
		if _, twice := errors.AsType[*ai.AmbiguousError](p); twice && i > 0 && sel.Problems[i-1].Err == p.Err {
			continue // the error names both files
		}
		ans, f := refusedFile(items, trusted, ai.File{Ref: p.Ref, Space: p.Space, Path: p.Path}, p)
		files, faults = append(files, ans), append(faults, f)
	}
	for _, b := range items.Unread {
		if mayCover(items, b.ID, c.Items) {
			ans, f := refusedBundle(items, trusted, b)
			files, faults = append(files, ans), append(faults, f)
		}
	}
	faults = slices.DeleteFunc(faults, func(f *fault.Error) bool { return f == nil })
	files = slices.DeleteFunc(files, func(v *signing.Evidence) bool { return v == nil })
	if len(files) == 0 {
		if err := items.Nothing(ctx, c.Items); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(files, func(a, b *signing.Evidence) int { return cmp.Compare(a.Name, b.Name) })
	var one *fault.Error
	if len(files) == 1 && len(faults) == 1 {
		one = faults[0]
	}
	return newReport(files, one)
}

// mayCover reports whether a glob among the arguments may cover items of an unreadable bundle: its pinned items, and
// anything below its id. A ref that was found can't.
func mayCover(v *spaces.Items, id string, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		arg, err := v.Parse(text)
		if err != nil || arg.Glob == nil {
			return false
		}
		if v.Lock.Old != nil && slices.ContainsFunc(v.Lock.Old.Pins, func(p lockfile.Pin) bool {
			return p.From == lockfile.System+id && arg.Covers(p.Ref, nil, "")
		}) {
			return true
		}
		return arg.Reaches("", id)
	})
}

// refusedBundle returns the evidence for the items of an unreadable bundle.
func refusedBundle(v *spaces.Items, t *trust.Trust, b workspace.UnreadBundle) (*signing.Evidence, *fault.Error) {
	space := &ai.Space{Label: lockfile.System + b.ID, Level: ai.System}
	ans, f := refusedFile(v, t, ai.File{Space: space}, b.Err)
	ans.Name, ans.File, ans.Line, ans.Hint = "bundle:"+b.ID+"@"+b.Version, v.Lock.LockPath(),
		lockfile.LineOf(v.Lock.Text(), "bundles", b.ID), f.Hint
	return ans, f
}

// verifyItem verifies an item with its tree.
func verifyItem(ctx context.Context, items *spaces.Items, trusted *trust.Trust, it *ai.Item) (*signing.Evidence,
	*fault.Error) {
	if err := check.Shadow(ctx, items.View, it); err != nil {
		return refusedFile(items, trusted, it.File, err)
	}
	s := signing.Subject{File: items.Name(it.Space, it.Path), Item: true}
	var beside *tree.Tree
	var err error
	if s.Subject, beside, err = items.Admit.Subject(ctx, it); err != nil {
		return refusedFile(items, trusted, it.File, err)
	}
	s.Listed = lists(items, it, beside)
	s.Known = &admission.Known{Signed: it.Signed, Err: it.Broken} // Load has just verified these bytes
	ans, f := signing.Verify(trusted, paths.Lists(items.App), s, bytes.NewReader(it.Bytes))
	ans.Space = it.Space.Label
	if err := items.Asked.Refuses(it.Space.Label, it.Ref.String()); err != nil && f == nil {
		return refusedFile(items, trusted, it.File, &ai.ItemError{Ref: it.Ref, Space: it.Space, Path: it.Path,
			Err: err})
	}
	if f != nil && f.Details["reason"] == "tree" && len(f.Hint) > 0 && pins(items, it) {
		f.Hint[0] = "rye diff " + fault.Quote(it.Ref.String())
	}
	if beside != nil {
		ans.TreeFiles = len(beside.Files)
	}
	return ans, f
}

// pins reports whether the lock pins an item of the project, so that rye diff can show changes.
func pins(v *spaces.Items, it *ai.Item) bool {
	return it.Space == v.Project && v.Lock != nil && v.Lock.Old != nil && v.Lock.Old.Pin(it.Ref) != nil
}

// lists reports whether an admitted manifest lists an item with a signature of the first format, and all of its tree.
func lists(v *spaces.Items, it *ai.Item, beside *tree.Tree) bool {
	if v.Asked == nil || it.Signed.Format != sign.V1 || !v.Asked.Listed(it.Raw) {
		return false
	}
	return beside == nil || !slices.ContainsFunc(beside.Files, func(f tree.File) bool {
		return !v.Asked.Listed(f.Raw)
	})
}

// refusedFile returns the evidence for a file that can't be examined as an item.
func refusedFile(v *spaces.Items, t *trust.Trust, file ai.File, err error) (*signing.Evidence, *fault.Error) {
	name := v.Name(file.Space, file.Path)
	place := name
	if file.Ref.Kind != "" {
		name = file.Ref.String()
	}
	return signing.Refused(t, name, place, file.Space.Label, err)
}
