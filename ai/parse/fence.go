package parse

import "strings"

// A fence is a part of a Markdown file between two lines of backticks.
type fence struct {
	open     int // offset of the opening line
	from, to int // offsets of the content
	after    int // offset after the closing line
	closed   bool
}

// findFence finds the first line of ``` and word outside fences of more backticks, and the next line that is ```
// alone.
func findFence(text, word string) (found fence, ok bool) {
	if !strings.Contains(text, "```"+word) {
		return found, false
	}
	outer := 0 // backticks of the fence that hides the current line
	for off := 0; off < len(text); {
		line, next := lineAt(text, off)
		if ticks := len(line) - len(strings.TrimLeft(line, "`")); ticks >= 3 {
			info := strings.TrimSpace(line[ticks:])
			switch {
			case outer > 0:
				if ticks >= outer && info == "" {
					outer = 0
				}
			case ticks > 3 && !strings.Contains(info, "`"):
				outer = ticks
			case ticks == 3 && info == word && strings.HasPrefix(line[ticks:], word):
				found = fence{open: off, from: next}
				found.to, found.after, found.closed = lineThatIs(text, next, "```")
				return found, true
			}
		}
		off = next
	}
	return found, false
}

// lineThatIs finds the next line that is mark and space only. It returns the line's offset and that of the line after
// it; both are the end of the text if no line matches.
func lineThatIs(text string, from int, mark string) (at, after int, ok bool) {
	for off := from; off < len(text); {
		line, next := lineAt(text, off)
		if rest, ok := strings.CutPrefix(line, mark); ok && strings.TrimSpace(rest) == "" {
			return off, next, true
		}
		off = next
	}
	return len(text), len(text), false
}

// lineAt returns the line at an offset, without its end, and the offset of the next one.
func lineAt(text string, off int) (line string, next int) {
	if i := strings.IndexByte(text[off:], '\n'); i >= 0 {
		return text[off : off+i], off + i + 1
	}
	return text[off:], len(text)
}

// skipComments returns the offset after the blank lines and comments <!-- … --> at the beginning.
func skipComments(text string) int {
	off := 0
	for {
		next := off + leadingSpace(text[off:])
		end := -1
		if strings.HasPrefix(text[next:], "<!--") {
			end = strings.Index(text[next:], "-->")
		}
		if end < 0 {
			if i := strings.LastIndexByte(text[off:next], '\n'); i >= 0 {
				return off + i + 1
			}
			return off
		}
		off = next + end + len("-->")
	}
}
