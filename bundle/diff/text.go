package diff

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Text is the difference between two texts.
type Text struct {
	By    string `json:"by"` // words, lines or whole
	Parts []Part `json:"parts"`
}

// A Part is a piece of a text that was kept, deleted, inserted or left out.
type Part struct {
	Op    Op     `json:"op"`
	Text  string `json:"text,omitempty"`
	Bytes int    `json:"bytes,omitempty"` // of what Skip leaves out
	Lines int    `json:"lines,omitempty"` // line ends in it
}

// An Op is the operation of a part.
type Op string

// The operations.
const (
	Same   Op = "same"
	Delete Op = "delete"
	Insert Op = "insert"
	Skip   Op = "skip" // kept in the text, left out of the report
)

// Limits of a comparison.
const (
	maxEdits = 1000
	maxSteps = 1 << 23
	maxWords = 1 << 18

	maxCode = 1 << 20 // bytes of a file

	contextLines = 2
	contextBytes = 200
)

func compareTexts(a, b string) *Text {
	parts, by := script(a, b)
	return &Text{by, shorten(parts)}
}

// compareCode compares two files by lines; nil if nothing but line ends differs, or one is large or not text.
func compareCode(a, b []byte) *Text {
	plain := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }
	if bytes.Equal(plain(a), plain(b)) || max(len(a), len(b)) > maxCode || !isText(a) || !isText(b) {
		return nil
	}
	x, y := lines(string(a)), lines(string(b))
	runs, ok := align(x, y)
	if !ok {
		return nil
	}
	return &Text{"lines", shorten(join(x, y, runs))}
}

func isText(b []byte) bool { return utf8.Valid(b) && !bytes.Contains(b, []byte{0}) }

