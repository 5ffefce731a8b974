package check

import (
	"context"
	"errors"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
)

// Links is a resolver that caches executors, for an operation on many tools. It is for checks, never for a run.
type Links struct {
	ai.Resolver

	mu           sync.Mutex
	found        map[link]resolved
	hits, misses int64
}

// maxLinks bounds the cache of Links.
const maxLinks = 500

type link struct {
	ref  model.Ref
	from *ai.Space
}

type resolved struct {
	it  *ai.Item
	err error
}

// NewLinks returns a resolver that caches the results of r.
func NewLinks(r ai.Resolver) *Links { return &Links{Resolver: r, found: map[link]resolved{}} }

// Resolve implements ai.Resolver.
func (r *Links) Resolve(ctx context.Context, ref model.Ref, from *ai.Space) (*ai.Item, error) {
	key := link{ref, from}
	r.mu.Lock()
	l, ok := r.found[key]
	if ok {
		r.hits++
	} else {
		r.misses++
	}
	r.mu.Unlock()
	if ok {
		return l.it, l.err
	}
	it, err := r.Resolver.Resolve(ctx, ref, from)
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() == nil && len(r.found) < maxLinks {
		r.found[key] = resolved{it, err}
	}
	return it, err
}

// Rate returns the number of cache hits and misses.
func (r *Links) Rate() (hits, misses int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hits, r.misses
}

// Shadow returns an error if an item replaces a protected one without override.
func Shadow(ctx context.Context, r ai.Resolver, it *ai.Item) error {
	if it.Space.Builtin || !ai.Protected(it.ID) {
		return nil
	}
	_, err := r.Resolve(ctx, it.Ref, it.Space)
	if e, ok := errors.AsType[*ai.ShadowError](err); ok {
		return e
	}
	return nil
}
