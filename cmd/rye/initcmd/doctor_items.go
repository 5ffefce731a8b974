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

// checkItems checks the items of the project, or of the user outside projects: extractors are trusted, items are valid
// and signed by a trusted key, and ids are unique and don't hide protected ones.
func checkItems(ctx context.Context, a *cli.App) paths.Finding {
	if f := checkBase(a); f != nil && a.Globals.Trust == "" {
		return *f
	}
	v, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	defer v.Close()
	own := v.Own()
	sel, err := v.Selected(ctx, own)
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	n, err := countItems(ctx, v, sel)
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	n.extractors = len(v.Warnings())
	if n.items == 0 && n.extractors+n.unclear+n.invalid+n.ambiguous+n.strays == 0 {
		return paths.Good("none yet")
	}
	if wrong := n.words(); len(wrong) > 0 {
		return paths.Finding{Status: paths.StatusWarn,
			Detail: fmt.Sprintf("of %s in %q: %s", fault.Count(int64(n.items), "item"), own.Dir,
				strings.Join(wrong, ", ")), Hint: n.hint()}
	}
	return paths.Good("%s in %q, valid and signed", fault.Count(int64(n.items), "item"), own.Dir)
}

// An itemCount is how many items there are, and how many of them have what.
type itemCount struct {
	items, invalid, ambiguous, shadowing, unclear int
	unsigned, refused                             int
	extractors                                    int // that don't count
	strays                                        int // files with a signature line that are no items
}

// words describes what is wrong with the items.
func (n *itemCount) words() (wrong []string) {
	for _, w := range []struct {
		n    int
		what string
	}{
		{n.invalid, "not valid"}, {n.ambiguous, "with an id that another one has"},
		{n.shadowing, "in front of a protected one of the library"},
		{n.unclear, "that can't be read or may not be called so"}, {n.unsigned, "unsigned"},
		{n.refused, "refused by the policy"},
	} {
		if w.n > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s", w.n, w.what))
		}
	}
	if n.strays > 0 {
		wrong = append(wrong, "beside them "+fault.Count(int64(n.strays),
			"file")+" with a signature line and no mark of an item")
	}
	if n.extractors > 0 {
		wrong = append(wrong, fault.Count(int64(n.extractors), "extractor")+" without effect")
	}
	return wrong
}

// hint is the command that shows more.
func (n *itemCount) hint() string {
	if n.invalid+n.ambiguous+n.shadowing+n.unclear+n.extractors+n.strays > 0 {
		return "rye check"
	}
	if n.refused > 0 {
		return "rye verify '**'"
	}
	return "rye sign --all"
}

// countItems looks at all that was selected.
func countItems(ctx context.Context, v *spaces.Items, sel *items.Selection) (n itemCount, err error) {
	for _, p := range sel.Problems {
		if _, ok := errors.AsType[*ai.AmbiguousError](p); ok {
			n.ambiguous++
		} else {
			n.unclear++
		}
	}
	var mu sync.Mutex
	ck := v.Checker()
	v.Admit.KeepTrees()
	err = ck.All(ctx, sel.Files, func(_ int, c *check.Checked) {
		shadow := check.Shadow(ctx, v.View, c.Item)
		found, err := v.Admit.Admit(ctx, c.Item, policy.ToUse)
		mu.Lock()
		defer mu.Unlock()
		n.items++
		switch {
		case shadow != nil:
			n.shadowing++
		case c.Bad:
			n.invalid++
		}
		switch {
		case c.Broken == nil && c.Signed.Format == sign.None && (err != nil || !found.Decision.Allowed):
			n.unsigned++
		case err == nil && !found.Decision.Allowed, err != nil && !c.Bad:
			n.refused++
		}
	})
	// Files that couldn't be loaded.
	n.unclear += max(0, ck.Report().Wrong-n.invalid-n.shadowing)
	if own := v.Own(); err == nil && own != nil {
		all, wrong := ck.Strays(ctx, own, ".")
		for _, f := range all {
			if f.Signed {
				n.strays++
			}
		}
		err = wrong
	}
	return n, err
}
