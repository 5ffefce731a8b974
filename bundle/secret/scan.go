package secret

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"path"
	"strings"
	"unicode/utf8"
)

// MaxFindings bounds the findings of one file.
const MaxFindings = 16

const (
	behind = 128      // bytes kept before the current piece, to look back
	reach  = 4 << 10  // bytes to look ahead
	window = 64 << 10 // bytes of a piece
)

// The bits of a mask that belong to no rule.
const (
	signs   = 1 << 29 // begins a signature line
	assigns = 1 << 30
	begins  = 1 << 31 // begins a PEM block
)

// A Scanner scans files, one at a time, and reuses its memory.
type Scanner struct {
	first    [256]uint32    // the rules whose prefix begins with a byte
	second   [256]uint32    // the rules whose prefix has it second
	pairs    [1 << 16]uint8 // not 0 if anything begins with these two bytes, which is rare
	buf      []byte
	file     string
	settings bool
	found    []Finding
	last     int // offset of the last finding in buf

	// The position in buf up to which lines were counted.
	counted, line, column int
}

// NewScanner returns a Scanner.
func NewScanner() *Scanner {
	scanner := &Scanner{buf: make([]byte, 0, behind+window+reach)}
	for i := range rules {
		scanner.first[rules[i].prefix[0]] |= 1 << i
		scanner.second[rules[i].prefix[1]] |= 1 << i
	}
	scanner.first['r'] |= signs
	scanner.second['y'] |= signs
	scanner.first['='] |= assigns
	scanner.first[':'] |= assigns
	scanner.first['-'] |= begins
	for a, rules := range scanner.first {
		for b, next := range scanner.second {
			if rules&next != 0 || rules&assigns != 0 || rules&begins != 0 && b == '-' {
				scanner.pairs[a|b<<8] = 1
			}
		}
	}
	return scanner
}

// Scan reads a file to its end and returns the apparent secrets in it. The path decides how values may be written;
// Named checks the name. An error is one of in; findings before it are returned, too.
func (s *Scanner) Scan(file string, in io.Reader) ([]Finding, error) {
	s.file, s.settings, s.found, s.buf, s.last = file, holdsSettings(file), nil, s.buf[:0], -1
	s.counted, s.line, s.column = 0, 1, 1
	wide := false
	at := 0 // end of the scanned part
	for start := true; ; start = false {
		n, err := io.ReadFull(in, s.buf[len(s.buf):cap(s.buf)])
		fresh := s.buf[len(s.buf) : len(s.buf)+n]
		if start {
			wide = isWide(fresh)
			if derKey(fresh) {
				s.add(0, pemRule, "DER")
			}
		}
		if wide {
			fresh = narrowed(fresh)
		}
		s.buf = s.buf[:len(s.buf)+len(fresh)]
		end := len(s.buf)
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if err == nil {
			end = max(at, len(s.buf)-reach)
		} else if !last {
			return s.found, err
		}
		end = s.look(at, end)
		if last || len(s.found) == MaxFindings {
			return s.found, s.drain(in, last)
		}
		at = s.shift(end)
	}
}

// drain reads the rest, because an object is verified only at its end.
func (s *Scanner) drain(r io.Reader, done bool) error {
	if done {
		return nil
	}
	_, err := io.Copy(io.Discard, r)
	return err
}

// isWide reports whether a file with this beginning is in UTF-16, with or without a byte order mark: every other
// byte of ASCII is zero.
func isWide(b []byte) bool {
	if bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff")) {
		return true
	}
	const looked = 32
	var zero [2]int
	for i, c := range b[:min(len(b), looked)] {
		if c == 0 {
			zero[i%2]++
		}
	}
	return zero == [2]int{looked / 2, 0} || zero == [2]int{0, looked / 2}
}

// narrowed removes the zero bytes of UTF-16, which leaves ASCII.
func narrowed(b []byte) []byte {
	n := 0
	for _, c := range b {
		if c != 0 {
			b[n] = c
			n++
		}
	}
	return b[:n]
}

// shift drops the scanned part except its end, and returns the offset of the next part.
func (s *Scanner) shift(end int) int {
	s.count(end)
	drop := max(0, end-behind)
	n := copy(s.buf, s.buf[drop:])
	s.buf = s.buf[:n]
	s.counted -= drop
	s.last -= drop
	return end - drop
}

