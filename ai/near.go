package ai

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/suggest"
)

const (
	maxNear    = 3     // names in a message
	maxLoad    = 20    // candidates to load, to see whether they are items
	maxCompare = 10000 // names to compare
)

// near returns similar refs: with the same name elsewhere, or with at most two letters changed.
func (v *View) near(ctx context.Context, ref model.Ref) []string {
	listing, err := v.Files(ctx)
	if err != nil {
		return nil
	}
	type candidate struct {
		file *File
		far  int
	}
	var found []candidate
	id := strings.ToLower(ref.ID)
	for i := range listing.Files[:min(len(listing.Files), maxCompare)] {
		file := &listing.Files[i]
		far := 3
		if other := strings.ToLower(file.ID); file.Ref == ref {
			continue
		} else if d := suggest.Distance([]byte(id), []byte(other), 2); d <= 2 {
			far = d
		} else if strings.EqualFold(file.Name(), ref.Name()) {
			far = 2
		}
		if file.Ref.Kind != ref.Kind && far > 0 {
			continue // of other kinds only the exact name is worth showing
		}
		if far <= 2 {
			found = append(found, candidate{file, far})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.file.Ref.String(), b.file.Ref.String()))
	})
	var names []string
	for _, c := range found[:min(len(found), maxLoad)] {
		name := c.file.Ref.String()
		if len(names) == maxNear || slices.Contains(names, name) {
			continue
		}
		// Don't suggest assets.
		if _, err := v.Load(ctx, *c.file); err == nil {
			names = append(names, name)
		}
	}
	return names
}
