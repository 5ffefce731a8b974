package manifest

import (
	"bytes"
	"io"

	"github.com/rye-build/rye/cas"
)

// hashing is a reader that hashes its bytes from a document's format line on. The Scanner reports the place of that
// line only after it has read more.
type hashing struct {
	r     io.Reader
	hash  cas.Hasher
	begun bool
	held  []byte // the bytes read before start

	cut    []byte     // the heading of a section, with the LF before it; nil after it was found
	tail   []byte     // read, but not hashed yet: cut may have begun in it; shorter than cut
	before cas.Digest // of everything before the heading
}

func newHashing(r io.Reader, cut string) *hashing {
	h := &hashing{r: r, hash: cas.NewHasher()}
	if cut != "" {
		h.cut = []byte("\n" + cut + ":\n")
	}
	return h
}

func (h *hashing) Read(b []byte) (int, error) {
	n, err := h.r.Read(b)
	if h.begun {
		h.write(b[:n])
	} else {
		h.held = append(h.held, b[:n]...)
	}
	return n, err
}

// start sets the offset of the format line.
func (h *hashing) start(offset int64) {
	h.begun = true
	h.write(h.held[offset:])
	h.held = nil
}

func (h *hashing) write(data []byte) {
	if h.cut == nil {
		h.hash.Write(data)
		return
	}
	// First the edge, then data: a line holds no LF, so the heading can't be in a string.
	edge := append(h.tail, data[:min(len(data), len(h.cut))]...)
	at := bytes.Index(edge, h.cut)
	if at < 0 {
		if at = bytes.Index(data, h.cut); at >= 0 {
			at += len(h.tail)
		}
	}
	if at >= 0 {
		at++ // the LF belongs to the line before
		first := min(at, len(h.tail))
		h.hash.Write(h.tail[:first])
		h.hash.Write(data[:at-first])
		h.before = h.hash.Digest()
		h.hash.Write(h.tail[first:])
		h.hash.Write(data[at-first:])
		h.cut, h.tail = nil, nil
		return
	}
	keep := len(h.cut) - 1
	if len(data) < keep {
		edge = edge[:len(h.tail)+len(data)]
		done := max(0, len(edge)-keep)
		h.hash.Write(edge[:done])
		h.tail = edge[:copy(edge, edge[done:])]
		return
	}
	h.hash.Write(h.tail)
	h.hash.Write(data[:len(data)-keep])
	h.tail = append(h.tail[:0], data[len(data)-keep:]...)
}

// end returns the digest of everything.
func (h *hashing) end() cas.Digest {
	h.hash.Write(h.tail)
	h.tail = nil
	d := h.hash.Digest()
	if h.before.IsZero() {
		h.before = d
	}
	return d
}
