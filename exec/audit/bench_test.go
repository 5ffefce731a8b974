package audit

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/manifest/key"
)

// BenchmarkAppend begins and ends one call.
func BenchmarkAppend(b *testing.B) {
	for _, required := range []bool{false, true} {
		b.Run(fmt.Sprintf("required=%v", required), func(b *testing.B) {
			l := newLog(b, b.TempDir(), func(o *Options) { o.Required = required })
			c, o := fullCall("a"), done()
			for b.Loop() {
				e, err := l.Begin(b.Context(), c)
				must(b, err)
				must(b, e.End(b.Context(), o))
			}
			must(b, l.Close(b.Context()))
		})
	}
}

// BenchmarkRequiredTogether has 64 calls at once wait for the disk.
func BenchmarkRequiredTogether(b *testing.B) {
	l := newLog(b, b.TempDir(), required)
	b.SetParallelism(32)
	ids := make(chan string, 1024)
	go func() {
		for i := 0; ; i++ {
			ids <- fmt.Sprint(i)
		}
	}()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			e, err := l.Begin(b.Context(), fullCall(<-ids))
			must(b, err)
			must(b, e.End(b.Context(), done()))
		}
	})
	must(b, l.Close(b.Context()))
}

// BenchmarkProcess is what a process pays that makes one call.
func BenchmarkProcess(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "audit")
	for b.Loop() {
		l := newLog(b, dir, nil)
		run(b, l, "a")
		must(b, l.Close(b.Context()))
	}
}

// BenchmarkRead reads a log of 40,000 lines.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	l := newLog(b, dir, nil)
	for i := range 20_000 {
		e, err := l.Begin(b.Context(), fullCall(fmt.Sprint(i)))
		must(b, err)
		must(b, e.End(b.Context(), done()))
	}
	must(b, l.Close(b.Context()))
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			r, err := Verify(b.Context(), dir, []key.Public{userKey.Public()})
			if err != nil || len(r.Problems) > 0 || r.Lines != 40_001 {
				b.Fatal(r, err)
			}
		}
		b.ReportMetric(40_000*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
	})
	b.Run("stats", func(b *testing.B) {
		for b.Loop() {
			if s, err := Stats(b.Context(), dir, Filter{}); err != nil || s.Calls != 20_000 {
				b.Fatal(s, err)
			}
		}
		b.ReportMetric(40_000*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
	})
}
