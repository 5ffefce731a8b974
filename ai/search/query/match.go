package query

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// Looks returns a function that says how much a term counts for a pattern or a misspelt word: not at all, or up
// to 1.
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
		d := distance(want, buf, n.N)
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

// glob reports whether a term looks like a pattern. When a star has to take more it is always the last one, so
// that the time is bounded by the product of the lengths.
func glob(pattern, term []rune) bool {
	p, t, star, taken := 0, 0, -1, 0
	for t < len(term) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, taken = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == term[t]):
			p++
			t++
		case star >= 0:
			taken++
			p, t = star+1, taken
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// distance counts the least insertions, deletions, replacements and swaps of neighbours that make a of b, where
// nothing is changed twice. If it is more than most, it returns something more than most.
func distance(a, b []rune, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	var rows [3][2*maxTerm + 4]uint8
	if len(b) >= len(rows[0]) {
		return most + 1
	}
	for j := range len(b) + 1 {
		rows[0][j] = uint8(j)
	}
	for i := 1; i <= len(a); i++ {
		row, above, before := &rows[i%3], &rows[(i+2)%3], &rows[(i+1)%3]
		row[0] = uint8(i)
		least := uint8(i)
		for j := 1; j <= len(b); j++ {
			change := uint8(1)
			if a[i-1] == b[j-1] {
				change = 0
			}
			d := min(above[j]+1, row[j-1]+1, above[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, before[j-2]+1)
			}
			row[j] = d
			least = min(least, d)
		}
		if int(least) > most {
			return most + 1
		}
	}
	return int(rows[len(a)%3][len(b)])
}

// Occurrences calls yield for every place where the words of a phrase stand, given the sorted positions of each.
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

// near finds the shortest stretches that hold all words, in any order, a word as often as it was asked for.
func (n *Node) near(positions [][]uint32, yield func(first, last uint32)) {
	type place struct {
		at   uint32
		word int
	}
	var all []place
	need := make([]int, len(positions))
	missing := len(positions)
	for i, w := range n.Words {
		same := slices.Index(n.Words, w) // the first of equal words stands for them
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
