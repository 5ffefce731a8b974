package tree

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"regexp"
	"sync"
)

// v1Line matches a line of the first format that is only a comment after "#".
var v1Line = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^# rye:signed:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z:[a-f0-9]{64}:[A-Za-z0-9_-]{86}==:[a-f0-9]{16}` +
			`(\|[a-zA-Z0-9_-]+@[a-zA-Z0-9_-]+)?\r?\n`)
})

// headSize exceeds the size of a shebang, a line of the first format, and the two lines after it that matter.
const headSize = 16 << 10

// isComment reports whether the line of the first format at the head of a file has no effect. Readers of that
// format allow text after the line, which could choose Python's coding, and end the line at a CR, which sh doesn't.
// Anything that must be in the first or second line isn't recognized below it.
func isComment(head []byte) bool {
	rest := head
	if bytes.HasPrefix(head, []byte("#!/")) {
		_, rest, _ = bytes.Cut(head, []byte("\n"))
	}
	line := v1Line().Find(rest)
	if line == nil {
		return false
	}
	rest = rest[len(line):]
	if bytes.HasPrefix(rest, []byte("\ufeff")) || bytes.HasPrefix(rest, []byte("#!")) {
		return false
	}
	// Python ends a line at a CR, too.
	for range 2 {
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			i = len(rest)
		}
		if bytes.Contains(rest[:i], []byte("coding")) {
			return false
		}
		rest = bytes.TrimPrefix(rest[i:], []byte("\r"))
		rest = bytes.TrimPrefix(rest, []byte("\n"))
	}
	return true
}

// A headed file keeps the first bytes read: a second read could return others.
type headed struct {
	fs.File
	ctx   context.Context
	head  []byte
	again bool
}

func (h *headed) Read(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err // a large file may take long
	}
	n, err := h.File.Read(p)
	if !h.again {
		h.head = append(h.head, p[:min(n, headSize-len(h.head))]...)
	}
	return n, err
}

// Seek implements io.Seeker. Package sign seeks to look for changed line ends.
func (h *headed) Seek(offset int64, whence int) (int64, error) {
	s, ok := h.File.(io.Seeker)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	h.again = h.again || len(h.head) > 0
	return s.Seek(offset, whence)
}
