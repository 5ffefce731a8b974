package initcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// checkLibrary compares the library in the binary with its manifest.
func checkLibrary(ctx context.Context, a *cli.App) paths.Finding {
	if err := std.Check(); err != nil {
		f := paths.Bad(paths.StatusFail, err)
		f.Hint = "rye version"
		return f
	}
	_, files, err := std.Files()
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	return paths.Good("rye/std, %s, matching its manifest", fault.Count(int64(len(files)), "file"))
}

// checkItems checks the items of the project, or outside projects those of the user: extractors are trusted, items
// are valid and signed by a trusted key, ids are unique, and none hides a protected item.
func checkItems(ctx context.Context, a *cli.App) paths.Finding {
	if f := checkBase(a); f != nil && a.Globals.Trust == "" {
		return *f
	}
	view, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	defer view.Close()
	own := view.Own()
	sel, err := view.Selected(ctx, own)
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	count, err := countItems(ctx, view, sel)
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	count.extractors = len(view.Warnings())
	if count.items == 0 && count.extractors+count.unclear+count.invalid+count.ambiguous+count.strays == 0 {
		return paths.Good("none yet")
	}
	if wrong := count.words(); len(wrong) > 0 {
		return paths.Finding{Status: paths.StatusWarn,
			Detail: fmt.Sprintf("of %s in %q: %s", fault.Count(int64(count.items), "item"), own.Dir,
				strings.Join(wrong, ", ")), Hint: count.hint()}
	}
	return paths.Good("%s in %q, valid and signed", fault.Count(int64(count.items), "item"), own.Dir)
}

// An itemCount counts the items and their problems.
type itemCount struct {
	items, invalid, ambiguous, shadowing, unclear int
	unsigned, refused                             int
	extractors                                    int // extractors that are not trusted
	strays                                        int // files with a signature line that are not items
}

// words describes every kind of problem with its number.
func (n *itemCount) words() (wrong []string) {
	for _, w := range []struct {
		n    int
		what string
	}{
		{n.invalid, "not valid"}, {n.ambiguous, "with a duplicate id"},
		{n.shadowing, "hiding a protected item"},
		{n.unclear, "unreadable or with an invalid name"}, {n.unsigned, "unsigned"},
		{n.refused, "refused by the policy"},
	} {
		if w.n > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s", w.n, w.what))
		}
	}
	if n.strays > 0 {
		wrong = append(wrong, "and "+fault.Count(int64(n.strays),
			"file")+" with a signature line but no item metadata")
	}
	if n.extractors > 0 {
		wrong = append(wrong, fault.Count(int64(n.extractors), "extractor")+" without effect")
	}
	return wrong
}

// hint returns the command that shows the problems in full.
func (n *itemCount) hint() string {
	if n.invalid+n.ambiguous+n.shadowing+n.unclear+n.extractors+n.strays > 0 {
		return "rye check"
	}
	if n.refused > 0 {
		return "rye verify '**'"
	}
	return "rye sign --all"
}

// countItems loads, validates and admits every selected file and counts the results.
func countItems(ctx context.Context, view *spaces.Items, sel *items.Selection) (count itemCount, err error) {
	for _, p := range sel.Problems {
		if _, ok := errors.AsType[*ai.AmbiguousError](p); ok {
			count.ambiguous++
		} else {
			count.unclear++
		}
	}
	var mu sync.Mutex
	ck := view.Checker()
	view.Admit.KeepTrees()
	err = ck.All(ctx, sel.Files, func(_ int, checked *check.Checked) {
		shadow := check.Shadow(ctx, view.View, checked.Item)
		found, err := view.Admit.Admit(ctx, checked.Item, policy.ToUse)
		mu.Lock()
		defer mu.Unlock()
		count.items++
		switch {
		case shadow != nil:
			count.shadowing++
		case checked.Bad:
			count.invalid++
		}
		switch {
		case checked.Broken == nil && checked.Signed.Format == sign.None && (err != nil || !found.Decision.Allowed):
			count.unsigned++
		case err == nil && !found.Decision.Allowed, err != nil && !checked.Bad:
			count.refused++
		}
	})
	// The rest of the wrong files could not be loaded.
	count.unclear += max(0, ck.Report().Wrong-count.invalid-count.shadowing)
	if own := view.Own(); err == nil && own != nil {
		all, wrong := ck.Strays(ctx, own, ".")
		for _, f := range all {
			if f.Signed {
				count.strays++
			}
		}
		err = wrong
	}
	return count, err
}
