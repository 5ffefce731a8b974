package search

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/rye-build/rye/ai/search/code"
)

// chunkSize is the part of a stream in one value of the file, with one checksum.
const chunkSize = 64 << 10

// A segment is the index of some records. It never changes; head marks the records that are still valid.
type segment struct {
	id     uint64 // 0 while it isn't in the file
	sizes  [streams]int
	memory *[streams][]byte // nil unless it is in memory
	spill  *spill           // or in a file without a name, with each stream at its place
	at     [streams]int64
	file   *reader // or in the index

	layouts []layout
	docs    []doc
	blocks  []block
}

// A layout is the fields of a record.
type layout struct {
	names   []string // as queries have them
	weights []float64
}

// A doc is the part of a record that ranking needs.
type doc struct {
	kind, id, space, path string
	rank                  int64
	at, size              int // in the record stream
	layout                int
	lengths               []uint32
}

// A block is the beginning of some terms.
type block struct {
	first         string
	terms, posted int
}

// read returns n bytes of a stream, read-only and valid as long as the file is open.
func (s *segment) read(stream, at, n int) ([]byte, error) {
	if at < 0 || n < 0 || at > s.sizes[stream] || n > s.sizes[stream]-at {
		return nil, errDamaged
	}
	if s.memory != nil {
		return s.memory[stream][at : at+n], nil
	}
	if s.spill != nil {
		b := make([]byte, n)
		return b, s.readNew(b, stream, at)
	}
	var out []byte
	for n > 0 {
		c, err := s.file.chunk(s.id, stream, at/chunkSize)
		if err != nil {
			return nil, err
		}
		from := at % chunkSize
		if from >= len(c) {
			return nil, errDamaged
		}
		piece := c[from:min(from+n, len(c))]
		if out == nil && len(piece) == n {
			return piece, nil
		}
		out = append(out, piece...)
		at, n = at+len(piece), n-len(piece)
	}
	return out, nil
}

// readNew reads from a stream of a segment that isn't in the index yet.
func (s *segment) readNew(to []byte, stream, at int) (err error) {
	if s.memory != nil {
		copy(to, s.memory[stream][at:])
		return nil
	}
	_, err = s.spill.ReadAt(to, s.at[stream]+int64(at))
	return err
}

// isNew reports whether a segment isn't in the index yet.
func (s *segment) isNew() bool { return s.file == nil }

// open reads the parts that every query needs.
func (s *segment) open() error {
	raw, err := s.read(docStream, 0, s.sizes[docStream])
	if err != nil {
		return err
	}
	decoder := code.Decoder{Text: string(raw)}
	s.layouts = make([]layout, decoder.Count(1))
	for i := range s.layouts {
		l := &s.layouts[i]
		n := decoder.Count(9)
		l.names, l.weights = make([]string, n), make([]float64, n)
		for j := range n {
			l.names[j], l.weights[j] = strings.ToLower(decoder.String()), decoder.Float()
		}
	}
	s.docs = make([]doc, decoder.Count(8))
	lengths := make([]uint32, 0, 4*len(s.docs))
	for i := range s.docs {
		doc := &s.docs[i]
		doc.kind, doc.id, doc.space, doc.path, doc.rank = decoder.String(), decoder.String(), decoder.String(),
			decoder.String(), decoder.Signed()
		doc.at, doc.size = decoder.Int(), decoder.Int()
		if doc.layout = decoder.Int(); doc.layout >= len(s.layouts) {
			return errDamaged
		}
		from := len(lengths)
		for range s.layouts[doc.layout].names {
			lengths = append(lengths, uint32(decoder.Int()))
		}
		doc.lengths = lengths[from:len(lengths):len(lengths)]
	}
	if raw, err = s.read(indexStream, 0, s.sizes[indexStream]); err != nil {
		return err
	}
	x := code.Decoder{Text: string(raw)}
	for len(x.Text) > 0 && !x.Bad {
		s.blocks = append(s.blocks, block{x.String(), x.Int(), x.Int()})
	}
	if decoder.Bad || x.Bad || len(decoder.Text) > 0 {
		return errDamaged
	}
	return nil
}

