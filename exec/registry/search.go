package registry

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/manifest"
)

// The limits of a search.
const (
	maxQuery = 200 // characters
	maxHits  = 50
)

// A Hit is a bundle that a search found.
type Hit struct {
	Bundle  string `json:"bundle"`
	Version string `json:"version"` // the newest that isn't yanked
	About   string `json:"about,omitempty"`
	License string `json:"license,omitempty"`
}

// Search returns the bundles whose id or description has all words of a query, those whose id has them first.
func (r *Registry) Search(ctx context.Context, query string) ([]Hit, error) {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 || len(query) > maxQuery {
		return nil, fault.New(fault.Validation, "a query has one to %d characters", maxQuery)
	}
	newest, err := r.newest(ctx)
	if err != nil {
		return nil, err
	}
	var hits, others []Hit
	for id, v := range newest {
		hit := Hit{id, v.Version, v.About, v.License}
		switch {
		case hasAll(id, words):
			hits = append(hits, hit)
		case hasAll(id+" "+v.About, words):
			others = append(others, hit)
		}
	}
	for _, list := range [][]Hit{hits, others} {
		slices.SortFunc(list, func(a, b Hit) int { return strings.Compare(a.Bundle, b.Bundle) })
	}
	all := append(hits, others...)
	return all[:min(len(all), maxHits)], nil
}

// newest returns the newest version of each bundle that isn't yanked.
func (r *Registry) newest(ctx context.Context) (map[string]*Version, error) {
	newest := map[string]*Version{}
	err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		clear(newest)
		return each(in, "version/", func(_ string, v *Version) (bool, error) {
			if v.Unpublished > 0 || v.Yanked > 0 {
				return true, nil
			}
			if old := newest[v.Bundle]; old == nil ||
				manifest.NewestVersion([]string{old.Version, v.Version}) == v.Version {
				newest[v.Bundle] = v
			}
			return true, nil
		})
	})
	return newest, err
}

// Newest returns the newest version of each bundle that isn't yanked, sorted by bundle, and how many entries the log
// has then: what was made of an answer is good for as long as that number stays.
func (r *Registry) Newest(ctx context.Context) (all []*Version, size int64, err error) {
	if size, err = r.Size(ctx); err != nil {
		return nil, 0, err
	}
	newest, err := r.newest(ctx)
	for _, id := range slices.Sorted(maps.Keys(newest)) {
		all = append(all, newest[id])
	}
	return all, size, err
}

// Size returns the number of the log's entries.
func (r *Registry) Size(ctx context.Context) (size int64, err error) {
	err = r.o.Rows.View(ctx, func(in rows.Reader) error {
		state, err := get[logState](in, "log/"+publicLog)
		if err == nil && state != nil {
			size = state.Size
		}
		return err
	})
	return size, err
}

func hasAll(text string, words []string) bool {
	text = strings.ToLower(text)
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}
