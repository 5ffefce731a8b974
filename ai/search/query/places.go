package query

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Range is a piece of a text, in bytes.
type Range struct{ Start, End int }

// maxRanges bounds the places reported for a field.
const maxRanges = 1000

// Places returns where a field's text has words of the query that aren't negated, sorted and without overlaps.
func (q *Query) Places(field, text string) []Range {
	var wanted []*Node
	q.Root.Leaves(false, func(n *Node, negated bool) {
		if !negated && (n.Field == "" || n.Field == strings.ToLower(field)) {
			wanted = append(wanted, n)
		}
	})
	if len(wanted) == 0 {
		return nil
	}
	return places(text, wanted)
}

// A placed is a word of a phrase with its place.
type placed struct {
	word int
	pos  uint32
	at   Range
}

// places finds leaves in a text.
func places(text string, leaves []*Node) []Range {
	var out []Range
	looks := make([]func([]byte) float64, len(leaves))
	phrases := make([][]placed, len(leaves))
	for i, n := range leaves {
		if n.Op == Pattern || n.Op == Fuzzy {
			looks[i] = n.Looks()
		}
	}
	var t Tokenizer
	t.Each(text, func(k Token) {
		at := Range{k.Start, k.End}
		for i, n := range leaves {
			switch {
			case n.Op == Phrase:
				for w, word := range n.Words {
					if word == string(k.Term) {
						phrases[i] = append(phrases[i], placed{w, uint32(k.Pos), at})
					}
				}
			case n.Op == Word && n.Words[0] == string(k.Term), looks[i] != nil && looks[i](k.Term) > 0:
				out = append(out, at)
			}
		}
	})
	for i, n := range leaves {
		if n.Op == Phrase {
			out = together(n, phrases[i], out)
		}
	}
	return merge(out)
}

// together appends the places where a phrase's words are close enough.
func together(n *Node, all []placed, out []Range) []Range {
	positions := make([][]uint32, len(n.Words))
	for _, p := range all {
		positions[p.word] = append(positions[p.word], p.pos)
	}
	from := 0
	n.Occurrences(positions, func(first, last uint32) {
		for from < len(all) && all[from].pos < first {
			from++
		}
		for _, p := range all[from:] {
			if p.pos > last {
				break
			}
			out = append(out, p.at)
		}
	})
	return out
}

// merge sorts ranges and joins those that overlap.
func merge(all []Range) []Range {
	slices.SortFunc(all, func(a, b Range) int { return a.Start - b.Start })
	out := all[:0]
	for _, r := range all {
		if n := len(out); n > 0 && r.Start < out[n-1].End {
			out[n-1].End = max(out[n-1].End, r.End)
		} else if n == maxRanges {
			break
		} else {
			out = append(out, r)
		}
	}
	return out
}

// A Snippet is a piece of a text on one line, with the highlights in it.
type Snippet struct {
	Text          string
	Ranges        []Range // in Text
	Before, After bool    // the text continues there
}

// Cut returns at most size bytes of a text: those around the stretch with most highlights, or its beginning without
// highlights. White space and control characters become one space.
func Cut(text string, ranges []Range, size int) Snippet {
	first, last := 0, 0
	if len(ranges) > 0 {
		i, j := densest(ranges, size)
		first = ranges[i].Start
		last = min(ranges[j].End, first+size)
	}
	from := max(0, first-(size-(last-first))/3)
	to := min(len(text), from+size)
	from = wordStart(text, max(0, min(from, to-size)), first)
	to = wordEnd(text, to, last)
	snippet := Snippet{Before: from > 0, After: to < len(text)}
	var out strings.Builder
	ends := make([]Range, 0, len(ranges))
	for _, r := range ranges {
		if r.Start >= from && r.End <= to {
			ends = append(ends, Range{-1, -1})
		} else if r.Start >= to {
			break
		}
	}
	next := slices.IndexFunc(ranges, func(r Range) bool { return r.Start >= from })
	done := 0
	for i, char := range text[from:to] {
		at := from + i
		for done < len(ends) && at >= ranges[next+done].End {
			ends[done].End = out.Len()
			done++
		}
		if done < len(ends) && at == ranges[next+done].Start {
			ends[done].Start = out.Len()
		}
		if unicode.IsSpace(char) || !unicode.IsGraphic(char) {
			if out.Len() > 0 && !strings.HasSuffix(out.String(), " ") {
				out.WriteByte(' ')
			}
			continue
		}
		out.WriteRune(char)
	}
	if done < len(ends) {
		ends[done].End = out.Len()
	}
	snippet.Text, snippet.Ranges = out.String(), ends
	return snippet
}

// densest returns the first and last of the largest group of ranges that fits into size bytes.
func densest(ranges []Range, size int) (first, last int) {
	for i, j := 0, 0; j < len(ranges); j++ {
		for i < j && ranges[j].End-ranges[i].Start > size {
			i++
		}
		if j-i > last-first {
			first, last = i, j
		}
	}
	return first, last
}

// soon is how far Cut moves an end of a snippet to reach a word's end.
const soon = 20

// wordStart moves a place forward to the next beginning of a word, if one is near, but not beyond limit.
func wordStart(text string, at, limit int) int {
	if at == 0 {
		return 0
	}
	for i := at; i <= min(at+soon, limit); i++ {
		if text[i-1] == ' ' || text[i-1] == '\n' {
			return i
		}
	}
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return at
}

// wordEnd moves a place back to the last end of a word, if one is near, but not below limit.
func wordEnd(text string, at, limit int) int {
	if at == len(text) {
		return at
	}
	for i := at; i > max(at-soon, limit-1, 0); i-- {
		if text[i] == ' ' || text[i] == '\n' {
			return i
		}
	}
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}
