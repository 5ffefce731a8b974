package thread_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
)

// TestSyncs: a turn with calls costs two syncs, whatever came before it: one of the request, one of the calls. With a
// price the reservation is the third.
func TestSyncs(t *testing.T) {
	t.Parallel()
	count := func(turns int) int {
		var all []modeltest.Turn
		for i := range turns {
			all = append(all, modeltest.Turn{Calls: []provider.ToolCall{executes(fmt.Sprint("c", i), "acme/echo",
				object{"text": "x"})}, Usage: provider.Usage{Input: 10, Output: 5}})
		}
		w := newWorld(t, plain(asking), append(all, modeltest.Turn{Text: "done"})...)
		var mu sync.Mutex
		n := 0
		hook := func(op, _ string, _ []byte) error {
			mu.Lock()
			defer mu.Unlock()
			if op == "sync" {
				n++
			}
			return nil
		}
		books := filepath.Join(w.Paths().State.Path, "counted")
		w.engine.Hook, w.engine.Roster, w.engine.Ledger = hook,
			roster.Open(filepath.Join(books, "registry"), time.Now, hook),
			ledger.In(filepath.Join(books, "ledger"), hook)
		r, err := w.run(t.Context(), thread.Start{})
		must(t, err)
		if !r.Success {
			t.Fatalf("%+v, %v", r, r.Error)
		}
		return n
	}
	few, more := count(1), count(4)
	if more-few != 3*2 {
		t.Errorf("three turns more cost %d syncs", more-few)
	}
}
