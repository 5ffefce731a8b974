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
	plan := &plan{old: make([]int, len(files))}
	at := 0
	for i := range files {
		f := &files[i]
		for at < len(s.entries) && s.entries[at].compare(f.Space, f.Path) < 0 {
			at++
			plan.gone++
		}
		plan.old[i] = -1
		if at < len(s.entries) && s.entries[at].compare(f.Space, f.Path) == 0 {
			plan.old[i] = at
			at++
		}
		if plan.old[i] < 0 || !s.entries[plan.old[i]].same(f, trusted) {
			plan.load = append(plan.load, i)
		}
	}
	plan.gone += len(s.entries) - at
	return plan
}

const (
	hasStat   = 1
	hasDigest = 2
)

// encode returns the written form of the state.
func (s *state) encode(now statcache.Moment) []byte {
	le := binary.LittleEndian
	data := make([]byte, 0, 1024+160*len(s.entries))
	data = append(data, s.schema[:]...)
	data = le.AppendUint64(data, s.gen)
	data = le.AppendUint64(data, now.Boot)
	data = le.AppendUint64(data, uint64(now.Wall))
	data = le.AppendUint64(data, uint64(now.Up))
	data = binary.AppendUvarint(data, uint64(len(s.segs)))
	for _, g := range s.segs {
		data = le.AppendUint64(data, g.id)
		for _, n := range g.sizes {
			data = le.AppendUint64(data, uint64(n))
		}
	}
	data = binary.AppendUvarint(data, uint64(len(s.entries)))
	for i := range s.entries {
		entry := &s.entries[i]
		data = appendText(appendText(data, entry.space), entry.path)
		flags := byte(0)
		if entry.stat.Sure {
			flags |= hasStat
		}
		if !entry.digest.IsZero() {
			flags |= hasDigest
		}
		data = append(data, flags)
		if entry.stat.Sure {
			for _, n := range entry.stat.words() {
				data = le.AppendUint64(data, n)
			}
		}
		if !entry.digest.IsZero() {
			data = append(data, entry.digest[:]...)
		}
		data = append(data, entry.hash[:]...)
		data = binary.AppendUvarint(data, uint64(entry.count))
		if entry.count > 0 {
			data = binary.AppendUvarint(data, uint64(entry.seg))
			data = binary.AppendUvarint(data, uint64(entry.first))
		}
	}
	return data
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
	decoder := &code.Decoder{Text: string(b)}
	state := new(state)
	state.schema, state.gen = decodeHead(decoder)
	state.written = statcache.Moment{Boot: decoder.Fixed(), Wall: int64(decoder.Fixed()), Up: int64(decoder.Fixed())}
	state.segs = make([]*segment, decoder.Count(8+8*streams))
	for i := range state.segs {
		g := &segment{id: decoder.Fixed(), file: file}
		for j := range g.sizes {
			g.sizes[j] = int(decoder.Fixed())
		}
		state.segs[i] = g
	}
	state.entries = make([]entry, decoder.Count(20))
	for i := range state.entries {
		entry := &state.entries[i]
		entry.space, entry.path = decoder.String(), decoder.String()
		flags := decoder.Take(1)
		if decoder.Bad {
			return nil, errDamaged
		}
		if flags[0]&hasStat != 0 {
			entry.stat = Stat{int64(decoder.Fixed()), int64(decoder.Fixed()), int64(decoder.Fixed()),
				decoder.Fixed(), decoder.Fixed(),
				uint32(decoder.Fixed()), true}
		}
		if flags[0]&hasDigest != 0 {
			copy(entry.digest[:], decoder.Take(len(entry.digest)))
		}
		copy(entry.hash[:], decoder.Take(len(entry.hash)))
		if entry.count = decoder.Int(); entry.count > 0 {
			entry.seg, entry.first = decoder.Int(), decoder.Int()
		}
	}
	if decoder.Bad || len(decoder.Text) > 0 {
		return nil, errDamaged
	}
	return state, nil
}
