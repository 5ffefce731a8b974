// Package inverted is an inverted index in memory: it collects the places of terms, document by document.
//
// The postings of a term are, for each document that has it: the number of documents skipped since the last, then for
// each field 2*field + 1 if another one follows, n, and n times the words since the last occurrence; all unsigned
// varints.
//
// # Memory
//
// Terms are many, and a look-up mostly misses the processor's cache. So the data has no pointers, which the garbage
// collector would follow repeatedly, and a hit reads only a slot, a list, and the text of a long term.
package inverted

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"
)

// Lists are the postings of all terms. They are not safe for concurrent use.
type Lists struct {
	seed  maphash.Seed
	table []slot // by hash, a power of two of them
	lists []list
	text  []byte   // the terms, one after the other
	pages [][]byte // of postings
	used  int      // of the last page

	documents int32
	hits      []hit   // of the current document
	touched   []int32 // its terms, in the order of their first hit
	buf       []byte  // buffer for the postings of one term in it
	bytes     int
}

// A slot of the table holds a term; number 0 is a free slot.
type slot struct {
	hash   uint32
	number int32 // of its list, from 1 on
}

// A list is the state of a term, the size of one cache line.
type list struct {
	prefix      uint64 // the first bytes of the term, which decide most comparisons
	text        uint32 // offset of the term in text
	length      uint8
	level       uint8 // of the last block
	held        uint8 // number of bytes that wait in it
	waiting     [21]byte
	posted      uint32 // bytes of postings, including those
	head        uint32 // the first block
	at, end     uint32 // the free rest of the last one
	last        int32  // last document
	first, tail int32  // hits of the current document; -1 for none
}

// A hit is one place of a term. Hits are chained, which groups a document by terms without sorting.
type hit struct {
	next  int32
	field int32
	pos   int32
}

// Postings are written to blocks once some are waiting, each block twice as long as the previous, up to a limit. The
// last four bytes of a block are the place of the next.
const (
	pageBits   = 18
	pageSize   = 1 << pageBits
	firstBlock = 32
	mostLevels = 5 // blocks of this level have 1,024 bytes
	linkSize   = 4
)

// New returns empty lists.
func New() *Lists { return &Lists{seed: maphash.MakeSeed(), table: make([]slot, 1<<10)} }

// Hit adds a place of a term of at most 255 bytes: the field, and the number of words before it there. Fields and
// places must come in order.
func (t *Lists) Hit(term []byte, field, pos int) {
	number := t.number(term)
	l := &t.lists[number]
	n := int32(len(t.hits))
	t.hits = append(t.hits, hit{-1, int32(field), int32(pos)})
	if l.first < 0 {
		l.first = n
		t.touched = append(t.touched, number)
	} else {
		t.hits[l.tail].next = n
	}
	l.tail = n
}

// Next ends a document, which has all hits since the last call.
func (t *Lists) Next() {
	for _, number := range t.touched {
		t.end(&t.lists[number])
	}
	t.documents++
	t.hits, t.touched = t.hits[:0], t.touched[:0]
}

// end appends a term's postings in the current document.
func (t *Lists) end(list *list) {
	data := binary.AppendUvarint(t.buf[:0], uint64(t.documents-list.last-1))
	for at := list.first; at >= 0; {
		field, count, end := t.hits[at].field, 0, at
		for ; end >= 0 && t.hits[end].field == field; end = t.hits[end].next {
			count++
		}
		more := uint64(0)
		if end >= 0 {
			more = 1
		}
		data = binary.AppendUvarint(data, uint64(field)<<1|more)
		data = binary.AppendUvarint(data, uint64(count))
		last := int32(0)
		for ; at != end; at = t.hits[at].next {
			data = binary.AppendUvarint(data, uint64(t.hits[at].pos-last))
			last = t.hits[at].pos
		}
	}
	t.post(list, data)
	t.buf, list.last, list.first = data, t.documents, -1
}

// Bytes returns the length of all postings.
func (t *Lists) Bytes() int { return t.bytes }

