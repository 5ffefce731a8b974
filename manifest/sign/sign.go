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

// New makes the line of p's signature of a claim about content.
func New(content cas.Digest, c Claim, p key.Private, now time.Time) (Line, error) {
	if err := c.check(); err != nil {
		return Line{}, err
	}
	l := Line{Time: now.UTC().Truncate(time.Second), Digest: content, Tree: c.Tree, Key: p.Public().Fingerprint()}
	if y := l.Time.Year(); y < 0 || y > 9999 {
		return Line{}, fmt.Errorf("can't sign in the year %d", y)
	}
	l.Sig = p.Sign(c.appendMessage(nil, l))
	return l, nil
}

// Sign returns the lines of the file after signer has signed it; Rewrite writes them. It drops lines for other
// content or another tree, and invalid lines of the keys in known, which may be nil. If signer already has a valid
// line, Sign keeps it: signing again changes nothing.
//
// Sign corrects the place and order of lines. For a file with an unreadable line it returns the error of Read, and for
// one with a line of the first format ErrV1 (see StripV1) or ErrV1Unread.
func (s Signed) Sign(claim Claim, signer key.Private, now time.Time, known Keys) ([]Line, error) {
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
	public := signer.Public()
	mine := public.Fingerprint()
	for _, line := range s.Lines {
		if line.Digest != s.Stripped || line.Tree != claim.Tree {
			continue
		}
		var pub key.Public
		ok := false
		if line.Key == mine {
			pub, ok = public, true
		} else if known != nil {
			pub, ok = known(line.Key)
		}
		if ok && !claim.Holds(line, pub) {
			continue
		}
		keep = append(keep, line)
		signed = signed || line.Key == mine
	}
	if signed {
		return merge(keep)
	}
	own, err := New(s.Stripped, claim, signer, now)
	if err != nil {
		return nil, err
	}
	return merge(append(keep, own))
}

// Rewrite copies the file that s was read from, from its beginning, with other signature lines; without any it strips
// the file. If the content has changed since, it fails with ErrChanged at the end.
func (s Signed) Rewrite(out io.Writer, in io.Reader, lines []Line) error {
	if s.Format == V1 {
		return ErrV1
	}
	buf := buffers.Get().(*[2 * headSize]byte)
	defer buffers.Put(buf)
	n, err := readFull(in, buf[:headSize])
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
	if _, err := out.Write(joined); err != nil {
		return err
	}
	if _, err := io.Copy(io.MultiWriter(out, content), in); err != nil {
		return err
	}
	if content.Digest() != s.Stripped {
		return ErrChanged
	}
	return nil
}

// join puts lines into the head of a file without lines.
func (s Signed) join(head []byte, lines []Line) ([]byte, error) {
	at, c, ok := s.style.place(head)
	if len(lines) > 0 && (!ok || c.open == "") {
		return nil, noPlace()
	}
	block := text(c, lines)
	joined := slices.Concat(head[:at], block, head[at:])
	// Only lines that read back as written are accepted: text below the place may look like a line.
	if b := findBlock(joined, s.style); b.err != nil || !bytes.Equal(text(c, b.lines), block) {
		return nil, layout("the file has text that looks like a signature line, next to the signatures")
	}
	return joined, nil
}

// Sign signs a file in memory: it does the work of Read, Signed.Sign and Rewrite.
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
	Before, After Signed // the results of Read for the original file, and for Bytes
}

// Make is Sign, and also returns the Signed before and after. Check doesn't verify their signatures again.
func Make(file []byte, style Style, c Claim, p key.Private, now time.Time, known Keys) (*Made, error) {
	s, err := read(bytes.NewReader(file), style)
	if err != nil {
		return nil, err
	}
	return s.Make(file, c, p, now, known)
}

// Make is the function Make for the file that s was read from. For another file it returns ErrChanged.
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

// A holding is a set of verified signatures: those of these lines that any of these keys made for a claim.
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

// Strip returns a file without its v2 lines, wherever they are.
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
	block := s.block
	switch {
	case s.Format == V1:
		return nil, ErrV1
	case len(file) < block.end:
		return nil, ErrChanged
	}
	content := file
	if block.end > block.start {
		content = slices.Concat(file[:block.start], file[block.end:])
	}
	n := min(len(file), headSize) - (block.end - block.start)
	joined, err := s.join(content[:n], lines)
	if err != nil {
		return nil, err
	}
	if cas.Sum(content) != s.Stripped {
		return nil, ErrChanged
	}
	return append(joined, content[n:]...), nil
}
