package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy"
)

// checkVariables looks for variables of our prefix that nothing reads, for which other commands refuse to work.
func checkVariables(_ context.Context, a *app) finding {
	if err := a.refuseUnknown(); err != nil {
		return bad(statusFail, err)
	}
	return good("none that is unknown")
}

// checkKeys looks at the modes of the keys, and whether the policy knows the one that signs.
func checkKeys(_ context.Context, a *app) finding {
	if f := checkBase(a); f != nil {
		return *f
	}
	lines, err := a.keyLines()
	if err != nil {
		return bad(statusFail, err)
	}
	for _, l := range lines {
		if l.Error != "" {
			return finding{Status: statusFail, Detail: fmt.Sprintf("the key %q can't be used: %s", l.Name, l.Error), Hint: cmp.Or(l.hint, "rye key show "+fault.Quote(l.Name))}
		}
	}
	// What the policy says of a key can be told where it can be read; the next check says why not.
	au, err := a.rootAuthority()
	for _, l := range lines {
		if err == nil && au.file != nil && l.Default && l.InPolicy == "" {
			return finding{Status: statusWarn, Detail: fmt.Sprintf("the policy doesn't know %q, the key that signs", l.Name),
				Hint: "rye trust add " + l.Public + " --owner OWNER --names GLOB"}
		}
	}
	if f := checkStrays(a); f != nil {
		return *f
	}
	if len(lines) == 0 {
		return good("none yet: rye key new makes one")
	}
	return good("%s", fault.Count(int64(len(lines)), "key"))
}

// checkBase is what is found where there can be no user space: that rye works without.
func checkBase(a *app) *finding {
	base := a.userBase()
	if base.err == nil {
		_, base.err = isDir(base.value)
	}
	if base.err == nil {
		return nil
	}
	f := bad(statusWarn, base.err)
	return &f
}

// soon is how long before its end a key is worth a warning.
const soon = 30 * 24 * time.Hour

// checkPolicy reads the policies and looks for what ends soon.
func checkPolicy(_ context.Context, a *app) finding {
	if f := checkBase(a); f != nil && a.globals.Trust == "" {
		return *f
	}
	root, err := a.rootAuthority()
	if err != nil {
		return bad(statusFail, err)
	}
	project, err := a.projectAuthority()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return bad(statusFail, err)
	}
	if root.file == nil {
		return good("none yet, so nobody is trusted: rye key new makes one")
	}
	p := root.side.Policy
	for _, k := range p.Sections().Keys {
		switch left := k.Expires.Sub(a.now()); {
		case k.Expires.IsZero() || len(vouches(p, k.Name)) == 0:
		case left <= 0:
			return finding{Status: statusWarn, Detail: fmt.Sprintf("the key %q expired on %s", k.Name, dateText(k.Expires)), Hint: "rye trust add " + k.Name + " --expires DATE"}
		case left < soon:
			return finding{Status: statusWarn, Detail: fmt.Sprintf("the key %q expires on %s", k.Name, dateText(k.Expires)), Hint: a.rotateHint(k)}
		}
	}
	if f := checkLists(a, root); f != nil {
		return *f
	}
	also := ""
	if project != nil {
		also = "; the project has one too"
	}
	return good("%q (%s), %s, %s%s", root.path, root.origin, fault.Count(int64(len(p.Sections().Keys)), "key"), fault.Count(int64(len(p.Sections().Rules)), "rule"), also)
}

// rotateHint is what this user can do about a key of the policy: only its owner rotates it.
func (a *app) rotateHint(k policy.Key) string {
	lines, _ := a.keyLines()
	for _, l := range lines {
		if l.Public == k.Public.String() {
			return "rye key rotate " + fault.Quote(l.Name)
		}
	}
	return "rye trust list"
}

// checkLists wants each revocation list to be there and fresh.
func checkLists(a *app, root *authority) *finding {
	lists, err := a.lists().load(root)
	if err != nil {
		f := bad(statusFail, err)
		return &f
	}
	for _, src := range root.side.Policy.Sections().Lists {
		if l := lists[src.Name]; l == nil {
			return &finding{Status: statusWarn, Detail: fmt.Sprintf("the revocation list %q was never fetched", src.Name), Hint: "rye trust update"}
		} else if end := l.Issued.Add(src.MaxAge); ended(a.now(), end) || ended(a.now(), l.Expires) {
			return &finding{Status: statusWarn, Detail: fmt.Sprintf("the revocation list %q is stale", src.Name), Hint: "rye trust update"}
		}
	}
	return nil
}

func ended(now, end time.Time) bool { return !now.Before(end) }
