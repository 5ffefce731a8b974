package roster

import (
	"context"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
)

// Items reads items and decides which ones are the user's own.
type Items interface {
	Item(ctx context.Context, ref model.Ref) (*ai.Item, error)
	Owns(ctx context.Context, it *ai.Item) (bool, error)
}

// Owned reports whether the directives of a thread and of all threads above it are the user's own. A missing
// directive isn't.
func Owned(ctx context.Context, r Roster, items Items, thread string) bool {
	for thread != "" {
		row, err := Get(ctx, r, thread)
		if err != nil {
			return false
		}
		ref, err := model.ParseRef(row.Directive)
		if err != nil {
			return false
		}
		it, err := items.Item(ctx, ref)
		if err != nil {
			return false
		}
		if owns, err := items.Owns(ctx, it); !owns || err != nil {
			return false
		}
		thread = row.Parent
	}
	return true
}
