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

// WorkingView returns the working tree over the bundles of a set and the library. Each path that the view reads is
// recorded in seen, if it isn't nil.
func (l *Lock) WorkingView(ctx context.Context, set *lock.Set, seen *nofollow.Seen) (*ai.View, *ai.Admitter, func(),
	error) {
	return l.view(ctx, seen, slices.DeleteFunc(set.Spaces(), func(s *ai.Space) bool {
		return s.Label == lockfile.FromProject || s.Label == lockfile.FromUser
	}))
}

// LockFault describes why a lock file is invalid. Only a merge can be resolved: any other damaged lock may have lost
// pins.
func (w *Workspace) LockFault(path string, err error) error {
	if err == nil {
		return nil
	}
	failure := fault.New(fault.LockMismatch, "%q: %s", path, strings.TrimPrefix(err.Error(), "lock: ")).From(err).
		Try("git restore "+fault.Quote(w.Show(path))).On("path", path)
	if line, ok := fault.Of(err).Details["line"]; ok {
		failure.On("line", line)
	}
	if _, ok := errors.AsType[*lockfile.MergeError](err); ok {
		failure.Hint = []string{"rye lock --resolve"}
	}
	if _, ok := errors.AsType[*canon.VersionError](err); ok {
		failure.Code, failure.Hint = fault.VersionMismatch, []string{"rye version"}
	}
	return failure
}

// countV1 counts the v1 locks, unreadable ones too.
func (l *Lock) countV1() int {
	locks, errs := legacy.Read(os.DirFS(l.DotAI))
	return len(locks) + len(errs)
}

// UsedAsPackage is the way in which a tool uses an artifact that it lists.
const UsedAsPackage = "package"

// PackageName returns an artifact's package and version, without the parts that distinguish its wheels.
func PackageName(a lockfile.Artifact) string {
	version, _ := a.Tags()
	return a.Name + "@" + version
}

// Accepting returns the flags that accept a weaker lock.
func Accepting(names []string) (flags []string) {
	for _, n := range names {
		flags = append(flags, "--accept", n)
	}
	return flags
}

// LockAgain returns the command that makes the lock again and accepts its weaknesses.
func (l *Lock) LockAgain(names []string) string {
	return fault.Command(l.LockCommand(), Accepting(names)...)
}

// Outlived lists the items of the project or the user that the lock pins by a key that no longer counts, as after a
// rotation. If another key signs them, the new lock is weaker.
func (l *Lock) Outlived() (refs []string) {
	trusted, err := l.Policy()
	if err != nil || l.Old == nil {
		return nil
	}
	for i := range l.Old.Pins {
		p := &l.Old.Pins[i]
		if p.From != lockfile.FromProject && p.From != lockfile.FromUser {
			continue
		}
		if slices.ContainsFunc(p.Signers, func(f key.Fingerprint) bool {
			k, ok := trusted.Root.Side.Policy.Key(f)
			return !ok || trusted.Root.Side.KeyFault(k, trusted.Now) != policy.Admitted
		}) {
			refs = append(refs, p.Ref.String())
		}
	}
	return refs
}

// BundleOf returns the bundle of the lock that has an item, or "" if no bundle has it or the lock is unreadable.
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

// SetOptions returns the options of a set that reads its objects from a source and its library from the binary.
func SetOptions(objects lock.Source) lock.SetOptions {
	return lock.SetOptions{Objects: objects, Std: find.LibrarySpace()}
}
