package disk

import (
	"context"
	"encoding/binary"
	"io"
	"sync"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk/cut"
)

// A segment is the part of a long object that is cut and stored by one goroutine.
type segment struct {
	b    [segmentSize]byte
	cuts []int // lengths of its chunks, in order
	ids  []cas.Digest
	err  error
	done chan struct{}
}

const segmentSize = 512 << 10

// segments lends buffers of half a megabyte.
var segments = sync.Pool{New: func() any { return new(segment) }}

// putLong stores an object as chunks: first the bytes of head, then those of in. It hashes the whole object here, in
// order, while other goroutines hash, look up and store its chunks, a segment at a time.
func (b *batch) putLong(ctx context.Context, kind cas.Kind, head []byte, in io.Reader) (cas.Info, error) {
	cutter, hasher, lists := cut.Of(kind), cas.NewHasher(), &listBuilder{b: b}
	in = cas.Until(ctx, in)
	var queue []*segment // in progress, in order
	tails := make([]byte, 0, cutter.Max)
	collect := func() error {
		g := queue[0]
		queue = queue[1:]
		<-g.done
		err := g.err
		for i, d := range g.ids {
			if err == nil {
				err = lists.add(0, listItem{d, int64(g.cuts[i])})
			}
		}
		segments.Put(g)
		return err
	}
	var err error
	hasher.Write(head)
	tail := head // the end of the last segment, without a cut so far
	for eof := false; !eof && err == nil; {
		segment := segments.Get().(*segment)
		n := copy(segment.b[:], tail)
		var m int
		m, eof, err = fill(in, segment.b[n:])
		hasher.Write(segment.b[n : n+m])
		n += m
		if err != nil {
			break
		}
		used := segment.split(cutter, n, eof)
		tail = append(tails[:0], segment.b[used:n]...)
		for len(queue) > cap(b.slots) && err == nil {
			err = collect()
		}
		segment.done = make(chan struct{})
		queue = append(queue, segment)
		b.slots <- struct{}{}
		go func() {
			segment.err = b.putSegment(kind, segment)
			<-b.slots
			close(segment.done)
		}()
	}
	for len(queue) > 0 {
		if failed := collect(); err == nil {
			err = failed // the first is enough: a full disk fails all of them
		}
	}
	if err != nil {
		return cas.Info{}, err
	}
	d := hasher.Digest()
	size, err := lists.finish(kind, &d)
	return cas.Info{ID: cas.ID{Kind: kind, Digest: d}, Size: size}, err
}

// fill reads until b is full or r ends. Only io.EOF itself is an end: io.ReadFull turns it into io.ErrUnexpectedEOF,
// which readers also return for a stream that was cut off.
func fill(r io.Reader, b []byte) (n int, eof bool, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	if err == io.EOF {
		return n, true, nil
	}
	return n, false, err
}

// split cuts the first n bytes, and returns how many of them are in chunks. Unless last is true, it leaves the final
// chunk, which may continue in the next segment.
func (g *segment) split(c *cut.Cutter, n int, last bool) int {
	g.cuts = g.cuts[:0]
	at := 0
	for at < n && (last || n-at >= c.Max) {
		m := c.Next(g.b[at:n])
		g.cuts = append(g.cuts, m)
		at += m
	}
	return at
}

