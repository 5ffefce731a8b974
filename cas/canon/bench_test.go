package canon_test

import (
	"bytes"
	"testing"

	"github.com/rye-build/rye/cas/canon"
)

const benchEntries = 100_000

func BenchmarkScan(b *testing.B) {
	doc := treeDocument(b, benchEntries)
	s := canon.NewScannerBytes(nil, treeSpec)
	r := bytes.NewReader(nil)
	run := func(b *testing.B, reset func()) {
		b.SetBytes(int64(len(doc)))
		b.ReportAllocs()
		for b.Loop() {
			reset()
			n, sum := 0, int64(0)
			for s.Scan() {
				n += len(s.Key()) + len(s.Str(0)) + len(s.Str(2))
				sum += s.Int(1)
			}
			if s.Err() != nil || n == 0 || sum != benchEntries*1234 {
				b.Fatal(s.Err(), n, sum)
			}
		}
	}
	b.Run("bytes", func(b *testing.B) { run(b, func() { s.ResetBytes(doc) }) })
	b.Run("reader", func(b *testing.B) { run(b, func() { r.Reset(doc); s.Reset(r) }) })
}

// A directory of ten files: what a tree costs that is read once.
func BenchmarkScanSmall(b *testing.B) {
	doc := treeDocument(b, 10)
	s := canon.NewScannerBytes(nil, treeSpec)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		s.ResetBytes(doc)
		for s.Scan() {
		}
		if s.Err() != nil {
			b.Fatal(s.Err())
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	doc := treeDocument(b, benchEntries)
	d, err := readBytes(doc, treeSpec)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	dst := make([]byte, 0, len(doc))
	for b.Loop() {
		e := canon.NewEncoderBytes(dst, treeSpec)
		for i := range d.entries {
			x := &d.entries[i]
			e.Begin(x.section, x.key)
			e.Str(0, x.fields[0].(string))
			e.Int(1, x.fields[1].(int64))
			e.Str(2, x.fields[2].(string))
			e.End()
		}
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
