package osfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A countedContext calls a function when it is asked for its error the n-th time.
type countedContext struct {
	context.Context
	left int
	do   func()
}

func (c *countedContext) Err() error {
	if c.left--; c.left == 0 {
		c.do()
	}
	return c.Context.Err()
}

// TestCommitSynced: a large batch is committed once the moved names are durable, and not before: after a power failure
// a user would have the old files although the new ones were acknowledged.
func TestCommitSynced(t *testing.T) {
	for name, fails := range map[string]bool{"synced": false, "not synced": true} {
		d, b := openTemp(t), NewBatch(2*fewFiles, time.Now())
		var all []*Staged
		for i := range 2 * fewFiles {
			at := filepath.Join("a", fmt.Sprint("f", i))
			must(t, os.MkdirAll(d.Where("a"), 0o755))
			must(t, os.WriteFile(d.Where(at), []byte("old"), 0o644))
			before, err := os.Lstat(d.Where(at))
			must(t, err)
			st, err := b.Stage(d, at, before, 0o644, BytesOf([]byte("new "+at)))
			must(t, err)
			all = append(all, st)
		}
		// In the middle of the moves, whose directory is open by then.
		ctx := &countedContext{context.Background(), fewFiles, func() {
			if fails {
				must(t, d.Root.Close()) // through which the file system is synced
			}
		}}
		err := b.Commit(ctx, all)
		if fails != errors.Is(err, os.ErrClosed) || ctx.left > 0 {
			t.Errorf("%s: %v", name, err)
		}
		if n := left(t, d, all); n != len(all) {
			t.Errorf("%s: %d of %d are placed: %v", name, n, len(all), err)
		}
	}
}
