package source

import (
	"context"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
)

// Requires returns a bundle's requirements, from its manifest in the store or else from its source. They only decide
// which bundles are brought, and in which order; Bring verifies them.
func (s *Sources) Requires(ctx context.Context, want file.Bundle) ([]manifest.Require, error) {
	if b, err := bundle.ReadStored(ctx, s.o.Store, s.o.Store, want.Manifest); err == nil {
		return b.Requires, nil
	}
	fail := func(err error) ([]manifest.Require, error) {
		return nil, inSource(want.ID, want.Version, want.Source.Where, err)
	}
	if url, ok := want.Source.Registry(); ok {
		entry, err := s.registryEntry(ctx, want.ID, want.Version, url)
		switch {
		case err != nil:
			return nil, err
		case entry.Manifest != want.Manifest:
			return fail(Mismatch("manifest", want.Manifest.String(), entry.Manifest.String()))
		}
		return requiresIn(entry), nil
	}
	if !want.Source.Index {
		b, err := s.head(ctx, want.ID, want.Source)
		if err != nil {
			return nil, err
		}
		if b.ID != want.Manifest {
			return fail(Mismatch("manifest", want.Manifest.String(), b.ID.String()))
		}
		return b.Requires, nil
	}
	x, err := s.index(ctx, want.Source.Where)
	if err != nil {
		return nil, err
	}
	e := x.Find(want.ID, want.Version)
	switch {
	case e == nil:
		return fail(notListed(want.ID, want.Version, []string{want.Source.Where}, nil))
	case e.Manifest != want.Manifest:
		return fail(Mismatch("manifest", want.Manifest.String(), e.Manifest.String()))
	}
	return requiresIn(e), nil
}
