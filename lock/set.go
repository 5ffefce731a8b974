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

// SetOptions are the sources of the bytes that a lock names.
type SetOptions struct {
	Objects Source
	Std     *ai.Space // the library in the binary
}

// A Set is a lock with its pinned items. It is immutable and safe for concurrent use.
type Set struct{ *Side }

// NewSet makes a set of a parsed lock, which must not change afterwards; id is the digest of the file's bytes.
// Problems with the lock are a *RefusedError; any other error is the context's.
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

// Get implements cas.Getter for objects that the lock names by digest, such as its artifacts. A missing object is a
// *MissingError. The bytes come unverified from the set's sources: readers hash them.
func (s *Set) Get(ctx context.Context, id cas.ID) (cas.Object, error) { return s.get.Get(ctx, id) }

// ID returns the digest of the lock's bytes.
func (s *Set) ID() cas.Digest { return s.id }

// Pin returns the pin of an item, or nil.
func (s *Set) Pin(ref model.Ref) *file.Pin { return s.lock.Pin(ref) }

// Bundle returns the manifest of a locked bundle, or nil if the lock doesn't have the bundle. It doesn't verify
// signatures.
func (s *Set) Bundle(id string) *bundle.Bundle {
	for i := range s.lock.Bundles {
		if s.lock.Bundles[i].ID == id {
			return s.bundles[i]
		}
	}
	return nil
}

// Spaces returns the spaces, from the highest to the lowest. Use View for a view of them: any other view would accept
// extractors without a pin.
func (s *Set) Spaces() []*ai.Space { return slices.Clone(s.spaces) }
