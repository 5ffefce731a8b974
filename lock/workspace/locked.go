package workspace

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/nofollow"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/legacy"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
)

// WorkingView is the working tree over the bundles of a set and the library. What is looked at in it is noted in seen,
// nil for nowhere.
func (l *Lock) WorkingView(ctx context.Context, set *lock.Set, seen *nofollow.Seen) (*ai.View, *ai.Admitter, func(),
	error) {
	return l.view(ctx, seen, slices.DeleteFunc(set.Spaces(), func(s *ai.Space) bool {
		return s.Label == lockfile.FromProject || s.Label == lockfile.FromUser
	}))
}

// LockFault says what is wrong with a lock file. Only a merge is resolved: any other damaged lock may have lost pins.
func (w *Workspace) LockFault(path string, err error) error {
	if err == nil {
		return nil
	}
	f := fault.New(fault.LockMismatch, "%q: %s", path, strings.TrimPrefix(err.Error(), "lock: ")).From(err).
		Try("git restore "+fault.Quote(w.Show(path))).On("path", path)
	if line, ok := fault.Of(err).Details["line"]; ok {
		f.On("line", line)
	}
	if _, ok := errors.AsType[*lockfile.MergeError](err); ok {
		f.Hint = []string{"rye lock --resolve"}
	}
	if _, ok := errors.AsType[*canon.VersionError](err); ok {
		f.Code, f.Hint = fault.VersionMismatch, []string{"rye version"}
	}
	return f
}

// countV1 counts the v1 locks, unreadable ones too.
func (l *Lock) countV1() int {
	locks, errs := legacy.Read(os.DirFS(l.DotAI))
	return len(locks) + len(errs)
}

// UsedAsPackage is how a tool uses what it lists.
const UsedAsPackage = "package"

// PackageName is an artifact's package and version, without what distinguishes its wheels.
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

// LockAgain is the command that makes the lock again and accepts what it would weaken.
func (l *Lock) LockAgain(names []string) string {
	return fault.Command(l.LockCommand(), Accepting(names)...)
}

// Outlived lists the items of the project or the user that the lock pins by a key that no longer counts, as after a
// rotation. Signed by another key, they make a weaker lock.
func (l *Lock) Outlived() (refs []string) {
	t, err := l.Policy()
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

// BundleOf is the bundle of the lock that has an item, "" if none has it or the lock can't be read.
func (l *Lock) BundleOf(ctx context.Context, name string) string {
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

// SetOptions returns the options of a set whose objects come from a source, and whose library is the binary's.
func SetOptions(objects lock.Source) lock.SetOptions {
	return lock.SetOptions{Objects: objects, Std: find.LibrarySpace()}
}
