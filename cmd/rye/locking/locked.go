package locking

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/classify"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/legacy"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
)

// WorkingView is the working tree over the bundles of a set and the library.
func (l *Locking) WorkingView(ctx context.Context, set *lock.Set) (*ai.View, *ai.Admitter, func(), error) {
	return l.View(ctx, slices.DeleteFunc(set.Spaces(), func(s *ai.Space) bool {
		return s.Label == lockfile.FromProject || s.Label == lockfile.FromUser
	}))
}

// LockFault says what is wrong with a lock. Only a merge heals: whatever else is half a lock could have forgotten pins.
func LockFault(a *cli.App, path string, err error) error {
	if err == nil {
		return nil
	}
	f := &fault.Error{Code: fault.LockMismatch, Err: err, Text: fmt.Sprintf("%q: %s", path, strings.TrimPrefix(err.Error(), "lock: ")),
		Hint: []string{"git restore " + fault.Quote(a.FromHere(path))}, Details: map[string]any{"path": path}}
	if _, ok := errors.AsType[*lockfile.MergeError](err); ok {
		f.Hint = []string{"rye lock --resolve"}
	}
	if _, ok := errors.AsType[*canon.VersionError](err); ok {
		f.Code, f.Hint = fault.VersionMismatch, []string{"rye version"}
	}
	return f
}

// countV1 returns how many locks of the first format there are, unreadable ones too.
func (l *Locking) countV1() int {
	locks, errs := legacy.Read(os.DirFS(l.DotAI))
	return len(locks) + len(errs)
}

// UsedAsPackage is how a tool uses what it lists.
const UsedAsPackage = "package"

// PackageName is what people call the package of an artifact: without what tells the wheels of a version from each other.
func PackageName(a lockfile.Artifact) string {
	version, _ := a.Tags()
	return a.Name + "@" + version
}

// Accepting are the flags that accept what weakens a lock.
func Accepting(names []string) (flags []string) {
	for _, n := range names {
		flags = append(flags, "--accept", n)
	}
	return flags
}

// LockAgain is the command that makes the lock anew, with what it has to accept.
func (l *Locking) LockAgain(names []string) string {
	if len(names) == 0 {
		return l.LockCommand()
	}
	return l.LockCommand() + " " + cli.JoinArgs(Accepting(names))
}

// Outlived are the project's own items, or the user's, that the lock has by a key which doesn't count any more, as
// after a rotation. Whoever else signs them makes a weaker lock.
func (l *Locking) Outlived() (refs []string) {
	t, err := places.OpenTrust(l.App)
	if err != nil || l.Old == nil {
		return nil
	}
	for i := range l.Old.Pins {
		p := &l.Old.Pins[i]
		if p.From != lockfile.FromProject && p.From != lockfile.FromUser {
			continue
		}
		if slices.ContainsFunc(p.Signers, func(f key.Fingerprint) bool {
			k, ok := t.Root.Side.Policy.Key(f)
			return !ok || t.Root.Side.KeyFault(k, t.Now) != policy.Admitted
		}) {
			refs = append(refs, p.Ref.String())
		}
	}
	return refs
}

// BundleOf is the bundle of the lock that has an item, "" if none has it, or nobody can say.
func (l *Locking) BundleOf(ctx context.Context, name string) string {
	set, err := l.Set(ctx)
	if err != nil {
		return ""
	}
	for i := range l.Old.Bundles {
		b := set.Bundle(l.Old.Bundles[i].ID)
		if b != nil && slices.ContainsFunc(b.Files, func(f manifest.File) bool { return f.Ref == name }) {
			return b.BundleID
		}
	}
	return ""
}

// WarnExtractors says which extractors don't count, and once what is the same of many.
func WarnExtractors(a *cli.App, all []*ai.ItemError) {
	reasons := make([]string, len(all))
	more := map[string]int{}
	for i, w := range all {
		reasons[i] = strings.TrimPrefix(classify.Classify(w).Text, fmt.Sprintf("%q ", w.Ref))
		more[reasons[i]]++
	}
	for i, w := range all {
		n := more[reasons[i]] - 1
		switch {
		case n > 0:
			a.Term.Warn("extractors: %s; so it is with %d more", classify.Classify(w).Text, n)
		case n == 0:
			a.Term.Warn("extractors: %s", classify.Classify(w).Text)
		}
		more[reasons[i]] = 0
	}
}
