package search

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/rye-build/rye/ai/search/query"
)

// The streams of a segment; the package comment tells what is in them.
const (
	docStream     = iota // one row for each record
	indexStream          // one entry for each block of terms
	termStream           // the terms, sorted, in blocks
	postingStream        // where each term stands
	recordStream         // the records as they were given
	streams
)

// blockTerms is how many terms a block has. A query for a word reads one block.
const blockTerms = 128

// A builder makes a segment of records.
type builder struct {
	tok     query.Tokenizer
	terms   map[string]int32
	lists   []list
	hits    []hit   // of the present record
	touched []int32 // its terms, in the order of their first hit

	layouts    map[string]uint64
	layoutRows []byte
	docs       []byte
	records    []byte
	count      int

	spill   *spill
	from    int64 // where the records in it begin
	spilled int   // bytes of records in it
	posted  int   // bytes of all postings
}

// A list is what is known of a term. Its numbers are small because a segment is, and MaxText bounds a document: most terms
// are looked up from memory that is in no cache.
type list struct {
	term        string
	posts       []byte
	last        int32 // document
	first, tail int32 // hits of the present document; -1 when there is none
}

// A hit is one place of a term. They are chained, so that a document is grouped by terms without sorting.
type hit struct {
	next int32
	slot int32 // the field, by its number in the record
	pos  int32
}

// newBuilder returns a builder that uses a spill alone until its segment is made.
func newBuilder(s *spill) *builder {
	return &builder{terms: make(map[string]int32), layouts: make(map[string]uint64), spill: s, from: s.End}
}

// size is about how large the segment will be.
func (b *builder) size() int { return b.spilled + len(b.records) + len(b.docs) + b.posted }

// add indexes a record, which is also given as it is written.
func (b *builder) add(r *Record, encoded []byte) error {
	at := b.spilled + len(b.records)
	b.records = append(b.records, encoded...)
	row := appendText(appendText(appendText(appendText(b.docs, r.Kind), r.ID), r.Space), r.Path)
	row = binary.AppendVarint(row, int64(r.Rank))
	row = binary.AppendUvarint(row, uint64(at))
	row = binary.AppendUvarint(row, uint64(len(encoded)))
	row = binary.AppendUvarint(row, b.layout(r))
	b.hits, b.touched = b.hits[:0], b.touched[:0]
	for slot := range r.Fields {
		n := b.tok.Each(r.Fields[slot].Text, func(t query.Token) { b.hit(t, slot) })
		row = binary.AppendUvarint(row, uint64(n))
	}
	b.docs = row
	for _, id := range b.touched {
		b.post(&b.lists[id])
	}
	b.count++
	if len(b.records) < b.spill.least || b.spill.Dir == "" {
		return nil
	}
	return b.spillRecords()
}

// spillRecords writes the records that are in memory to the file.
func (b *builder) spillRecords() error {
	b.spilled += len(b.records)
	err := b.spill.write(b.records)
	b.records = b.records[:0]
	return err
}

// hit notes a place.
func (b *builder) hit(t query.Token, slot int) {
	id, ok := b.terms[string(t.Term)]
	if !ok {
		id = int32(len(b.lists))
		term := string(t.Term)
		b.terms[term] = id
		b.lists = append(b.lists, list{term: term, last: -1, first: -1})
	}
	l := &b.lists[id]
	n := int32(len(b.hits))
	b.hits = append(b.hits, hit{-1, int32(slot), int32(t.Pos)})
	if l.first < 0 {
		l.first = n
		b.touched = append(b.touched, id)
	} else {
		b.hits[l.tail].next = n
	}
	l.tail = n
}

// post appends what a term has in the present document.
func (b *builder) post(l *list) {
	posts := binary.AppendUvarint(l.posts, uint64(int32(b.count)-l.last-1))
	for at := l.first; at >= 0; {
		slot, count, end := b.hits[at].slot, 0, at
		for ; end >= 0 && b.hits[end].slot == slot; end = b.hits[end].next {
			count++
		}
		more := uint64(0)
		if end >= 0 {
			more = 1
		}
		posts = binary.AppendUvarint(posts, uint64(slot)<<1|more)
		posts = binary.AppendUvarint(posts, uint64(count))
		last := int32(0)
		for ; at != end; at = b.hits[at].next {
			posts = binary.AppendUvarint(posts, uint64(b.hits[at].pos-last))
			last = b.hits[at].pos
		}
	}
	b.posted += len(posts) - len(l.posts)
	l.posts, l.last, l.first = posts, int32(b.count), -1
}

// layout returns the number of the record's fields and their weights, which few records have for themselves.
func (b *builder) layout(r *Record) uint64 {
	row := binary.AppendUvarint(nil, uint64(len(r.Fields)))
	for i := range r.Fields {
		row = appendText(row, r.Fields[i].Name)
		row = binary.LittleEndian.AppendUint64(row, math.Float64bits(r.Fields[i].weight()))
	}
	n, ok := b.layouts[string(row)]
	if !ok {
		n = uint64(len(b.layouts))
		b.layouts[string(row)] = n
		b.layoutRows = append(b.layoutRows, row...)
	}
	return n
}

// segment returns what was built. The builder is used up.
func (b *builder) segment() (*segment, error) {
	var out [streams][]byte
	head := binary.AppendUvarint(nil, uint64(len(b.layouts)))
	head = append(head, b.layoutRows...)
	head = binary.AppendUvarint(head, uint64(b.count))
	out[docStream] = append(head, b.docs...)
	out[recordStream] = b.records
	slices.SortFunc(b.lists, func(x, y list) int {
		if x.term < y.term {
			return -1
		}
		return 1 // no two are equal
	})
	out[postingStream] = make([]byte, 0, b.posted)
	for i := range b.lists {
		l := &b.lists[i]
		if i%blockTerms == 0 {
			out[indexStream] = appendText(out[indexStream], l.term)
			out[indexStream] = binary.AppendUvarint(out[indexStream], uint64(len(out[termStream])))
			out[indexStream] = binary.AppendUvarint(out[indexStream], uint64(len(out[postingStream])))
		}
		out[termStream] = appendText(out[termStream], l.term)
		out[termStream] = binary.AppendUvarint(out[termStream], uint64(len(l.posts)))
		out[postingStream] = append(out[postingStream], l.posts...)
		l.posts = nil
	}
	s := &segment{}
	for i := range out {
		s.sizes[i] = len(out[i])
	}
	if b.spilled == 0 {
		s.memory = &out
		return s, nil
	}
	if err := b.spillRecords(); err != nil {
		return nil, err
	}
	s.spill, s.at[recordStream], s.sizes[recordStream] = b.spill, b.from, b.spilled
	for i := range recordStream {
		s.at[i] = b.spill.End
		if err := b.spill.write(out[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendRecord(b []byte, r *Record) []byte {
	b = appendText(appendText(appendText(appendText(b, r.Kind), r.ID), r.Space), r.Path)
	b = binary.AppendVarint(b, int64(r.Rank))
	b = binary.AppendUvarint(b, uint64(len(r.Fields)))
	for i := range r.Fields {
		f := &r.Fields[i]
		b = appendText(appendText(b, f.Name), f.Text)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f.weight()))
	}
	return b
}
