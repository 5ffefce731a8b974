package exec_test

import (
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/exec"
)

// BenchmarkPrepare decides everything about a call of a tool with a runtime and other files, from spaces on disk.
func BenchmarkPrepare(b *testing.B) {
	w, _ := swapping(b)
	v, trust := w.view(), w.trust()
	for b.Loop() {
		p, err := w.kernel.Prepare(b.Context(), &exec.Base{Resolver: v, Admit: ai.NewAdmitter(v, trust)},
			call(swapped, nil))
		if err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}

// BenchmarkCall makes whole calls, log and receipt too, of a primitive that does nothing: 1,000 at once.
func BenchmarkCall(b *testing.B) {
	w, _ := swapping(b)
	set, view := w.pinned(swapped)
	resolver, trust := set.Resolver(view), w.trust()
	b.SetParallelism(500) // times the processors
	b.ResetTimer()
	b.RunParallel(func(next *testing.PB) {
		for next.Next() {
			base := &exec.Base{Resolver: resolver, Admit: ai.NewAdmitter(resolver, set.Examiner(trust)), Set: set.ID()}
			p, err := w.kernel.Prepare(b.Context(), base, call(swapped, nil))
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := p.Run(b.Context(), nil); err != nil {
				b.Error(err)
			}
			p.Close()
		}
	})
}
