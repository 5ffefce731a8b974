package session

import (
	"context"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/drift"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
)

// movedTo returns the file that has the bytes of a missing item: it was renamed without rye mv. Nil: none.
func (s *Session) movedTo(ctx context.Context, o drift.Options, missing *drift.Difference) *ai.Item {
	pin := s.set.Pin(missing.Ref)
	if missing.Kind != drift.Gone || pin == nil || pin.Path != missing.Path {
		return nil
	}
	listing, err := o.Working.Files(ctx, missing.Ref.Kind)
	if err != nil {
		return nil
	}
	for _, f := range listing.Files {
		if f.Space.Level != ai.Project || path.Ext(f.Path) != path.Ext(pin.Path) || s.set.Pin(f.Ref) != nil {
			continue
		}
		if it, err := o.Working.Load(ctx, f); err == nil && it.Raw == pin.Digest {
			return it
		}
	}
	return nil
}

// movedFrom returns the pin of the missing item whose bytes an unpinned one has. Nil: none.
func movedFrom(current *workspace.Lock, it *ai.Item) *file.Pin {
	for _, p := range current.Old.Pins {
		if p.From != file.FromProject || p.Ref.Kind != it.Ref.Kind || p.Digest != it.Raw {
			continue
		}
		if _, err := fs.Stat(it.Space.FS, p.Path); err != nil {
			return &p
		}
	}
	return nil
}

// useMv adds to an error that an item was renamed without rye mv, and how to rename it.
func useMv(f *fault.Error, current *workspace.Lock, old model.Ref, before string, it *ai.Item) {
	place := func(p string) string { return current.Show(filepath.Join(current.DotAI, p)) }
	f.Because(fault.Quote(place(it.Path)) + " has the bytes of " + old.String() + ": rename items with rye mv")
	f.Hint = append([]string{fault.Command("mv", place(it.Path), place(before)) + " && " +
		fault.Command("rye mv", old.String(), it.Ref.ID)}, f.Hint...)
}
