package lock

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync/atomic"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// A Source provides objects and the signatures of documents: a store, or a vendor directory.
type Source interface {
	cas.Getter
	bundle.Refs
}

// First combines sources: each object comes from the first source that has it, and a document has the signatures of
// all sources.
func First(sources ...Source) Source {
	var all first
	for _, s := range sources {
		all = append(all, partsOf(s)...)
	}
	return all
}

func partsOf(s Source) first {
	if f, ok := s.(first); ok {
		return f
	}
	return first{s}
}

type first []Source

// Get implements cas.Getter. If a source fails, the next ones are tried: its error counts only if all fail.
func (f first) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	var worst error = &fs.PathError{Op: "get", Path: id.String(), Err: fs.ErrNotExist}
	for _, s := range f {
		o, err := s.Get(ctx, id)
		if err == nil {
			return o, nil
		}
		if ctx.Err() != nil {
			return o, err
		}
		if errors.Is(worst, fs.ErrNotExist) {
			worst = err
		}
	}
	return cas.Object{}, worst
}

// Ref implements bundle.Refs.
func (f first) Ref(name string) (cas.ID, error) {
	for _, s := range f {
		if id, err := s.Ref(name); !errors.Is(err, fs.ErrNotExist) {
			return id, err
		}
	}
	return cas.ID{}, &fs.PathError{Op: "ref", Path: name, Err: fs.ErrNotExist}
}

// Visit calls visit for each of ids as a cas.Visitor does. Sources that are visitors come first, each for the objects
// that the previous ones couldn't provide; Get of the other sources is used for the rest. An object that no source
// has is a *MissingError.
func Visit(ctx context.Context, src Source, ids []cas.ID, visit func(i int, o cas.Object) error) error {
	done := make([]atomic.Bool, len(ids))
	var failed atomic.Bool
	see := func(i int, o cas.Object) error {
		done[i].Store(true)
		err := visit(i, o)
		if err != nil {
			failed.Store(true)
		}
		return err
	}
	at := make([]int, len(ids)) // the ids still to visit
	for i := range at {
		at[i] = i
	}
	for _, s := range partsOf(src) {
		v, ok := s.(cas.Visitor)
		if !ok {
			continue
		}
		some := make([]cas.ID, len(at))
		for k, i := range at {
			some[k] = ids[i]
		}
		err := v.Visit(ctx, some, func(k int, o cas.Object) error { return see(at[k], o) })
		if err == nil || failed.Load() || ctx.Err() != nil {
			return err
		}
		at = slices.DeleteFunc(at, func(i int) bool { return done[i].Load() })
	}
	return cas.Parallel(ctx, 0, len(at), func(ctx context.Context, k int) error {
		o, err := src.Get(ctx, ids[at[k]])
		if errors.Is(err, fs.ErrNotExist) {
			return &MissingError{ID: ids[at[k]]}
		}
		if err != nil {
			return err
		}
		defer o.Close()
		return visit(at[k], o)
	})
}

// readBundle reads a manifest with all of its known signatures.
func readBundle(ctx context.Context, get cas.Getter, refs Source, id cas.Digest) (*bundle.Bundle, error) {
	opened, err := readDocument(ctx, get, id)
	if err != nil {
		return nil, err
	}
	var sets []manifest.Signatures
	for _, s := range partsOf(refs) {
		set, err := bundle.ReadSignatures(ctx, get, s, id)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return opened, opened.Merge(nil, sets...)
}

func readDocument(ctx context.Context, src cas.Getter, id cas.Digest) (*bundle.Bundle, error) {
	o, err := src.Get(ctx, cas.ID{Kind: cas.Document, Digest: id})
	if err != nil {
		return nil, err
	}
	defer o.Close()
	b, err := bundle.Read(o)
	if err != nil {
		return nil, err
	}
	if len(b.Signatures) > 0 || b.ID != id {
		return nil, errNotStripped
	}
	return b, nil
}

var errNotStripped = errors.New("the document contains signature lines")

// A knowing getter adds to the error about a missing object the item that needs it.
type knowing struct {
	cas.Getter
	neededBy func(cas.ID) string
}

func (k knowing) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o, err := k.Getter.Get(ctx, id)
	if errors.Is(err, fs.ErrNotExist) {
		err = &MissingError{ID: id, NeededBy: k.neededBy(id)}
	}
	return o, err
}
