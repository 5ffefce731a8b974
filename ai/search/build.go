package search

import (
	"encoding/binary"
	"math"

	"github.com/rye-build/rye/ai/search/inverted"
	"github.com/rye-build/rye/ai/search/query"
)

// The streams of a segment; the package comment describes their content.
const (
	docStream     = iota // one row for each record
	indexStream          // one entry for each block of terms
	termStream           // the terms, sorted, in blocks
	postingStream        // the places of each term
	recordStream         // the records as given
	streams
)

// blockTerms is the number of terms in a block. A query for a word reads one block.
const blockTerms = 128

// A builder makes a segment of records.
type builder struct {
	tok   query.Tokenizer
	lists *inverted.Lists

	layouts    map[string]uint64
	layoutRows []byte
	row        []byte // of one document, under construction
	docs       []byte
	records    []byte
	count      int

	spill   *spill
	from    int64 // where its records begin
	spilled int   // bytes of records in it
}

// newBuilder returns a builder. The spill belongs to it until its segment is complete.
func newBuilder(s *spill) *builder {
	return &builder{lists: inverted.New(), layouts: make(map[string]uint64), spill: s, from: s.End}
}

// size returns the approximate size of the segment so far.
func (b *builder) size() int { return b.spilled + len(b.records) + len(b.docs) + b.lists.Bytes() }

// add indexes a record; encoded is the same record in its written form.
func (b *builder) add(record *Record, encoded []byte) error {
	at := b.spilled + len(b.records)
	b.records = append(b.records, encoded...)
	row := appendText(appendText(appendText(appendText(b.docs, record.Kind), record.ID), record.Space), record.Path)
	row = binary.AppendVarint(row, int64(record.Rank))
	row = binary.AppendUvarint(row, uint64(at))
	row = binary.AppendUvarint(row, uint64(len(encoded)))
	row = binary.AppendUvarint(row, b.layout(record))
	slot := 0
	hit := func(t query.Token) { b.lists.Hit(t.Term, slot, t.Pos) }
	for ; slot < len(record.Fields); slot++ {
		row = binary.AppendUvarint(row, uint64(b.tok.Each(record.Fields[slot].Text, hit)))
	}
	b.docs = row
	b.lists.Next()
	b.count++
	if len(b.records) < b.spill.least || b.spill.Dir == "" {
		return nil
	}
	return b.spillRecords()
}

// spillRecords moves the records from memory into the file.
func (b *builder) spillRecords() error {
	b.spilled += len(b.records)
	err := b.spill.write(b.records)
	b.records = b.records[:0]
	return err
}

// layout returns the number of the record's fields and weights. Many records share a layout.
func (b *builder) layout(r *Record) uint64 {
	row := binary.AppendUvarint(b.row[:0], uint64(len(r.Fields)))
	for i := range r.Fields {
		row = appendText(row, r.Fields[i].Name)
		row = binary.LittleEndian.AppendUint64(row, math.Float64bits(r.Fields[i].weight()))
	}
	b.row = row
	n, ok := b.layouts[string(row)]
	if !ok {
		n = uint64(len(b.layouts))
		b.layouts[string(row)] = n
		b.layoutRows = append(b.layoutRows, row...)
	}
	return n
}

// segment returns the segment. The builder can't be used afterwards.
func (b *builder) segment() (*segment, error) {
	var out [streams][]byte
	head := binary.AppendUvarint(nil, uint64(len(b.layouts)))
	head = append(head, b.layoutRows...)
	head = binary.AppendUvarint(head, uint64(b.count))
	out[docStream] = append(head, b.docs...)
	out[recordStream] = b.records
	out[postingStream] = make([]byte, 0, b.lists.Bytes())
	n := 0
	b.lists.Each(func(term string, posted int, appendTo func([]byte) []byte) {
		if n%blockTerms == 0 {
			out[indexStream] = appendText(out[indexStream], term)
			out[indexStream] = binary.AppendUvarint(out[indexStream], uint64(len(out[termStream])))
			out[indexStream] = binary.AppendUvarint(out[indexStream], uint64(len(out[postingStream])))
		}
		n++
		out[termStream] = binary.AppendUvarint(appendText(out[termStream], term), uint64(posted))
		out[postingStream] = appendTo(out[postingStream])
	})
	b.lists = nil
	segment := &segment{}
	for i := range out {
		segment.sizes[i] = len(out[i])
	}
	if b.spilled == 0 {
		segment.memory = &out
		return segment, nil
	}
	if err := b.spillRecords(); err != nil {
		return nil, err
	}
	segment.spill, segment.at[recordStream], segment.sizes[recordStream] = b.spill, b.from, b.spilled
	for i := range recordStream {
		segment.at[i] = b.spill.End
		if err := b.spill.write(out[i]); err != nil {
			return nil, err
		}
	}
	return segment, nil
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
