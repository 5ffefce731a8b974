package lock

import (
	"context"
	"errors"
	"io/fs"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// A Source has objects, and knows the signatures of documents: a store, or a vendor directory.
type Source interface {
	cas.Getter
	bundle.Refs
}

// First is several sources as one: each object comes from the first that has it, and a document has the signatures
// that any of them knows.
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

// Get implements cas.Getter. What one source has and can't give, another may: its error counts only when none has it.
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

// readBundle reads a manifest, with all signatures that are known of it.
func readBundle(ctx context.Context, get cas.Getter, refs Source, id cas.Digest) (*bundle.Bundle, error) {
	b, err := readDocument(ctx, get, id)
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
	return b, b.Merge(nil, sets...)
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

// A knowing getter says of what is missing who needs it.
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
