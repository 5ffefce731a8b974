package search

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"
	"strings"
)

// chunkSize is how much of a stream is one value of the file, with one checksum.
const chunkSize = 64 << 10

// A segment is the index of some records. It never changes; the head says which of its records still count.
type segment struct {
	id     uint64 // 0 while it isn't in the file
	sizes  [streams]int
	memory *[streams][]byte // nil when it is in the file
	file   *reader          // otherwise

	layouts []layout
	docs    []doc
	blocks  []block
}

// A layout is the fields of a record.
type layout struct {
	names   []string // as queries have them
	weights []float64
}

// A doc is what ranking needs of a record.
type doc struct {
	kind, id, space, path string
	rank                  int64
	at, size              int // in the record stream
	layout                int
	lengths               []uint32
}

// A block is where some terms begin.
type block struct {
	first         string
	terms, posted int
}

// read returns n bytes of a stream. They must not be changed, and are valid as long as the file is open.
func (s *segment) read(stream, at, n int) ([]byte, error) {
	if at < 0 || n < 0 || at > s.sizes[stream] || n > s.sizes[stream]-at {
		return nil, errDamaged
	}
	if s.memory != nil {
		return s.memory[stream][at : at+n], nil
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

// open reads what every query needs.
func (s *segment) open() error {
	raw, err := s.read(docStream, 0, s.sizes[docStream])
	if err != nil {
		return err
	}
	d := decoder{text: string(raw)}
	s.layouts = make([]layout, d.count(1))
	for i := range s.layouts {
		l := &s.layouts[i]
		n := d.count(9)
		l.names, l.weights = make([]string, n), make([]float64, n)
		for j := range n {
			l.names[j], l.weights[j] = strings.ToLower(d.string()), d.float()
		}
	}
	s.docs = make([]doc, d.count(8))
	lengths := make([]uint32, 0, 4*len(s.docs))
	for i := range s.docs {
		p := &s.docs[i]
		p.kind, p.id, p.space, p.path, p.rank = d.string(), d.string(), d.string(), d.string(), d.signed()
		p.at, p.size = d.int(), d.int()
		if p.layout = d.int(); p.layout >= len(s.layouts) {
			return errDamaged
		}
		from := len(lengths)
		for range s.layouts[p.layout].names {
			lengths = append(lengths, uint32(d.int()))
		}
		p.lengths = lengths[from:len(lengths):len(lengths)]
	}
	if raw, err = s.read(indexStream, 0, s.sizes[indexStream]); err != nil {
		return err
	}
	x := decoder{text: string(raw)}
	for len(x.text) > 0 && !x.bad {
		s.blocks = append(s.blocks, block{x.string(), x.int(), x.int()})
	}
	if d.bad || x.bad || len(d.text) > 0 {
		return errDamaged
	}
	return nil
}

// terms calls yield for the terms that begin with prefix, in their order, with the place of their postings, until
// it returns false.
func (s *segment) terms(prefix string, yield func(term []byte, at, n int) bool) error {
	i := max(0, sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].first > prefix })-1)
	for ; i < len(s.blocks); i++ {
		b := s.blocks[i]
		if b.first > prefix && !strings.HasPrefix(b.first, prefix) {
			break
		}
		end := s.sizes[termStream]
		if i+1 < len(s.blocks) {
			end = s.blocks[i+1].terms
		}
		raw, err := s.read(termStream, b.terms, end-b.terms)
		if err != nil {
			return err
		}
		posted := b.posted
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

// find returns the postings of a term, none if there is no such term.
func (s *segment) find(term string) (p postings, err error) {
	err = s.terms(term, func(t []byte, at, n int) bool {
		if len(t) == len(term) {
			p, err = s.postings(at, n)
		}
		return false // the term itself is the first that begins with it
	})
	return p, err
}

func (s *segment) postings(at, n int) (postings, error) {
	b, err := s.read(postingStream, at, n)
	return postings{b: b, doc: -1}, err
}

// record reads a record as it was given.
func (s *segment) record(p *doc) (*Record, error) {
	raw, err := s.read(recordStream, p.at, p.size)
	if err != nil {
		return nil, err
	}
	d := decoder{text: string(raw)}
	r := &Record{Kind: d.string(), ID: d.string(), Space: d.string(), Path: d.string(), Rank: int(d.signed())}
	r.Fields = make([]Field, d.count(10))
	for i := range r.Fields {
		r.Fields[i] = Field{Name: d.string(), Text: d.string(), Weight: d.float()}
	}
	if d.bad {
		return nil, errDamaged
	}
	return r, nil
}

// bytes is how long all streams are together.
func (s *segment) bytes() (n int) {
	for _, k := range s.sizes {
		n += k
	}
	return n
}

// A postings goes over the documents of a term.
type postings struct {
	b     []byte
	doc   int     // in the segment
	spans []spans // of the document, by field
	pos   []uint32
	bad   bool
}

// A spans is where the positions in one field are.
type spans struct{ slot, from, to int }

// next goes on to the next document, and reports whether there is one.
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

// A decoder takes a text apart. After something that doesn't fit it is bad and returns nothing more.
type decoder struct {
	text string
	bad  bool
}

func (d *decoder) take(n int) string {
	if d.bad || n < 0 || n > len(d.text) {
		d.bad, d.text = true, ""
		return ""
	}
	s := d.text[:n]
	d.text = d.text[n:]
	return s
}

func (d *decoder) uint() (n uint64) {
	for shift := 0; shift < 64 && len(d.text) > 0; shift += 7 {
		c := d.text[0]
		d.text = d.text[1:]
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
	d.bad, d.text = true, ""
	return 0
}

func (d *decoder) int() int {
	n := d.uint()
	if n > 1<<40 {
		d.bad, d.text = true, ""
		return 0
	}
	return int(n)
}

// count reads how many things follow, each of at least size bytes: so damage can't ask for memory.
func (d *decoder) count(size int) int {
	n := d.int()
	if n > len(d.text)/size {
		d.bad, d.text = true, ""
		return 0
	}
	return n
}

func (d *decoder) signed() int64 {
	n := d.uint()
	return int64(n>>1) ^ -int64(n&1)
}

func (d *decoder) string() string { return d.take(d.int()) }

func (d *decoder) fixed() uint64 {
	s := d.take(8)
	if d.bad {
		return 0
	}
	return binary.LittleEndian.Uint64([]byte(s))
}

func (d *decoder) float() float64 { return math.Float64frombits(d.fixed()) }
