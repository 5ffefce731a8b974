package inverted

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestTerms: the postings of each term are what was appended to them, in any pieces, and the terms are sorted, those
// too that differ by what is 0 or only behind their first bytes.
func TestTerms(t *testing.T) {
	if size := unsafe.Sizeof(list{}); size != 64 {
		t.Errorf("a list has %d bytes", size)
	}
	r, all, want := rand.New(rand.NewPCG(7, 8)), New(), map[string][]byte{}
	known := []string{"", "\x00", "a", "a\x00", "abcdefgh", "abcdefgh\x00", "abcdefghi", "abcdefghj", "abcdefg",
		string(bytes.Repeat([]byte("z"), 100))}
	for i := range 5000 {
		known = append(known, fmt.Sprint("term", i*i))
	}
	for range 200_000 {
		term := known[min(r.IntN(len(known)), r.IntN(len(known)), r.IntN(len(known)))]
		piece := bytes.Repeat([]byte{byte(r.Uint32())}, []int{r.IntN(8), r.IntN(8), r.IntN(40), r.IntN(8)}[r.IntN(4)])
		if r.IntN(20_000) == 0 {
			piece = bytes.Repeat([]byte("long"), 3000)
		}
		all.post(&all.lists[all.number([]byte(term))], piece)
		want[term] = append(want[term], piece...)
	}
	last, n := "", 0
	all.Each(func(term string, bytes int, appendTo func([]byte) []byte) {
		if n > 0 && term <= last {
			t.Fatalf("%q is behind %q", term, last)
		}
		if got := appendTo([]byte("x")); string(got) != "x"+string(want[term]) || bytes != len(want[term]) {
			t.Fatalf("%q: %d bytes instead of %d", term, len(got)-1, len(want[term]))
		}
		n += bytes
		delete(want, term)
		last = term
	})
	if len(want) > 0 || n != all.Bytes() {
		t.Errorf("%d terms are lost, %d of %d bytes there", len(want), n, all.Bytes())
	}
}

// TestHits: what a term has in a document says how many were left out, in which fields it is, and where.
func TestHits(t *testing.T) {
	all := New()
	for _, term := range []string{"a", "b", "a"} {
		all.Hit([]byte(term), 0, 5)
	}
	all.Hit([]byte("a"), 2, 300)
	all.Next()
	all.Next()
	all.Hit([]byte("a"), 1, 0)
	all.Next()
	got := ""
	all.Each(func(term string, _ int, appendTo func([]byte) []byte) {
		got += fmt.Sprintf("%s%v", term, appendTo(nil))
	})
	if want := "a[0 1 2 5 0 4 1 172 2 1 2 1 0]b[0 0 1 5]"; got != want {
		t.Errorf("%s instead of %s", got, want)
	}
}
