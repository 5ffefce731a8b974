package thread_test

import (
	"fmt"
	"testing"

	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
)

// BenchmarkTurns measures what a turn costs beside its model and its tools: each loads an item, and the answers come
// from a record. A turn of a long thread should cost what one of a short thread does.
func BenchmarkTurns(b *testing.B) {
	for _, turns := range []int{50, 200} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			w := newWorld(b, plain(asking))
			w.Put("knowledge/acme/facts.md",
				"---\nid: facts\ntitle: Facts\nentry_type: reference\ncategory: acme\nversion: 1.0.0\n---\nThe earth is round.\n")
			asked := 0
			w.server.Handle(func(*modeltest.Request) modeltest.Turn {
				if asked++; asked > turns {
					return done
				}
				return modeltest.Turn{Text: "Let me look that up.", Usage: provider.Usage{Input: 10, Output: 5},
					Calls: []provider.ToolCall{call(fmt.Sprint("c", asked), "rye_load",
						object{"item_type": "knowledge", "item_id": "acme/facts"})}}
			})
			start := thread.Start{Limits: []string{"turns=1000", "tokens=1000000000"}}
			r, err := w.run(b.Context(), start)
			must(b, err)
			start.Replay = w.dir(r.Thread)
			for b.Loop() {
				if r, err = w.run(b.Context(), start); err != nil || !r.Success || r.Cost.Turns != int64(turns)+1 {
					b.Fatalf("%+v, %v", r, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*turns), "ms/turn")
		})
	}
}