// script returns the parts that lead from a to after, and the method.
func script(before, after string) ([]Part, string) {
	for _, way := range []struct {
		name  string
		split func(string) []string
		most  int
	}{{"words", words, maxWords}, {"lines", lines, 1 << 30}} {
		x, y := way.split(before), way.split(after)
		if len(x)+len(y) > way.most {
			continue
		}
		if runs, ok := align(x, y); ok {
			return join(x, y, runs), way.name
		}
	}
	x, y := words(before), words(after)
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

// words splits a text into words, runs of blanks, and single characters of other kinds. A line end is a single
// character, so that rewrapped text matches.
func words(text string) (all []string) {
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
	for i, c := range text {
		k := class(c)
		if i > start && (k == 0 || k != last) {
			all = append(all, text[start:i])
			start = i
		}
		last = k
	}
	if start < len(text) {
		all = append(all, text[start:])
	}
	return all
}

// A run is n equal words, from x in one text and from y in the other.
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

// align finds the equal runs, or returns false if that is too much work.
func align(before, after []string) ([]run, bool) {
	head := common(before, after)
	tail := min(commonEnd(before, after), len(before)-head, len(after)-head)
	numbers := map[string]int32{}
	x, y := number(numbers, before[head:len(before)-tail]), number(numbers, after[head:len(after)-tail])
	runs, ok := myers(x, y)
	for i := range runs {
		runs[i].x += head
		runs[i].y += head
	}
	runs = append([]run{{0, 0, head}}, runs...)
	return append(runs, run{len(before) - tail, len(after) - tail, tail}), ok
}

// number assigns equal numbers to equal words.
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

// myers finds the fewest edits that lead from a to after and returns the equal runs. It returns false after maxEdits
// edits or maxSteps steps. It is the greedy algorithm of "An O(ND) Difference Algorithm and Its Variations" (1986):
// far[k] is the furthest position in a that d edits reach on the diagonal x-y = k.
func myers(before, after []int32) ([]run, bool) {
	n, height := len(before), len(after)
	most := min(n+height, maxEdits)
	far := make([]int, 2*most+3)
	zero := most + 1
	var trace [][]int // far[-d..d] after d edits
	steps := 0
	for edits := 0; edits <= most; edits++ {
		for k := -edits; k <= edits; k += 2 {
			x := next(far, zero, k, edits)
			y := x - k
			for x < n && y < height && before[x] == after[y] {
				x++
				y++
				steps++
			}
			far[zero+k] = x
			if x >= n && y >= height {
				return back(trace, n, height, edits), true
			}
		}
		if steps += 2*edits + 1; steps > maxSteps {
			return nil, false
		}
		trace = append(trace, slices.Clone(far[zero-edits:zero+edits+1]))
	}
	return nil, false
}

// next returns the position that the d-th edit reaches on a diagonal: down from the one above, or right from the
// one below.
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
func back(trace [][]int, column, row, edits int) (runs []run) {
	for ; edits > 0; edits-- {
		far, k := trace[edits-1], column-row
		// far[-(d-1)..d-1], with room on both sides as in myers.
		at := func(k int) int {
			if k < -(edits-1) || k > edits-1 {
				return -1
			}
			return far[k+edits-1]
		}
		fromX := at(k-1) + 1
		from := k - 1
		if k == -edits || k != edits && at(k-1) < at(k+1) {
			fromX, from = at(k+1), k+1
		}
		startY := fromX - k
		if column > fromX {
			runs = append(runs, run{fromX, startY, column - fromX})
		}
		if column = fromX; from == k-1 {
			column--
		}
		row = column - from
	}
	if column > 0 {
		runs = append(runs, run{0, 0, column})
	}
	slices.Reverse(runs)
	return runs
}

// join makes parts of the equal runs and the text between them. Blanks between two edits belong to the edits, so
// that a replaced sentence is one edit instead of one for each word.
func join(before, after []string, runs []run) (parts []Part) {
	var deleted, inserted strings.Builder
	column, row := 0, 0
	flush := func() {
		for _, p := range []Part{{Op: Delete, Text: deleted.String()}, {Op: Insert, Text: inserted.String()}} {
			if p.Text != "" {
				parts = append(parts, p)
			}
		}
		deleted.Reset()
		inserted.Reset()
	}
	take := func(toX, toY int) {
		for _, w := range before[column:toX] {
			deleted.WriteString(w)
		}
		for _, w := range after[row:toY] {
			inserted.WriteString(w)
		}
		column, row = toX, toY
	}
	for _, r := range runs {
		if r.n == 0 {
			continue
		}
		take(r.x, r.y)
		same := strings.Join(before[r.x:r.x+r.n], "")
		column, row = r.x+r.n, r.y+r.n
		if deleted.Len() > 0 && inserted.Len() > 0 && strings.Trim(same, " \t") == "" &&
			(column < len(before) || row < len(after)) {
			deleted.WriteString(same)
			inserted.WriteString(same)
			continue
		}
		flush()
		if k := len(parts) - 1; k >= 0 && parts[k].Op == Same {
			parts[k].Text += same
			continue
		}
		parts = append(parts, Part{Op: Same, Text: same})
	}
	take(len(before), len(after))
	flush()
	return parts
}

// shorten leaves out text that is far from every edit.
func shorten(parts []Part) (short []Part) {
	for i, part := range parts {
		if part.Op != Same {
			short = append(short, part)
			continue
		}
		from, to := 0, len(part.Text)
		if i > 0 {
			from = contextEnd(part.Text)
		}
		if i < len(parts)-1 {
			to = contextStart(part.Text)
		}
		if from >= to {
			short = append(short, part)
			continue
		}
		between := part.Text[from:to]
		for _, q := range []Part{{Op: Same, Text: part.Text[:from]},
			{Op: Skip, Bytes: len(between), Lines: strings.Count(between, "\n")}, {Op: Same, Text: part.Text[to:]}} {
			if q.Op == Skip || q.Text != "" {
				short = append(short, q)
			}
		}
	}
	return short
}

// contextEnd returns the number of bytes to keep after an edit.
func contextEnd(text string) int {
	end := 0
	for range contextLines {
		i := strings.IndexByte(text[end:], '\n')
		if i < 0 {
			end = len(text)
			break
		}
		end += i + 1
	}
	if end > contextBytes {
		for end = contextBytes; end > 0 && !utf8.RuneStart(text[end]); end-- {
		}
	}
	return end
}

// contextStart returns the offset of the text to keep before an edit: the edit's line, and contextLines lines above
// it.
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
