package workspace

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/manifest/trust"
)

// Items are the items visible from a workspace. The project's space overrides the user's, which overrides the
// bundles, which override the library. A project uses the bundles of its lock; outside of projects the installed
// bundles count.
type Items struct {
	*edit.Editor
	Trust   *trust.Trust    // nil: without a policy only the library is admitted
	Asked   *bundle.Listing // decides which items are admitted; nil without a policy
	Project *ai.Space       // nil outside of projects, and where the project has no .ai
	User    *ai.Space       // nil where it doesn't count or doesn't exist
	Root    Project         // zero outside of projects
	Lock    *Lock           // of the project; nil outside
	Unread  []UnreadBundle
}

// An UnreadBundle is a bundle of the lock that can't be read, with the reason.
type UnreadBundle struct {
	lockfile.Bundle
	Err error
}

// Items opens all visible spaces. Without a policy every item is visible and only the library is admitted. In a
// project with rye.yaml the user's space counts only with AllowUser, so that everything that runs there is in the
// project or locked.
func (w *Workspace) Items(ctx context.Context) (_ *Items, err error) {
	items := &Items{Root: w.Root}
	if items.Trust, err = w.Policy(); err != nil && !trust.IsMissing(err) {
		return nil, err
	}
	withUser := w.UserCounts()
	if items.Trust != nil {
		var dirs []string
		if w.Root.Root != "" {
			dirs = append(dirs, w.Root.Root)
		}
		if withUser {
			dirs = append(dirs, w.User.Path)
		}
		items.Asked = Listing(ctx, items.Trust, dirs...)
	}
	defer func() {
		if err != nil {
			items.Close()
		}
	}()
	var spaces []*ai.Space
	if w.Root.Root != "" {
		if items.Project, err = openSpace(w.Root.DotAI(), ai.Project); err != nil {
			return nil, err
		}
	}
	if withUser {
		if items.User, err = openSpace(w.UserSpace().Path, ai.User); err != nil {
			return nil, err
		}
	}
	spaces = slices.DeleteFunc([]*ai.Space{find.LibrarySpace(), items.Project, items.User}, func(s *ai.Space) bool {
		return s == nil
	})
	if w.Root.Root != "" {
		spaces = w.addLocked(ctx, items, spaces)
	} else if spaces, err = w.addInstalled(ctx, spaces); err != nil {
		return nil, err
	}
	view, admit, err := w.OpenView(ctx, items.Trust, items.Asked, spaces...)
	if err != nil {
		return nil, err
	}
	items.Editor = &edit.Editor{View: view, Admit: admit, Now: w.Now}
	return items, nil
}

// UserCounts reports whether items of the user's space are visible.
func (w *Workspace) UserCounts() bool {
	return w.User.Err == nil && (w.Root.Marker != MarkerFile || w.AllowUser)
}

// OpenView opens spaces and decides which of their items are admitted: asked decides which items count, the policy t
// which may override the library. It reports ignored extractors. If asked and t are nil, only the library is
// admitted. A zero Workspace will do.
func (w *Workspace) OpenView(ctx context.Context, t *trust.Trust, asked *bundle.Listing,
	spaces ...*ai.Space) (*ai.View, *ai.Admitter, error) {
	options := ai.Options{Spaces: spaces}
	if asked != nil { // a nil pointer would not be a nil interface
		options.Trust = asked
	}
	if t != nil {
		options.MayOverride = t.Root.Side.Policy.MayOverride
	}
	v, err := ai.NewView(ctx, options)
	if err != nil {
		return nil, nil, err
	}
	w.left.CompareAndSwap(false, len(v.Warnings()) > 0)
	if w.Extractors != nil {
		w.Extractors(v.Warnings())
	}
	return v, ai.NewAdmitter(v, options.Trust), nil
}

// openSpace opens a directory of items, or returns nil if it doesn't exist.
func openSpace(dir string, level ai.Level) (*ai.Space, error) {
	s, err := ai.OpenDir(dir, level.String(), level)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return s, err
}

// Close closes the spaces, not the workspace.
func (v *Items) Close() {
	for _, s := range []*ai.Space{v.Project, v.User} {
		if s != nil {
			s.Close()
		}
	}
	if v.Lock != nil {
		v.Lock.Close()
	}
}

