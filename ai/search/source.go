package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// A Source can be searched. Results name the source that they are from.
type Source interface {
	Name() string
	Search(ctx context.Context, r Request) (*Response, error)
}

// A SourceError says why a source gave no answer.
type SourceError struct {
	Source string
	Err    error
}

func (e *SourceError) Error() string { return fmt.Sprintf("search in %s: %v", e.Source, e.Err) }

func (e *SourceError) Unwrap() error { return e.Err }

// A Local is the source of a catalog of files and its index.
type Local struct {
	Label   string
	Index   *Index
	Catalog Catalog
}

// Name returns l.Label.
func (l *Local) Name() string { return l.Label }

// Search searches the index.
func (l *Local) Search(ctx context.Context, r Request) (*Response, error) {
	return l.Index.Search(ctx, l.Catalog, r)
}

// Merge asks all sources at once and puts their results into one order; of equal ones, those of earlier sources
// come first. Scores of different sources are compared as they are. A source that fails is named in Failed and
// hides nothing of the others; if all fail, that is an error, which has each *SourceError. The Stats are the first
// source's.
func Merge(ctx context.Context, sources []Source, r Request) (*Response, error) {
	from, to := r.window()
	part := r
	part.Offset, part.Limit = 0, to
	answers, errs := make([]*Response, len(sources)), make([]error, len(sources))
	var wg sync.WaitGroup
	for i, s := range sources {
		wg.Go(func() { answers[i], errs[i] = s.Search(ctx, part) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out := new(Response)
	var failed []error
	known := false
	for i, s := range sources {
		if errs[i] != nil {
			e := &SourceError{s.Name(), errs[i]}
			out.Failed, failed = append(out.Failed, e), append(failed, e)
			continue
		}
		a := answers[i]
		for j := range a.Results {
			a.Results[j].Source = s.Name()
		}
		out.Results = append(out.Results, a.Results...)
		out.Total += a.Total
		out.Failed = append(out.Failed, a.Failed...)
		if i == 0 {
			out.Stats = a.Stats
		}
		if !known {
			out.Unknown, known = a.Unknown, true
		} else { // what one source knows is known
			out.Unknown = slices.DeleteFunc(out.Unknown, func(f string) bool { return !slices.Contains(a.Unknown, f) })
		}
	}
	if len(sources) > 0 && len(failed) == len(sources) {
		return nil, errors.Join(failed...)
	}
	slices.SortStableFunc(out.Results, func(a, b Result) int { return a.compare(&b) })
	out.Results = out.Results[min(from, len(out.Results)):min(to, len(out.Results))]
	return out, nil
}
