// The checks of rye doctor about variables, keys and policies.

package initcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/trust"
)

// checkVariables finds unknown RYE_ variables, which other commands refuse.
func checkVariables(_ context.Context, a *cli.App) paths.Finding {
	if err := a.RefuseUnknown(); err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	return paths.Good("none unknown")
}

// checkKeys checks that the keys are usable and private, and that the policy contains the default key.
func checkKeys(_ context.Context, app *cli.App) paths.Finding {
	if f := checkBase(app); f != nil {
		return *f
	}
	lines, err := trusts.KeyLines(app)
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	for _, l := range lines {
		if l.Error != "" {
			return paths.Finding{Status: paths.StatusFail,
				Detail: fmt.Sprintf("the key %q can't be used: %s", l.Name, l.Error),
				Hint:   cmp.Or(l.Hint, "rye key show "+fault.Quote(l.Name))}
		}
	}
	// CheckPolicy reports an unreadable policy.
	au, err := paths.Paths(app).RootPolicy()
	for _, l := range lines {
		if err == nil && au.File != nil && l.Default && l.InPolicy == "" {
			return paths.Finding{Status: paths.StatusWarn,
				Detail: fmt.Sprintf("the policy does not contain the signing key %q", l.Name),
				Hint:   fault.Command("rye trust add", l.Public, "--owner", l.Name, "--names", "**")}
		}
	}
	if f := paths.CheckStrays(app); f != nil {
		return *f
	}
	if len(lines) == 0 {
		return paths.Good("none yet: rye key new creates one")
	}
	return paths.Good("%s", fault.Count(int64(len(lines)), "key"))
}

// checkBase returns a warning if the directory of the user space is unusable, else nil. rye works without it.
func checkBase(a *cli.App) *paths.Finding {
	base := a.UserBase()
	if base.Err == nil {
		_, base.Err = osfile.IsDir(base.Value)
	}
	if base.Err == nil {
		return nil
	}
	f := paths.Bad(paths.StatusWarn, base.Err)
	return &f
}

// soon is how long before a key's expiry doctor warns.
const soon = 30 * 24 * time.Hour

// CheckPolicy checks that the policies are readable, that no key of a rule has expired or expires soon, and that the
// revocation lists are fresh.
func CheckPolicy(_ context.Context, app *cli.App) paths.Finding {
	if f := checkBase(app); f != nil && app.Globals.Trust == "" {
		return *f
	}
	root, err := paths.Paths(app).RootPolicy()
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	project, err := paths.Paths(app).ProjectPolicy()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return paths.Bad(paths.StatusFail, err)
	}
	if root.File == nil {
		return paths.Good("none yet, so no key is trusted: rye key new creates one")
	}
	rules := root.Side.Policy
	for _, trusted := range rules.Sections().Keys {
		switch left := trusted.Expires.Sub(app.Now()); {
		case trusted.Expires.IsZero() || len(rules.RulesNaming(trusted.Name)) == 0:
		case left <= 0:
			return paths.Finding{Status: paths.StatusWarn,
				Detail: fmt.Sprintf("the key %q expired on %s", trusted.Name, yamltree.DateText(trusted.Expires)),
				Hint: fault.Command("rye trust add", trusted.Name, "--expires",
					app.Now().AddDate(1, 0, 0).Format(time.DateOnly))}
		case left < soon:
			return paths.Finding{Status: paths.StatusWarn,
				Detail: fmt.Sprintf("the key %q expires on %s", trusted.Name, yamltree.DateText(trusted.Expires)),
				Hint:   rotateHint(app, trusted)}
		}
	}
	if f := checkLists(app, root); f != nil {
		return *f
	}
	also := ""
	if project != nil {
		also = "; the project has one too"
	}
	return paths.Good("%q (%s), %s, %s%s", root.Path, root.Origin, fault.Count(int64(len(rules.Sections().Keys)),
		"key"),
		fault.Count(int64(len(rules.Sections().Rules)), "rule"), also)
}

// rotateHint returns the hint for an expiring key. Only the owner of a key can rotate it.
func rotateHint(a *cli.App, k policy.Key) string {
	lines, _ := trusts.KeyLines(a)
	for _, l := range lines {
		if l.Public == k.Public.String() {
			return "rye key rotate " + fault.Quote(l.Name)
		}
	}
	return "rye trust list"
}

// checkLists returns a warning for the first revocation list that was never fetched or is outdated, else nil.
func checkLists(a *cli.App, root *trust.Authority) *paths.Finding {
	lists, err := paths.Lists(a).Load(root)
	if err != nil {
		f := paths.Bad(paths.StatusFail, err)
		return &f
	}
	for _, src := range root.Side.Policy.Sections().Lists {
		if l := lists[src.Name]; l == nil {
			return &paths.Finding{Status: paths.StatusWarn,
				Detail: fmt.Sprintf("the revocation list %q was never fetched", src.Name), Hint: "rye trust update"}
		} else if end := l.Issued.Add(src.MaxAge); ended(a.Now(), end) || ended(a.Now(), l.Expires) {
			return &paths.Finding{Status: paths.StatusWarn,
				Detail: fmt.Sprintf("the revocation list %q is stale", src.Name), Hint: "rye trust update"}
		}
	}
	return nil
}

func ended(now, end time.Time) bool { return !now.Before(end) }