// addInstalled adds the installed bundles. An unreadable bundle causes a warning: the others work without it.
func (w *Workspace) addInstalled(ctx context.Context, spaces []*ai.Space) ([]*ai.Space, error) {
	if _, err := w.Space(); err != nil {
		return spaces, nil // no home, nothing installed
	}
	all, err := w.Finder().AllInstalled(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		w.Warn("installed bundles", err)
	}
	if len(all) == 0 {
		return spaces, nil
	}
	if _, err := w.OpenStore(false); err != nil {
		w.Warn("cannot read the files of installed bundles", err)
		return spaces, nil
	}
	space, err := w.Space() // with the store
	if err != nil {
		return nil, err
	}
	for _, at := range all {
		s, err := space.Open(ctx, at.BundleID)
		if err != nil {
			w.Warn("the bundle \""+at.BundleID+"\"", err)
			continue
		}
		spaces = append(spaces, s)
	}
	return spaces, nil
}

// addLocked adds the bundles of the project's lock. An unreadable bundle or lock causes a warning, because items must
// stay visible so that the user can repair them. Commands that judge items check Unread.
func (w *Workspace) addLocked(ctx context.Context, items *Items, spaces []*ai.Space) []*ai.Space {
	items.Lock = w.LockIn(w.Root.Root, w.Root.DotAI())
	if err := items.Lock.ReadLock(false); err != nil {
		w.Warn("", err)
	}
	if items.User == nil {
		switch taken, err := items.Lock.TakenOver(ctx); {
		case err != nil:
			w.Warn("items of the user's space in the lock", err)
		case taken != nil:
			spaces = append(spaces, taken)
		}
	}
	lines := w.Bundles
	if lines == nil && items.Lock.Old != nil {
		lines = items.Lock.Old.Bundles
	}
	if len(lines) == 0 {
		return spaces
	}
	objects, err := items.Lock.Objects()
	if err != nil {
		w.Warn("the bundles of the lock", err)
		for _, line := range lines {
			items.Unread = append(items.Unread, UnreadBundle{line, err})
		}
		return spaces
	}
	if items.Asked != nil {
		items.Lock.Listed.Beside(items.Asked)
		items.Asked.Advice = w.advised(items.Trust, lines).Of
	}
	for _, line := range lines {
		b, err := readBundle(ctx, objects, line)
		if err != nil {
			w.Warn("the bundle \""+line.ID+"\"", err)
			items.Unread = append(items.Unread, UnreadBundle{line, err})
			continue
		}
		items.Lock.Listed.examine(items.Trust, b, "rye update")
		if s := items.Lock.space(ctx, objects, b); s != nil {
			spaces = append(spaces, s)
		}
	}
	return spaces
}

// readBundle reads a bundle of the lock.
func readBundle(ctx context.Context, objects lock.Source, line lockfile.Bundle) (*bundle.Bundle, error) {
	b, err := bundle.ReadStored(ctx, objects, objects, line.Manifest)
	if errors.Is(err, fs.ErrNotExist) {
		err = &lock.MissingError{ID: cas.ID{Kind: cas.Document, Digest: line.Manifest},
			NeededBy: "bundle:" + line.ID + "@" + line.Version}
	}
	return b, err
}

// space returns the space of all items of a bundle if the store has all of its files. Otherwise it returns the pinned
// items alone, since .ai/vendor has no other files, or nil if no item is pinned.
func (l *Lock) space(ctx context.Context, objects lock.Source, bundle *bundle.Bundle) *ai.Space {
	all := relock.BundleSpace(ctx, objects, bundle)
	if s, err := l.OpenStore(false); err == nil {
		ids := make([]cas.ID, len(bundle.Files))
		for i := range bundle.Files {
			ids[i] = cas.ID{Kind: cas.Blob, Digest: bundle.Files[i].Digest}
		}
		if missing, err := s.Missing(ctx, ids); err == nil && len(missing) == 0 {
			return all
		}
	}
	set, err := l.Set(ctx)
	if err != nil || set.Bundle(bundle.BundleID) == nil || set.Bundle(bundle.BundleID).ID != bundle.ID {
		return all
	}
	if i := slices.IndexFunc(set.Spaces(), func(s *ai.Space) bool { return s.Label == all.Label }); i >= 0 {
		return set.Spaces()[i]
	}
	return nil
}
