//go:build !race

// The race detector makes sync.Pool forget at random.

package cas

import "testing"

func TestTreeAllocations(t *testing.T) {
	entries := benchEntries(100)
	doc, err := AppendTree(nil, entries)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { AppendTree(doc[:0:len(doc)], entries) }); n > 0 {
		t.Errorf("AppendTree allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { ParseTree(entries[:0], doc) }); n > 1 {
		t.Errorf("ParseTree allocates %v times, want once for all names", n)
	}
}