// terms calls yield for the terms with a prefix, in order and with the place of their postings, until it returns
// false.
func (s *segment) terms(prefix string, yield func(term []byte, at, n int) bool) error {
	i := max(0, sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].first > prefix })-1)
	for ; i < len(s.blocks); i++ {
		block := s.blocks[i]
		if block.first > prefix && !strings.HasPrefix(block.first, prefix) {
			break
		}
		end := s.sizes[termStream]
		if i+1 < len(s.blocks) {
			end = s.blocks[i+1].terms
		}
		raw, err := s.read(termStream, block.terms, end-block.terms)
		if err != nil {
			return err
		}
		posted := block.posted
		for len(raw) > 0 {
			n, k := binary.Uvarint(raw)
			if k <= 0 || n > uint64(len(raw)-k) {
				return errDamaged
			}
			term := raw[k : k+int(n)]
			raw = raw[k+int(n):]
			size, k := binary.Uvarint(raw)
			if k <= 0 || size > math.MaxInt32 {
				return errDamaged
			}
			raw = raw[k:]
			if len(term) >= len(prefix) && string(term[:len(prefix)]) == prefix && !yield(term, posted, int(size)) {
				return nil
			}
			posted += int(size)
		}
	}
	return nil
}

// find returns the postings of a term, empty without the term.
func (s *segment) find(term string) (p postings, err error) {
	err = s.terms(term, func(t []byte, at, n int) bool {
		if len(t) == len(term) {
			p, err = s.postings(at, n)
		}
		return false // the term itself is the first with this prefix
	})
	return p, err
}

func (s *segment) postings(at, n int) (postings, error) {
	b, err := s.read(postingStream, at, n)
	return postings{b: b, doc: -1}, err
}

// record reads a record.
func (s *segment) record(p *doc) (*Record, error) {
	raw, err := s.read(recordStream, p.at, p.size)
	if err != nil {
		return nil, err
	}
	return decodeRecord(raw)
}

func decodeRecord(raw []byte) (*Record, error) {
	d := code.Decoder{Text: string(raw)}
	r := &Record{Kind: d.String(), ID: d.String(), Space: d.String(), Path: d.String(), Rank: int(d.Signed())}
	r.Fields = make([]Field, d.Count(10))
	for i := range r.Fields {
		r.Fields[i] = Field{Name: d.String(), Text: d.String(), Weight: d.Float()}
	}
	if d.Bad {
		return nil, errDamaged
	}
	return r, nil
}

// bytes returns the length of all streams.
func (s *segment) bytes() (n int) {
	for _, k := range s.sizes {
		n += k
	}
	return n
}

// A postings iterates over the documents of a term.
type postings struct {
	b     []byte
	doc   int     // in the segment
	spans []spans // of the document's fields
	pos   []uint32
	bad   bool
}

// A spans is the place of the positions in one field.
type spans struct{ slot, from, to int }

// next moves to the next document, and reports whether one exists.
func (p *postings) next() bool {
	if len(p.b) == 0 || p.bad {
		return false
	}
	p.doc += 1 + p.uvarint()
	p.spans, p.pos = p.spans[:0], p.pos[:0]
	for more := true; more && !p.bad; {
		slot := p.uvarint()
		more, slot = slot&1 != 0, slot>>1
		from, last := len(p.pos), 0
		for n := p.uvarint(); n > 0 && !p.bad; n-- {
			last += p.uvarint()
			p.pos = append(p.pos, uint32(last))
		}
		p.spans = append(p.spans, spans{slot, from, len(p.pos)})
	}
	return !p.bad
}

func (p *postings) uvarint() int {
	if len(p.b) > 0 && p.b[0] < 0x80 {
		n := int(p.b[0])
		p.b = p.b[1:]
		return n
	}
	n, k := binary.Uvarint(p.b)
	if k <= 0 || n > math.MaxInt32 {
		p.bad = true
		return 0
	}
	p.b = p.b[k:]
	return int(n)
}

// in returns the positions in a field.
func (p *postings) in(slot int) []uint32 {
	i := slices.IndexFunc(p.spans, func(s spans) bool { return s.slot == slot })
	if i < 0 {
		return nil
	}
	return p.pos[p.spans[i].from:p.spans[i].to]
}
