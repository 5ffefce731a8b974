package diff

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Text is how one text became another.
type Text struct {
	By    string `json:"by"` // words, lines or whole
	Parts []Part `json:"parts"`
}

// A Part of a text stays, goes or comes.
type Part struct {
	Op    Op     `json:"op"`
	Text  string `json:"text,omitempty"`
	Bytes int    `json:"bytes,omitempty"` // of what Skip leaves out
	Lines int    `json:"lines,omitempty"` // how many end in it
}

// An Op says what happens to a part.
type Op string

// The operations.
const (
	Same   Op = "same"
	Delete Op = "delete"
	Insert Op = "insert"
	Skip   Op = "skip" // stays, and is not told
)

// The limits of comparing.
const (
	maxEdits = 1000
	maxSteps = 1 << 23
	maxWords = 1 << 18

	contextLines = 2
	contextBytes = 200
)

func compareTexts(a, b string) *Text {
	parts, by := script(a, b)
	return &Text{by, shorten(parts)}
}

// script returns the parts of two texts: without what is inserted they are a, without what is deleted b.
func script(a, b string) ([]Part, string) {
	for _, way := range []struct {
		name  string
		split func(string) []string
		most  int
	}{{"words", words, maxWords}, {"lines", lines, 1 << 30}} {
		x, y := way.split(a), way.split(b)
		if len(x)+len(y) > way.most {
			continue
		}
		if kept, ok := align(x, y); ok {
			return join(x, y, kept), way.name
		}
	}
	x, y := words(a), words(b)
	head := common(x, y)
	tail := min(commonEnd(x, y), len(x)-head, len(y)-head)
	return join(x, y, []run{{0, 0, head}, {len(x) - tail, len(y) - tail, tail}}), "whole"
}

