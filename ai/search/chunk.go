package search

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/rye-build/rye/ai/search/code"
	"github.com/rye-build/rye/cas/checkedbolt"
)

// format is the format of the file; a change of it makes a new index.
const format = "rye search index 1"

var tableKey = []byte("files")

// errDamaged reports content that this program can't have written.
var errDamaged = checkedbolt.ErrDamaged

// errOvertaken reports that another process changed the same state first.
var errOvertaken = errors.New("another process wrote")

// A reader is the file, open for reading. Each chunk is verified once.
type reader struct {
	*checkedbolt.File
	verified map[chunkName][]byte
}

type chunkName struct {
	segment   uint64
	stream, n int
}

const chunkKeySize = 14

func (c chunkName) key() []byte {
	k := binary.BigEndian.AppendUint64(append(make([]byte, 0, chunkKeySize), 's'), c.segment)
	return binary.BigEndian.AppendUint32(append(k, byte(c.stream)), uint32(c.n))
}

func openReader(ctx context.Context, path string, wait time.Duration) (*reader, error) {
	f, err := checkedbolt.Open(ctx, path, format, wait)
	if err != nil {
		return nil, err
	}
	return &reader{f, make(map[chunkName][]byte)}, nil
}

// chunk returns one chunk of a stream.
func (r *reader) chunk(segment uint64, stream, n int) ([]byte, error) {
	name := chunkName{segment, stream, n}
	if b, ok := r.verified[name]; ok {
		return b, nil
	}
	b, err := r.Get(name.key())
	if err == nil {
		r.verified[name] = b
	}
	return b, err
}

// state reads the state of all files.
func (r *reader) state() (*state, error) {
	b, err := r.Get(tableKey)
	if err != nil {
		return nil, err
	}
	return decodeState(b, r)
}

// write writes a state that was derived from the generation gen: its table and its new segments.
func write(ctx context.Context, path string, state *state, gen uint64, table []byte, wait time.Duration) error {
	return checkedbolt.Update(ctx, path, format, wait, func(batch *checkedbolt.Batch) error {
		old := batch.Get(tableKey)
		schema, found := decodeHead(&code.Decoder{Text: string(old[:min(len(old), 64)])})
		switch {
		case found != gen && (gen != 0 || schema == state.schema):
			return errOvertaken
		case gen == 0:
			if err := batch.Clear(); err != nil {
				return err
			}
		}
		// The old table stays valid, and keeps its chunks, until the new one is written.
		if err := batch.PutAll(state.chunks); err != nil {
			return err
		}
		if gen != 0 {
			if err := batch.Keep(state.wants); err != nil {
				return err
			}
		}
		return batch.Put(tableKey, table)
	})
}

// wants reports whether a key belongs to a chunk of a segment, and the first key after that segment.
func (s *state) wants(key []byte) (bool, []byte) {
	if len(key) != chunkKeySize {
		return false, nil
	}
	id := binary.BigEndian.Uint64(key[1:])
	if !slices.ContainsFunc(s.segs, func(g *segment) bool { return g.id == id }) {
		return false, nil
	}
	return true, chunkName{segment: id, stream: streams}.key()
}

// chunks yields the chunks of new segments.
func (s *state) chunks(yield func(checkedbolt.Value) bool) {
	for _, g := range s.segs {
		for stream := 0; g.isNew() && stream < streams; stream++ {
			for at := 0; at < g.sizes[stream]; at += chunkSize {
				v := checkedbolt.Value{Key: chunkName{g.id, stream, at / chunkSize}.key(),
					Size: min(chunkSize, g.sizes[stream]-at)}
				v.Read = func(to []byte) error { return g.readNew(to, stream, at) }
				if !yield(v) {
					return
				}
			}
		}
	}
}
