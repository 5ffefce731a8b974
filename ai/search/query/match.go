package query

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/suggest"
)

// Looks returns a function that scores a term against a pattern or a misspelt word, from 0 for no match to 1.
func (n *Node) Looks() func(term []byte) float64 {
	if n.Op == Pattern {
		pattern := []rune(n.Words[0])
		var buf []rune
		return func(term []byte) float64 {
			buf = appendRunes(buf[:0], term)
			if glob(pattern, buf) {
				return 1
			}
			return 0
		}
	}
	want := []rune(n.Words[0])
	var buf []rune
	return func(term []byte) float64 {
		if len(term) > utf8.UTFMax*(len(want)+n.N) || utf8.RuneCount(term) < len(want)-n.N {
			return 0
		}
		buf = appendRunes(buf[:0], term)
		d := suggest.Distance(want, buf, n.N)
		if d > n.N {
			return 0
		}
		return 1 / float64(1+d)
	}
}

func appendRunes(to []rune, b []byte) []rune {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		to, b = append(to, r), b[n:]
	}
	return to
}

// glob reports whether a term matches a pattern. It backtracks only to the last star, so that the time is bounded by
// the product of the lengths.
func glob(pattern, term []rune) bool {
	pos, at, star, taken := 0, 0, -1, 0
	for at < len(term) {
		switch {
		case pos < len(pattern) && pattern[pos] == '*':
			star, taken = pos, at
			pos++
		case pos < len(pattern) && (pattern[pos] == '?' || pattern[pos] == term[at]):
			pos++
			at++
		case star >= 0:
			taken++
			pos, at = star+1, taken
		default:
			return false
		}
	}
	for pos < len(pattern) && pattern[pos] == '*' {
		pos++
	}
	return pos == len(pattern)
}

// Occurrences calls yield for every occurrence of a phrase, given the sorted positions of each word.
func (n *Node) Occurrences(positions [][]uint32, yield func(first, last uint32)) {
	for _, p := range positions {
		if len(p) == 0 {
			return
		}
	}
	if n.N > 0 {
		n.near(positions, yield)
		return
	}
next:
	for _, at := range positions[0] {
		for i := 1; i < len(positions); i++ {
			if _, ok := slices.BinarySearch(positions[i], at+uint32(i)); !ok {
				continue next
			}
		}
		yield(at, at+uint32(len(positions)-1))
	}
}

// near finds the shortest stretches with all words in any order, each as often as the query has it.
func (n *Node) near(positions [][]uint32, yield func(first, last uint32)) {
	type place struct {
		at   uint32
		word int
	}
	var all []place
	need := make([]int, len(positions))
	missing := len(positions)
	for i, w := range n.Words {
		same := slices.Index(n.Words, w) // equal words share the positions of the first
		need[same]++
		if same == i {
			for _, at := range positions[i] {
				all = append(all, place{at, i})
			}
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	from := 0
	for _, p := range all {
		if need[p.word]--; need[p.word] >= 0 {
			missing--
		}
		for missing == 0 {
			first := all[from]
			from++
			if need[first.word]++; need[first.word] > 0 {
				missing++
				if p.at-first.at <= uint32(n.N) {
					yield(first.at, p.at)
				}
			}
		}
	}
}