// number returns the number of a term's list.
func (t *Lists) number(term []byte) int32 {
	hash, prefix := uint32(maphash.Bytes(t.seed, term)), prefixOf(term)
	mask := uint32(len(t.table) - 1)
	i := hash & mask
	for ; t.table[i].number != 0; i = (i + 1) & mask {
		if s := t.table[i]; s.hash == hash {
			l := &t.lists[s.number-1]
			if l.prefix == prefix && int(l.length) == len(term) &&
				(len(term) <= 8 || string(t.term(l)) == string(term)) {
				return s.number - 1
			}
		}
	}
	n := int32(len(t.lists))
	t.lists = append(t.lists, list{prefix: prefix, text: uint32(len(t.text)), length: uint8(len(term)), last: -1,
		first: -1})
	t.text = append(t.text, term...)
	t.table[i] = slot{hash, n + 1}
	if 2*len(t.lists) > len(t.table) {
		t.grow()
	}
	return n
}

// grow doubles the table.
func (t *Lists) grow() {
	old := t.table
	t.table = make([]slot, 2*len(old))
	mask := uint32(len(t.table) - 1)
	for _, s := range old {
		i := s.hash & mask
		for s.number != 0 && t.table[i].number != 0 {
			i = (i + 1) & mask
		}
		if s.number != 0 {
			t.table[i] = s
		}
	}
}

func (t *Lists) term(l *list) []byte { return t.text[l.text:][:l.length] }

func prefixOf(term []byte) uint64 {
	if len(term) >= 8 {
		return binary.BigEndian.Uint64(term)
	}
	var b [8]byte
	copy(b[:], term)
	return binary.BigEndian.Uint64(b[:])
}

// post adds to the postings of a term.
func (t *Lists) post(l *list, b []byte) {
	l.posted += uint32(len(b))
	t.bytes += len(b)
	if len(b) > len(l.waiting)-int(l.held) {
		t.write(l, l.waiting[:l.held])
		if l.held = 0; len(b) > len(l.waiting) {
			t.write(l, b)
			return
		}
	}
	l.held += uint8(copy(l.waiting[l.held:], b))
}

// write adds to the blocks of a term.
func (t *Lists) write(list *list, b []byte) {
	for len(b) > 0 {
		n := copy(t.at(list.at, list.end), b)
		list.at += uint32(n)
		if b = b[n:]; len(b) == 0 {
			return
		}
		next := t.block(list)
		if list.end != 0 {
			binary.LittleEndian.PutUint32(t.at(list.end, list.end+linkSize), next)
			list.level = min(list.level+1, mostLevels)
		} else {
			list.head = next
		}
		list.at, list.end = next, next+firstBlock<<list.level-linkSize
	}
}

// block returns the place of a list's next block.
func (t *Lists) block(l *list) uint32 {
	size := firstBlock << l.level
	if l.end != 0 {
		size = firstBlock << min(l.level+1, mostLevels)
	}
	if len(t.pages) == 0 || t.used+size > pageSize {
		t.pages, t.used = append(t.pages, make([]byte, pageSize)), 0
	}
	at := t.used
	t.used += size
	return uint32((len(t.pages)-1)<<pageBits + at)
}

// at returns a range of a page.
func (t *Lists) at(from, to uint32) []byte {
	if from == to {
		return nil
	}
	return t.pages[from>>pageBits][from%pageSize:][:to-from]
}

// append appends the postings of a term.
func (t *Lists) append(to []byte, l *list) []byte {
	at, level := l.head, 0
	for left := l.posted - uint32(l.held); left > 0; level = min(level+1, mostLevels) {
		size := uint32(firstBlock<<level - linkSize)
		n := min(left, size)
		to = append(to, t.at(at, at+n)...)
		if left -= n; left > 0 {
			at = binary.LittleEndian.Uint32(t.at(at+size, at+size+linkSize))
		}
	}
	return append(to, l.waiting[:l.held]...)
}

// Each calls yield for all terms, sorted. appendTo appends the postings of the term, which have that many bytes.
// Nothing may be added afterwards.
func (t *Lists) Each(yield func(term string, bytes int, appendTo func([]byte) []byte)) {
	slices.SortFunc(t.lists, func(x, y list) int {
		switch {
		case x.prefix < y.prefix:
			return -1
		case x.prefix > y.prefix:
			return 1
		}
		return strings.Compare(string(t.term(&x)), string(t.term(&y)))
	})
	var l *list
	appendTo := func(b []byte) []byte { return t.append(b, l) }
	for i := range t.lists {
		l = &t.lists[i]
		yield(string(t.term(l)), int(l.posted), appendTo)
	}
}
