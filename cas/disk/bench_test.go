package disk

import (
	"io"
	"testing"

	"github.com/rye-build/rye/cas"
)

// sources are many small texts, like a tree of programs.
func sources() (files [][]byte, size int64) {
	for i := range 5000 {
		b := text(uint64(i), 200+i*37%12000)
		files, size = append(files, b), size+int64(len(b))
	}
	return files, size
}

// assets are a few long files that don't compress.
func assets() (files [][]byte, size int64) {
	for i := range 4 {
		files, size = append(files, noise(uint64(i), 8<<20)), size+8<<20
	}
	return files, size
}

func importAll(b *testing.B, s *Store, files [][]byte) (ids []cas.ID) {
	b.Helper()
	batch, err := s.Batch(b.Context())
	must(b, err)
	for _, f := range files {
		d, err := batch.PutBytes(b.Context(), cas.Blob, f)
		must(b, err)
		ids = append(ids, cas.ID{Kind: cas.Blob, Digest: d})
	}
	must(b, batch.Commit(b.Context()))
	must(b, batch.Close())
	return ids
}

func bench(b *testing.B, what func() ([][]byte, int64)) {
	files, size := what()
	newStore := func() *Store {
		s, err := Open(ramDir(b), Options{Create: true})
		must(b, err)
		return s
	}
	b.Run("import", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			importAll(b, newStore(), files)
		}
	})
	s := newStore()
	ids := importAll(b, s, files)
	b.Run("again", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			importAll(b, s, files)
		}
	})
	b.Run("missing", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if absent, err := s.Missing(b.Context(), ids); err != nil || len(absent) > 0 {
				b.Fatal(absent, err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/id")
	})
	b.Run("visit", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			must(b, s.Visit(b.Context(), ids, func(_ int, o cas.Object) error {
				_, err := io.Copy(io.Discard, o)
				return err
			}))
		}
	})
	b.Run("fsck", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			must(b, clean(s))
		}
	})
}

func BenchmarkSources(b *testing.B) { bench(b, sources) }
func BenchmarkAssets(b *testing.B)  { bench(b, assets) }
