package lock

import (
	"context"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/file"
)

// SetOptions say where the bytes are that a lock names.
type SetOptions struct {
	Objects Source
	Std     *ai.Space // the library in the binary
}

// A Set is a lock with the items that it pins. It is never changed, and safe for use by many goroutines.
type Set struct{ *Side }

// NewSet makes a set of a lock as file.Parse returns it, which isn't changed any more; id is the digest of the file's
// bytes. What is wrong with it is a *RefusedError; any other error is the context's.
func NewSet(ctx context.Context, l *file.Lock, id cas.Digest, o SetOptions) (*Set, error) {
	a, err := assemble(ctx, l, id, o)
	if err != nil {
		return nil, err
	}
	if len(a.wrong) > 0 {
		return nil, &RefusedError{a.wrong}
	}
	return &Set{a.Side}, nil
}

// Get implements cas.Getter, for what the lock names by digest, such as its artifacts. What isn't there is a
// *MissingError. The bytes are as the sources of the set have them: readers hash them.
func (s *Set) Get(ctx context.Context, id cas.ID) (cas.Object, error) { return s.get.Get(ctx, id) }

// ID returns the digest of the lock's bytes.
func (s *Set) ID() cas.Digest { return s.id }

// Pin returns the pin of an item, nil if there is none.
func (s *Set) Pin(ref model.Ref) *file.Pin { return s.lock.Pin(ref) }

// Bundle returns what the manifest of a bundle says, nil if the lock has no such bundle. Its signatures aren't checked
// here.
func (s *Set) Bundle(id string) *bundle.Bundle {
	for i := range s.lock.Bundles {
		if s.lock.Bundles[i].ID == id {
			return s.bundles[i]
		}
	}
	return nil
}

// Spaces returns the spaces, from the highest to the lowest. A view of them that isn't made by View takes up
// extractors without a pin.
func (s *Set) Spaces() []*ai.Space { return slices.Clone(s.spaces) }
