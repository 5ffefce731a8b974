// Package suggest finds the names that a mistyped word may have meant.
package suggest

import (
	"cmp"
	"slices"
	"strings"
)

// most is how many names Names suggests.
const most = 3

// Names returns up to three of names that begin with word or resemble it, the nearest first.
func Names(word string, names []string) []string {
	type guess struct {
		name     string
		distance int
	}
	var guesses []guess
	low := []byte(strings.ToLower(word))
	bare := strings.TrimLeft(string(low), "-")
	limit := max(1, len(bare)/3)
	for _, name := range names {
		other := strings.ToLower(name)
		d := Distance(low, []byte(other), limit)
		if len(bare) > 1 && strings.HasPrefix(other, string(low)) {
			d = min(d, 1)
		}
		if d <= limit {
			guesses = append(guesses, guess{name, d})
		}
	}
	slices.SortFunc(guesses, func(a, b guess) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var out []string
	for _, g := range guesses[:min(most, len(guesses))] {
		out = append(out, g.name)
	}
	return out
}

// short is the length of words up to which Distance allocates nothing.
const short = 132

// Distance counts the fewest insertions, deletions, replacements and swaps of neighbours that turn a into to and
// change nothing twice. If that is more than limit, it returns some number above limit.
func Distance[T byte | rune](from, to []T, limit int) int {
	if len(from)-len(to) > limit || len(to)-len(from) > limit {
		return limit + 1
	}
	var stack [3][short + 1]int
	rows := [3][]int{stack[0][:], stack[1][:], stack[2][:]}
	if len(to) > short {
		for i := range rows {
			rows[i] = make([]int, len(to)+1)
		}
	}
	for j := range len(to) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(from); i++ {
		row, above, before := rows[i%3], rows[(i+2)%3], rows[(i+1)%3]
		row[0] = i
		least := i
		for j := 1; j <= len(to); j++ {
			change := 1
			if from[i-1] == to[j-1] {
				change = 0
			}
			d := min(above[j]+1, row[j-1]+1, above[j-1]+change)
			if i > 1 && j > 1 && from[i-1] == to[j-2] && from[i-2] == to[j-1] {
				d = min(d, before[j-2]+1)
			}
			row[j] = d
			least = min(least, d)
		}
		if least > limit {
			return limit + 1
		}
	}
	return rows[len(from)%3][len(to)]
}