func lines(s string) []string {
	all := strings.SplitAfter(s, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// words splits a text into words, runs of blanks, and single characters of other kinds. A line end is one of these, so
// that what is put into one line doesn't look like another text.
func words(s string) (all []string) {
	class := func(c rune) int {
		switch {
		case c == '\n':
			return 0
		case unicode.IsSpace(c):
			return 1
		case unicode.IsLetter(c), unicode.IsDigit(c), unicode.IsMark(c), c == '_':
			return 2
		}
		return 0
	}
	start, last := 0, 0
	for i, c := range s {
		k := class(c)
		if i > start && (k == 0 || k != last) {
			all = append(all, s[start:i])
			start = i
		}
		last = k
	}
	if start < len(s) {
		all = append(all, s[start:])
	}
	return all
}

// A run is n words that are the same, from x in one text and from y in the other.
type run struct{ x, y, n int }

func common(a, b []string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func commonEnd(a, b []string) (n int) {
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// align finds what stays, unless that is too much work.
func align(a, b []string) ([]run, bool) {
	head := common(a, b)
	tail := min(commonEnd(a, b), len(a)-head, len(b)-head)
	numbers := map[string]int32{}
	x, y := number(numbers, a[head:len(a)-tail]), number(numbers, b[head:len(b)-tail])
	kept, ok := myers(x, y)
	for i := range kept {
		kept[i].x += head
		kept[i].y += head
	}
	kept = append([]run{{0, 0, head}}, kept...)
	return append(kept, run{len(a) - tail, len(b) - tail, tail}), ok
}

// number gives equal words equal numbers.
func number(numbers map[string]int32, words []string) []int32 {
	all := make([]int32, len(words))
	for i, w := range words {
		n, ok := numbers[w]
		if !ok {
			n = int32(len(numbers))
			numbers[w] = n
		}
		all[i] = n
	}
	return all
}

// myers finds the fewest edits that lead from a to b and returns what stays; or false, if they are more than maxEdits
// or finding them takes more than maxSteps. It is the greedy algorithm of "An O(ND) Difference Algorithm and Its
// Variations" (1986): far[k] is how far in a one comes with d edits on the diagonal x-y = k.
func myers(a, b []int32) ([]run, bool) {
	n, m := len(a), len(b)
	most := min(n+m, maxEdits)
	far := make([]int, 2*most+3)
	zero := most + 1
	var trace [][]int // far[-d..d] after d edits
	steps := 0
	for d := 0; d <= most; d++ {
		for k := -d; k <= d; k += 2 {
			x := next(far, zero, k, d)
			y := x - k
			for x < n && y < m && a[x] == b[y] {
				x++
				y++
				steps++
			}
			far[zero+k] = x
			if x >= n && y >= m {
				return back(trace, n, m, d), true
			}
		}
		if steps += 2*d + 1; steps > maxSteps {
			return nil, false
		}
		trace = append(trace, slices.Clone(far[zero-d:zero+d+1]))
	}
	return nil, false
}

// next returns where the d-th edit leads to on a diagonal: down from the one above, or right from the one below.
func next(far []int, zero, k, d int) int {
	switch {
	case d == 0:
		return 0
	case k == -d || k != d && far[zero+k-1] < far[zero+k+1]:
		return far[zero+k+1]
	}
	return far[zero+k-1] + 1
}

// back follows the edits from the end to the beginning.
func back(trace [][]int, x, y, d int) (kept []run) {
	for ; d > 0; d-- {
		far, k := trace[d-1], x-y
		// far[-(d-1)..d-1], with room on both sides as in myers.
		at := func(k int) int {
			if k < -(d-1) || k > d-1 {
				return -1
			}
			return far[k+d-1]
		}
		fromX := at(k-1) + 1
		from := k - 1
		if k == -d || k != d && at(k-1) < at(k+1) {
			fromX, from = at(k+1), k+1
		}
		startY := fromX - k
		if x > fromX {
			kept = append(kept, run{fromX, startY, x - fromX})
		}
		if x = fromX; from == k-1 {
			x--
		}
		y = x - from
	}
	if x > 0 {
		kept = append(kept, run{0, 0, x})
	}
	slices.Reverse(kept)
	return kept
}

// join makes parts of what stays and what is between. Blanks between two edits belong to these: a sentence that was
// replaced is one edit and not one for each word.
func join(a, b []string, kept []run) (parts []Part) {
	var gone, came strings.Builder
	x, y := 0, 0
	flush := func() {
		for _, p := range []Part{{Op: Delete, Text: gone.String()}, {Op: Insert, Text: came.String()}} {
			if p.Text != "" {
				parts = append(parts, p)
			}
		}
		gone.Reset()
		came.Reset()
	}
	take := func(toX, toY int) {
		for _, w := range a[x:toX] {
			gone.WriteString(w)
		}
		for _, w := range b[y:toY] {
			came.WriteString(w)
		}
		x, y = toX, toY
	}
	for _, r := range kept {
		if r.n == 0 {
			continue
		}
		take(r.x, r.y)
		same := strings.Join(a[r.x:r.x+r.n], "")
		x, y = r.x+r.n, r.y+r.n
		if gone.Len() > 0 && came.Len() > 0 && strings.Trim(same, " \t") == "" && (x < len(a) || y < len(b)) {
			gone.WriteString(same)
			came.WriteString(same)
			continue
		}
		flush()
		if k := len(parts) - 1; k >= 0 && parts[k].Op == Same {
			parts[k].Text += same
			continue
		}
		parts = append(parts, Part{Op: Same, Text: same})
	}
	take(len(a), len(b))
	flush()
	return parts
}

// shorten leaves out what is far from every edit.
func shorten(parts []Part) (short []Part) {
	for i, p := range parts {
		if p.Op != Same {
			short = append(short, p)
			continue
		}
		from, to := 0, len(p.Text)
		if i > 0 {
			from = contextEnd(p.Text)
		}
		if i < len(parts)-1 {
			to = contextStart(p.Text)
		}
		if from >= to {
			short = append(short, p)
			continue
		}
		between := p.Text[from:to]
		for _, q := range []Part{{Op: Same, Text: p.Text[:from]},
			{Op: Skip, Bytes: len(between), Lines: strings.Count(between, "\n")}, {Op: Same, Text: p.Text[to:]}} {
			if q.Op == Skip || q.Text != "" {
				short = append(short, q)
			}
		}
	}
	return short
}

// contextEnd is how many bytes are kept behind an edit.
func contextEnd(s string) int {
	end := 0
	for range contextLines {
		i := strings.IndexByte(s[end:], '\n')
		if i < 0 {
			end = len(s)
			break
		}
		end += i + 1
	}
	if end > contextBytes {
		for end = contextBytes; end > 0 && !utf8.RuneStart(s[end]); end-- {
		}
	}
	return end
}

// contextStart is from where on is kept what stands before an edit: the line that the edit is in, and as many before.
func contextStart(s string) int {
	start := len(s)
	for range contextLines + 1 {
		i := strings.LastIndexByte(s[:start], '\n')
		if start = i; i < 0 {
			break
		}
	}
	start++
	if start < len(s)-contextBytes {
		for start = len(s) - contextBytes; start < len(s) && !utf8.RuneStart(s[start]); start++ {
		}
	}
	return start
}
