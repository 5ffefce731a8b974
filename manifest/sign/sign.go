package sign

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/key"
)

func quote(s string) string {
	if len(s) > maxName {
		s = s[:maxName] + "…"
	}
	return strconv.QuoteToASCII(s)
}

// New makes the line with which p makes a claim about content.
func New(content cas.Digest, c Claim, p key.Private, now time.Time) (Line, error) {
	if err := c.check(); err != nil {
		return Line{}, err
	}
	l := Line{Time: now.UTC().Truncate(time.Second), Digest: content, Tree: c.Tree, Key: p.Public().Fingerprint()}
	if y := l.Time.Year(); y < 0 || y > 9999 {
		return Line{}, fmt.Errorf("no signature is made in the year %d", y)
	}
	l.Sig = p.Sign(c.appendMessage(nil, l))
	return l, nil
}

// Sign returns the lines that the file is to carry when p has signed it as well; Rewrite puts them there. Lines
// for other content and for another tree are dropped, and, for the keys in known, which may be nil, those that
// don't hold. If p's line is there and holds, it stays as it is: signing again changes nothing.
//
// Lines that stand out of place or order are put right. A file with a line that can't be read gets the error of Read,
// and one with a line of the first format ErrV1 (see StripV1) or ErrV1Unread.
func (s Signed) Sign(c Claim, p key.Private, now time.Time, known Keys) ([]Line, error) {
	switch {
	case s.style&commentBits == NoStyle:
		return nil, noStyle()
	case s.block.beyond:
		return nil, s.block.err
	case s.Format == V1 && s.V1 == nil:
		return nil, ErrV1Unread
	case s.Format == V1:
		return nil, ErrV1
	}
	var keep []Line
	signed := false
	public := p.Public()
	mine := public.Fingerprint()
	for _, l := range s.Lines {
		if l.Digest != s.Stripped || l.Tree != c.Tree {
			continue
		}
		var pub key.Public
		ok := false
		if l.Key == mine {
			pub, ok = public, true
		} else if known != nil {
			pub, ok = known(l.Key)
		}
		if ok && !c.Holds(l, pub) {
			continue
		}
		keep = append(keep, l)
		signed = signed || l.Key == mine
	}
	if signed {
		return merge(keep)
	}
	own, err := New(s.Stripped, c, p, now)
	if err != nil {
		return nil, err
	}
	return merge(append(keep, own))
}

// Rewrite copies the file that s was read from, from its beginning, with other signature lines; with none it is
// the file without lines. If the content isn't what it was then, it fails with ErrChanged, at the end.
func (s Signed) Rewrite(w io.Writer, r io.Reader, lines []Line) error {
	if s.Format == V1 {
		return ErrV1
	}
	buf := buffers.Get().(*[2 * headSize]byte)
	defer buffers.Put(buf)
	n, err := readFull(r, buf[:headSize])
	if err != nil {
		return err
	}
	if n < s.block.end {
		return ErrChanged
	}
	head := slices.Delete(buf[:n], s.block.start, s.block.end)
	joined, err := s.join(head, lines)
	if err != nil {
		return err
	}
	content := cas.NewHasher()
	content.Write(head)
	if _, err := w.Write(joined); err != nil {
		return err
	}
	if _, err := io.Copy(io.MultiWriter(w, content), r); err != nil {
		return err
	}
	if content.Digest() != s.Stripped {
		return ErrChanged
	}
	return nil
}

// join returns the head of a file, which has no lines, with lines.
func (s Signed) join(head []byte, lines []Line) ([]byte, error) {
	at, c, ok := s.style.place(head)
	if len(lines) > 0 && (!ok || c.open == "") {
		return nil, noPlace()
	}
	block := text(c, lines)
	joined := slices.Concat(head[:at], block, head[at:])
	// What can't be read back as it was written isn't written. Some text below the place looks like a line.
	if b := findBlock(joined, s.style); b.err != nil || !bytes.Equal(text(c, b.lines), block) {
		return nil, layout("text that looks like a signature line stands where it can't be told from one")
	}
	return joined, nil
}

// Sign signs a file in memory: Read, Signed.Sign and Rewrite in one.
func Sign(file []byte, style Style, c Claim, p key.Private, now time.Time, known Keys) ([]byte, error) {
	m, err := Make(file, style, c, p, now, known)
	if err != nil {
		return nil, err
	}
	return m.Bytes, nil
}

// Made is a file that was signed in memory.
type Made struct {
	Bytes         []byte
	Before, After Signed // what is read from the file as it was, and from Bytes
}

// Make is Sign, and what is read before and after. Check doesn't verify again what was verified or made here.
func Make(file []byte, style Style, c Claim, p key.Private, now time.Time, known Keys) (*Made, error) {
	s, err := read(bytes.NewReader(file), style)
	if err != nil {
		return nil, err
	}
	return s.Make(file, c, p, now, known)
}

// Make is Make for a file that s was read from. Of another one it returns ErrChanged.
func (s Signed) Make(file []byte, c Claim, p key.Private, now time.Time, known Keys) (*Made, error) {
	own := p.Public()
	held := holding{claim: c}
	lines, err := s.Sign(c, p, now, func(f key.Fingerprint) (pub key.Public, ok bool) {
		if known != nil {
			if pub, ok = known(f); ok {
				held.keys = append(held.keys, pub)
			}
		}
		return pub, ok
	})
	if err != nil {
		return nil, err
	}
	held.keys = append(held.keys, own)
	held.lines = lines
	m := &Made{Before: s}
	if m.Bytes, err = s.RewriteBytes(file, lines); err != nil {
		return nil, err
	}
	if m.After, err = ReadBytes(m.Bytes, s.style); err != nil {
		return nil, err
	}
	m.After.held = held
	return m, nil
}

// A holding says that lines are the signatures of these keys for a claim: those of them that any of the keys has made.
type holding struct {
	claim Claim
	keys  []key.Public
	lines []Line
}

func (h *holding) has(c Claim, l Line, p key.Public) bool {
	return len(h.lines) > 0 && h.claim == c && l.Key == p.Fingerprint() && slices.Contains(h.keys, p) &&
		slices.ContainsFunc(h.lines, func(o Line) bool {
			return o.Key == l.Key && o.Sig == l.Sig && o.Digest == l.Digest && o.Tree == l.Tree && o.Time.Equal(l.Time)
		})
}

// Strip returns a file without its v2 lines, however these stand.
func Strip(file []byte, style Style) ([]byte, error) {
	s, err := read(bytes.NewReader(file), style)
	if err != nil {
		return nil, err
	}
	if s.block.beyond {
		return nil, s.block.err
	}
	return s.RewriteBytes(file, nil)
}

// RewriteBytes is Rewrite for a file in memory.
func (s Signed) RewriteBytes(file []byte, lines []Line) ([]byte, error) {
	b := s.block
	switch {
	case s.Format == V1:
		return nil, ErrV1
	case len(file) < b.end:
		return nil, ErrChanged
	}
	content := file
	if b.end > b.start {
		content = slices.Concat(file[:b.start], file[b.end:])
	}
	n := min(len(file), headSize) - (b.end - b.start)
	joined, err := s.join(content[:n], lines)
	if err != nil {
		return nil, err
	}
	if cas.Sum(content) != s.Stripped {
		return nil, ErrChanged
	}
	return append(joined, content[n:]...), nil
}