// count counts lines and characters up to an offset.
func (s *Scanner) count(to int) {
	if to < s.counted {
		return
	}
	b := s.buf[s.counted:to]
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		s.line += bytes.Count(b, []byte("\n"))
		s.column = 1
		b = b[i+1:]
	}
	s.column += utf8.RuneCount(b)
	s.counted = to
}

// look scans a part of the buffer and returns its end, which may be a little after to.
func (s *Scanner) look(from, to int) int {
	data := s.buf
	i := from
	for ; i < to; i++ {
		i = s.skip(i, to)
		if i == to {
			break
		}
		mask := s.first[data[i]]
		switch {
		case mask == 0:
			continue
		case mask&begins != 0:
			if privateKey(data[i:]) {
				s.add(i, pemRule, "-----BEGIN … PRIVATE KEY-----")
			}
			continue
		case mask&assigns != 0:
			s.assignment(i)
			continue
		case i+1 == len(data):
			continue
		}
		if mask &= s.second[data[i+1]]; mask == 0 || i > 0 && setOf(data[i-1])&base64u != 0 {
			continue
		}
		if mask&signs != 0 {
			i += signature(data[i:])
			continue
		}
		for ; mask != 0; mask &= mask - 1 {
			r := &rules[bits.TrailingZeros32(mask)]
			if bytes.HasPrefix(data[i:], []byte(r.prefix)) && r.match(data[i:]) {
				s.add(i, r.name, r.prefix+"…")
				break
			}
		}
	}
	return i
}

// skip returns the next offset from i at which something may begin.
func (s *Scanner) skip(i, to int) int {
	b, p := s.buf, &s.pairs
	for ; i+7 <= to && i+8 <= len(b); i += 7 {
		x := binary.LittleEndian.Uint64(b[i:])
		if p[uint16(x)]|p[uint16(x>>8)]|p[uint16(x>>16)]|p[uint16(x>>24)]|p[uint16(x>>32)]|p[uint16(x>>40)]|
			p[uint16(x>>48)] != 0 {
			// A branch per byte would be unpredictable and cost as much as scanning 30 bytes.
			return i + bits.TrailingZeros8(p[uint16(x)]|p[uint16(x>>8)]<<1|p[uint16(x>>16)]<<2|p[uint16(x>>24)]<<3|
				p[uint16(x>>32)]<<4|p[uint16(x>>40)]<<5|p[uint16(x>>48)]<<6)
		}
	}
	for i < to && i+1 < len(b) && p[uint16(b[i])|uint16(b[i+1])<<8] == 0 {
		i++
	}
	return i
}

// signature returns the number of bytes to skip at the beginning of a signature line, which is random, too.
func signature(b []byte) int {
	if !bytes.HasPrefix(b, []byte("rye:signed:")) {
		return 0
	}
	if end := bytes.IndexAny(b[:min(len(b), 512)], " \t\r\n"); end >= 0 {
		return end
	}
	return 0
}

func (s *Scanner) assignment(i int) {
	b := s.buf
	if b[i] == ':' && bytes.HasPrefix(b[i:], []byte("://")) {
		if urlPassword(b[i:]) {
			s.add(i, "url-password", "://…:…@")
		}
		return
	}
	if name, at, ok := assigned(b, i, s.settings); ok {
		s.add(at, "assignment", fmt.Sprintf("%s%c …", name, b[i]))
	}
}

// add records a finding, unless the line has one nearby: the value of an assignment may be a token, too.
func (s *Scanner) add(at int, rule, excerpt string) {
	if len(s.found) == MaxFindings || s.last >= 0 && at-s.last < behind &&
		bytes.IndexByte(s.buf[min(at, s.last):max(at, s.last)], '\n') < 0 {
		return
	}
	s.last = at
	s.count(max(at, s.counted))
	f := Finding{Path: s.file, Line: s.line, Column: s.column, Rule: rule, Excerpt: excerpt}
	if at < s.counted { // a name before the counted part, always in the same line
		f.Column = max(1, s.column-utf8.RuneCount(s.buf[max(0, at):s.counted]))
	}
	s.found = append(s.found, f)
}

// holdsSettings reports whether a file may have values without quotes.
func holdsSettings(file string) bool {
	name := strings.ToLower(path.Base(file))
	switch path.Ext(name) {
	case ".env", ".ini", ".cfg", ".conf", ".properties", ".yaml", ".yml", ".toml", ".npmrc", ".pypirc", ".tfvars",
		".sh", ".bash":
		return true
	}
	return strings.HasPrefix(name, ".env.")
}