// putSegment stores the chunks of a segment.
func (b *batch) putSegment(kind cas.Kind, g *segment) error {
	g.ids = g.ids[:0]
	at := 0
	for _, n := range g.cuts {
		d := cas.Sum(g.b[at : at+n])
		g.ids = append(g.ids, d)
		rec := chunkRecord
		if kind != cas.Blob {
			rec = textRecord
		}
		if err := b.add(rec, &d, g.b[at:at+n]); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// A listItem is one line of a chunk list: a chunk, or a list of a lower level and the bytes below it.
type listItem struct {
	digest cas.Digest
	size   int64
}

// A list is cut after an item whose digest matches a pattern, about one in listEvery, but not before listMin items,
// and at listMax in any case, so that an edit changes one list of each level. Lists are short because digests don't
// compress: with long ones, many small edits cost more in lists than in chunks.
const (
	listEvery = 16
	listMin   = 4
	listMax   = 512
	mostLevel = 30 // with listMin items on each level, more than any length can need
)

func (i *listItem) cuts() bool { return binary.LittleEndian.Uint16(i.digest[:])%listEvery == 0 }

// A listBuilder writes the chunk lists of one object, from the chunks up.
type listBuilder struct {
	b      *batch
	levels [][]listItem
	size   int64
	buf    []byte // of the list that is written
}

// add appends an item to the open list of a level.
func (l *listBuilder) add(level int, i listItem) error {
	if level == len(l.levels) {
		l.levels = append(l.levels, nil)
	}
	if level == 0 {
		l.size += i.size
	}
	l.levels[level] = append(l.levels[level], i)
	if n := len(l.levels[level]); n >= listMin && i.cuts() || n >= listMax {
		return l.close(level)
	}
	return nil
}

// close writes the open list of a level and enters it in the level above.
func (l *listBuilder) close(level int) error {
	l.buf = encodeList(l.buf[:0], level, l.levels[level])
	size := int64(0)
	for _, i := range l.levels[level] {
		size += i.size
	}
	l.levels[level] = l.levels[level][:0]
	d := cas.Sum(l.buf)
	if err := l.b.add(listRecord, &d, l.buf); err != nil {
		return err
	}
	return l.add(level+1, listItem{d, size})
}

// finish closes all lists but the highest, and writes that one as the root.
func (l *listBuilder) finish(kind cas.Kind, digest *cas.Digest) (int64, error) {
	for level := 0; level < len(l.levels)-1; level++ {
		if len(l.levels[level]) > 0 {
			if err := l.close(level); err != nil {
				return 0, err
			}
		}
	}
	top := len(l.levels) - 1
	b := append(l.buf[:0], digest[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(l.size))
	b = encodeList(b, top, l.levels[top])
	return l.size, l.b.add(kind|large, digest, b)
}

// encodeList appends a list: its level, then digest and length of each item.
func encodeList(b []byte, level int, items []listItem) []byte {
	b = append(b, byte(level))
	for _, i := range items {
		b = append(b, i.digest[:]...)
		b = binary.AppendUvarint(b, uint64(i.size))
	}
	return b
}

// decodeList is the inverse of encodeList.
func decodeList(data []byte) (level int, items []listItem, err error) {
	if len(data) == 0 || data[0] > mostLevel {
		return 0, nil, badPack("a chunk list has no level")
	}
	level, data = int(data[0]), data[1:]
	items = make([]listItem, 0, len(data)/(cas.Size+2)+1)
	for len(data) > 0 {
		if len(data) < cas.Size+1 {
			return 0, nil, badPack("a chunk list is cut short")
		}
		size, n := binary.Uvarint(data[cas.Size:])
		if n <= 0 || size == 0 || size > 1<<62 || (n > 1 && data[cas.Size+n-1] == 0) {
			return 0, nil, badPack("a chunk list has a bad length")
		}
		items = append(items, listItem{cas.Digest(data[:cas.Size]), int64(size)})
		data = data[cas.Size+n:]
	}
	return level, items, nil
}

// decodeBelow reads a list named by a list of the given level, and checks that it has size bytes below it.
func decodeBelow(b []byte, level int, size int64) ([]listItem, error) {
	lower, items, err := decodeList(b)
	if err != nil {
		return nil, err
	}
	if lower != level-1 {
		return nil, badPack("a chunk list refers to a list of the wrong level")
	}
	if sum, ok := sumOf(items); !ok || sum != size {
		return nil, badPack("a chunk list gives a wrong length")
	}
	return items, nil
}

// sumOf adds up the bytes below a list; ok is false if an object can't have so many.
func sumOf(items []listItem) (sum int64, ok bool) {
	for _, i := range items {
		if sum += i.size; sum > 1<<62 {
			return 0, false
		}
	}
	return sum, len(items) > 0
}

// decodeRoot reads a root record: the digest and length of the whole object, then its highest list.
func decodeRoot(b []byte) (d cas.Digest, size int64, level int, items []listItem, err error) {
	if len(b) < cas.Size+8 {
		return d, 0, 0, nil, badPack("the root of a chunk list is cut short")
	}
	u := binary.LittleEndian.Uint64(b[cas.Size:])
	level, items, err = decodeList(b[cas.Size+8:])
	if sum, ok := sumOf(items); err == nil && (!ok || u != uint64(sum)) {
		err = badPack("the root of a chunk list does not match its parts")
	}
	return cas.Digest(b[:cas.Size]), int64(u), level, items, err
}
