package cas

import (
	"fmt"
	"testing"
)

// benchEntries is a directory of n files as they occur, every twentieth a directory.
func benchEntries(n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		e := &entries[i]
		e.Name = fmt.Sprintf("file-%05d.txt", i)
		if i%10 == 0 {
			e.Name = "File" + e.Name[4:]
		}
		e.Digest = Sum([]byte(e.Name))
		e.Mode, e.Size = File, int64(i*37)
		switch {
		case i%20 == 0:
			e.Mode, e.Size = Dir, 0
		case i%7 == 0:
			e.Mode = Exec
		}
	}
	sortEntries(entries)
	return entries
}

func BenchmarkAppendTree(b *testing.B) {
	benchTrees(b, func(entries []Entry, doc []byte) error {
		_, err := AppendTree(doc[:0], entries)
		return err
	})
}

func BenchmarkParseTree(b *testing.B) {
	benchTrees(b, func(entries []Entry, doc []byte) error {
		_, err := ParseTree(entries[:0], doc)
		return err
	})
}

func benchTrees(b *testing.B, do func(entries []Entry, doc []byte) error) {
	for _, n := range []int{10, 100, 10000} {
		entries := benchEntries(n)
		doc, err := AppendTree(nil, entries)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				if err := do(entries, doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
