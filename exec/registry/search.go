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
	Private bool   `json:"private,omitempty"` // of a private namespace
}

// Search returns the bundles whose id or description has all words of a query, those whose id has them first: public
// ones, and those of the private namespaces that the caller may see. Of a private namespace that is named it returns
// that one's alone.
func (r *Registry) Search(ctx context.Context, by *Caller, query, private string) ([]Hit, error) {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 || len(query) > maxQuery {
		return nil, fault.New(fault.Validation, "a query has one to %d characters", maxQuery)
	}
	logs, err := r.visible(ctx, by, private)
	if err != nil {
		return nil, err
	}
	newest, err := r.newest(ctx, logs...)
	if err != nil {
		return nil, err
	}
	var hits, others []Hit
	for id, v := range newest {
		hit := Hit{id, v.Version, v.About, v.License, v.Private}
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

// visible returns the logs that a caller may search: those of all namespaces, or of one private namespace.
func (r *Registry) visible(ctx context.Context, by *Caller, private string) (logs []*log, err error) {
	if private == "" {
		logs = []*log{r.public}
	}
	if by == nil {
		return logs, nil
	}
	return logs, r.o.Rows.View(ctx, func(in rows.Reader) error {
		return each(in, "space/", func(name string, space *Space) (bool, error) {
			if !space.Private || !by.sees(name, space) || private != "" && private != name {
				return true, nil
			}
			l, err := r.private(name)
			logs = append(logs, l)
			return true, err
		})
	})
}

// newest returns the newest version of each bundle of logs that isn't yanked.
func (r *Registry) newest(ctx context.Context, logs ...*log) (map[string]*Version, error) {
	newest := map[string]*Version{}
	err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		clear(newest)
		for _, l := range logs {
			if err := each(in, l.versionRows(), func(_ string, v *Version) (bool, error) {
				if v.Unpublished > 0 || v.Yanked > 0 {
					return true, nil
				}
				if old := newest[v.Bundle]; old == nil ||
					manifest.NewestVersion([]string{old.Version, v.Version}) == v.Version {
					newest[v.Bundle] = v
				}
				return true, nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return newest, err
}

// Newest returns the newest version of each public bundle that isn't yanked, sorted by bundle, and how many entries
// the log has then: what was made of an answer is good for as long as that number stays.
func (r *Registry) Newest(ctx context.Context) (all []*Version, size int64, err error) {
	if size, err = r.Size(ctx); err != nil {
		return nil, 0, err
	}
	newest, err := r.newest(ctx, r.public)
	for _, id := range slices.Sorted(maps.Keys(newest)) {
		all = append(all, newest[id])
	}
	return all, size, err
}

// Size returns the number of the public log's entries.
func (r *Registry) Size(ctx context.Context) (size int64, err error) {
	err = r.o.Rows.View(ctx, func(in rows.Reader) error {
		state, err := get[logState](in, r.public.stateRow())
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
