package plan

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

// maxPage bounds one page, in bytes. A page is a result too: one of 16 KiB would be an artifact itself.
const maxPage = 15 << 10

// A Artifacts has the artifacts of one thread. The zero Artifacts has none. It is safe for concurrent use.
type Artifacts struct {
	mu   sync.Mutex
	text map[string]string // by their digests
}

// Keep keeps a text, and returns what it is called.
func (a *Artifacts) Keep(text string) (ref string) {
	ref = cas.Sum([]byte(text)).String()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.text == nil {
		a.text = map[string]string{}
	}
	a.text[ref] = text
	return ref
}

// Text returns a text by its name, or "".
func (a *Artifacts) Text(ref string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text[ref]
}

// Read gives a page of an artifact, by the parameters of tool:rye/agent/threads/artifact_read. "next" is where the
// next page begins, missing with the last.
func (a *Artifacts) Read(given map[string]any) (map[string]any, error) {
	ref, _ := given["ref"].(string)
	a.mu.Lock()
	text, ok := a.text[ref]
	a.mu.Unlock()
	if !ok {
		return nil, fault.New(fault.NotFound, "this thread has no artifact %q", ref)
	}
	from, _ := jcs.Number(given["offset"])
	limit, _ := jcs.Number(given["limit"])
	if limit < 1 {
		limit = maxPage / 2
	}
	at := begin(text, int(min(from, float64(len(text)))))
	page := Page(text, at, int(min(limit, maxPage)))
	read := map[string]any{"ref": ref, "size": len(text), "offset": at, "text": page}
	if next := at + len(page); next < len(text) {
		read["next"] = next
	}
	return read, nil
}

// begin returns where the first whole character behind an offset begins.
func begin(text string, offset int) int {
	offset = min(max(offset, 0), len(text))
	for offset < len(text) && !utf8.RuneStart(text[offset]) {
		offset++
	}
	return offset
}

// Page returns the whole characters behind an offset that have at most limit bytes as JSON, but at least one.
func Page(text string, offset, limit int) string {
	offset = begin(text, offset)
	end := offset
	for size := 0; end < len(text); {
		_, n := utf8.DecodeRuneInString(text[end:])
		size += written(text[end : end+n])
		if size > limit && end > offset {
			break
		}
		end += n
	}
	return text[offset:end]
}

// Tail returns the last whole characters that have at most limit bytes.
func Tail(text string, limit int) string { return text[begin(text, len(text)-max(limit, 0)):] }

// written returns how many bytes a character has in canonical JSON.
func written(char string) int {
	switch c := char[0]; {
	case strings.IndexByte("\"\\\b\f\n\r\t", c) >= 0:
		return 2
	case c < ' ':
		return 6
	}
	return len(char)
}
