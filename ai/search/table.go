package search

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/search/code"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/statcache"
)

// A state is the knowledge about all files at one moment. It never changes.
type state struct {
	schema  cas.Digest
	gen     uint64           // of its file; 0 without one
	written statcache.Moment // stats are void if the clock was set back since
	segs    []*segment
	entries []entry // sorted by space and path
}

// An entry is the cached knowledge about a file.
type entry struct {
	space, path string
	stat        Stat       // zero unless it may be trusted
	digest      cas.Digest // of an embedded file
	hash        [16]byte   // of its records
	seg         int        // the place of its records: segment, first record, count
	first       int
	count       int
}

func (e *entry) compare(space, path string) int {
	return cmp.Or(strings.Compare(e.space, space), strings.Compare(e.path, path))
}

// same reports whether a file is unchanged since the entry was made.
func (e *entry) same(f *File, trusted bool) bool {
	if !f.Digest.IsZero() {
		return e.digest == f.Digest
	}
	return trusted && f.Stat.Sure && e.stat == f.Stat
}

// sortFiles returns a copy of files in the order of entries.
func sortFiles(files []File) ([]File, error) {
	order := func(a, b File) int {
		return cmp.Or(strings.Compare(a.Space, b.Space), strings.Compare(a.Path, b.Path))
	}
	if !slices.IsSortedFunc(files, order) {
		at := make([]*File, len(files)) // cheaper to sort
		for i := range files {
			at[i] = &files[i]
		}
		slices.SortFunc(at, func(a, b *File) int { return order(*a, *b) })
		sorted := make([]File, len(files))
		for i := range at {
			sorted[i] = *at[i]
		}
		files = sorted
	}
	for i := 1; i < len(files); i++ {
		if files[i-1].Space == files[i].Space && files[i-1].Path == files[i].Path {
			return nil, fmt.Errorf("the catalog has %q of the space %q twice", files[i].Path, files[i].Space)
		}
	}
	return files, nil
}

// A plan compares the files with a state.
type plan struct {
	old  []int // each file's entry, or -1
	load []int // the files to read
	gone int
}

func (s *state) plan(files []File, begin statcache.Moment) *plan {
	trusted := !begin.SetBackSince(s.written)
	p := &plan{old: make([]int, len(files))}
	at := 0
	for i := range files {
		f := &files[i]
		for at < len(s.entries) && s.entries[at].compare(f.Space, f.Path) < 0 {
			at++
			p.gone++
		}
		p.old[i] = -1
		if at < len(s.entries) && s.entries[at].compare(f.Space, f.Path) == 0 {
			p.old[i] = at
			at++
		}
		if p.old[i] < 0 || !s.entries[p.old[i]].same(f, trusted) {
			p.load = append(p.load, i)
		}
	}
	p.gone += len(s.entries) - at
	return p
}

const (
	hasStat   = 1
	hasDigest = 2
)

// encode returns the written form of the state.
func (s *state) encode(now statcache.Moment) []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, 1024+160*len(s.entries))
	b = append(b, s.schema[:]...)
	b = le.AppendUint64(b, s.gen)
	b = le.AppendUint64(b, now.Boot)
	b = le.AppendUint64(b, uint64(now.Wall))
	b = le.AppendUint64(b, uint64(now.Up))
	b = binary.AppendUvarint(b, uint64(len(s.segs)))
	for _, g := range s.segs {
		b = le.AppendUint64(b, g.id)
		for _, n := range g.sizes {
			b = le.AppendUint64(b, uint64(n))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(s.entries)))
	for i := range s.entries {
		e := &s.entries[i]
		b = appendText(appendText(b, e.space), e.path)
		flags := byte(0)
		if e.stat.Sure {
			flags |= hasStat
		}
		if !e.digest.IsZero() {
			flags |= hasDigest
		}
		b = append(b, flags)
		if e.stat.Sure {
			for _, n := range e.stat.words() {
				b = le.AppendUint64(b, n)
			}
		}
		if !e.digest.IsZero() {
			b = append(b, e.digest[:]...)
		}
		b = append(b, e.hash[:]...)
		b = binary.AppendUvarint(b, uint64(e.count))
		if e.count > 0 {
			b = binary.AppendUvarint(b, uint64(e.seg))
			b = binary.AppendUvarint(b, uint64(e.first))
		}
	}
	return b
}

func (s *Stat) words() [6]uint64 {
	return [6]uint64{uint64(s.Size), uint64(s.Mtime), uint64(s.Ctime), s.Dev, s.Inode, uint64(s.Mode)}
}

// decodeHead reads the schema and the generation, which come first.
func decodeHead(d *code.Decoder) (schema cas.Digest, gen uint64) {
	copy(schema[:], d.Take(len(schema)))
	return schema, d.Fixed()
}

// decodeState reads the output of encode; the segments are in file.
func decodeState(b []byte, file *reader) (*state, error) {
	d := &code.Decoder{Text: string(b)}
	s := new(state)
	s.schema, s.gen = decodeHead(d)
	s.written = statcache.Moment{Boot: d.Fixed(), Wall: int64(d.Fixed()), Up: int64(d.Fixed())}
	s.segs = make([]*segment, d.Count(8+8*streams))
	for i := range s.segs {
		g := &segment{id: d.Fixed(), file: file}
		for j := range g.sizes {
			g.sizes[j] = int(d.Fixed())
		}
		s.segs[i] = g
	}
	s.entries = make([]entry, d.Count(20))
	for i := range s.entries {
		e := &s.entries[i]
		e.space, e.path = d.String(), d.String()
		flags := d.Take(1)
		if d.Bad {
			return nil, errDamaged
		}
		if flags[0]&hasStat != 0 {
			e.stat = Stat{int64(d.Fixed()), int64(d.Fixed()), int64(d.Fixed()), d.Fixed(), d.Fixed(),
				uint32(d.Fixed()), true}
		}
		if flags[0]&hasDigest != 0 {
			copy(e.digest[:], d.Take(len(e.digest)))
		}
		copy(e.hash[:], d.Take(len(e.hash)))
		if e.count = d.Int(); e.count > 0 {
			e.seg, e.first = d.Int(), d.Int()
		}
	}
	if d.Bad || len(d.Text) > 0 {
		return nil, errDamaged
	}
	return s, nil
}
