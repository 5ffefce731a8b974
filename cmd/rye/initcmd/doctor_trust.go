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

// checkKeys checks the modes of the keys, and that the policy knows the one that signs.
func checkKeys(_ context.Context, a *cli.App) paths.Finding {
	if f := checkBase(a); f != nil {
		return *f
	}
	lines, err := trusts.KeyLines(a)
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
	// The next check reports a policy that can't be read.
	au, err := paths.Paths(a).RootPolicy()
	for _, l := range lines {
		if err == nil && au.File != nil && l.Default && l.InPolicy == "" {
			return paths.Finding{Status: paths.StatusWarn,
				Detail: fmt.Sprintf("the policy doesn't know %q, the key that signs", l.Name),
				Hint:   fault.Command("rye trust add", l.Public, "--owner", l.Name, "--names", "**")}
		}
	}
	if f := paths.CheckStrays(a); f != nil {
		return *f
	}
	if len(lines) == 0 {
		return paths.Good("none yet: rye key new creates one")
	}
	return paths.Good("%s", fault.Count(int64(len(lines)), "key"))
}

// checkBase reports a missing user space, without which rye works too.
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

// soon is how long before its expiry a key is worth a warning.
const soon = 30 * 24 * time.Hour

// CheckPolicy reads the policies and finds keys that expire soon.
func CheckPolicy(_ context.Context, a *cli.App) paths.Finding {
	if f := checkBase(a); f != nil && a.Globals.Trust == "" {
		return *f
	}
	root, err := paths.Paths(a).RootPolicy()
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	project, err := paths.Paths(a).ProjectPolicy()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return paths.Bad(paths.StatusFail, err)
	}
	if root.File == nil {
		return paths.Good("none yet, so no key is trusted: rye key new creates one")
	}
	p := root.Side.Policy
	for _, k := range p.Sections().Keys {
		switch left := k.Expires.Sub(a.Now()); {
		case k.Expires.IsZero() || len(p.RulesNaming(k.Name)) == 0:
		case left <= 0:
			return paths.Finding{Status: paths.StatusWarn,
				Detail: fmt.Sprintf("the key %q expired on %s", k.Name, yamltree.DateText(k.Expires)),
				Hint: fault.Command("rye trust add", k.Name, "--expires",
					a.Now().AddDate(1, 0, 0).Format(time.DateOnly))}
		case left < soon:
			return paths.Finding{Status: paths.StatusWarn,
				Detail: fmt.Sprintf("the key %q expires on %s", k.Name, yamltree.DateText(k.Expires)),
				Hint:   rotateHint(a, k)}
		}
	}
	if f := checkLists(a, root); f != nil {
		return *f
	}
	also := ""
	if project != nil {
		also = "; the project has one too"
	}
	return paths.Good("%q (%s), %s, %s%s", root.Path, root.Origin, fault.Count(int64(len(p.Sections().Keys)), "key"),
		fault.Count(int64(len(p.Sections().Rules)), "rule"), also)
}

// rotateHint is what this user can do about an expiring key: only its owner can rotate it.
func rotateHint(a *cli.App, k policy.Key) string {
	lines, _ := trusts.KeyLines(a)
	for _, l := range lines {
		if l.Public == k.Public.String() {
			return "rye key rotate " + fault.Quote(l.Name)
		}
	}
	return "rye trust list"
}

// checkLists checks that each revocation list is there and fresh.
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
