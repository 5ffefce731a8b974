package search

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/rye-build/rye/cas/sealed"
)

// format names what is in the file; another name makes another index.
const format = "rye search index 1"

var tableKey = []byte("files")

// errDamaged says that what the file holds can't have been written by us.
var errDamaged = sealed.ErrDamaged

// errOvertaken says that another process wrote a change to the same state first.
var errOvertaken = errors.New("another process wrote")

// A reader is the file, open for reading. Each chunk is verified once.
type reader struct {
	*sealed.File
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
	f, err := sealed.Open(ctx, path, format, wait)
	if err != nil {
		return nil, err
	}
	return &reader{f, make(map[chunkName][]byte)}, nil
}

// chunk returns a piece of a stream.
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

// state reads what is known of all files.
func (r *reader) state() (*state, error) {
	b, err := r.Get(tableKey)
	if err != nil {
		return nil, err
	}
	return decodeState(b, r)
}

// write writes a state that was derived from the generation gen: its table, and the segments that are new.
func write(ctx context.Context, path string, s *state, gen uint64, table []byte, wait time.Duration) error {
	return sealed.Update(ctx, path, format, wait, func(b *sealed.Batch) error {
		old := b.Get(tableKey)
		schema, found := decodeHead(&decoder{text: string(old[:min(len(old), 64)])})
		switch {
		case found != gen && (gen != 0 || schema == s.schema):
			return errOvertaken
		case gen == 0:
			if err := b.Clear(); err != nil {
				return err
			}
		}
		err := b.Keep(func(key []byte) bool {
			return len(key) == chunkKeySize &&
				slices.ContainsFunc(s.segs, func(g *segment) bool { return g.id == binary.BigEndian.Uint64(key[1:]) })
		})
		if err != nil {
			return err
		}
		for _, g := range s.segs {
			if err := g.put(b); err != nil {
				return err
			}
		}
		return b.Put(tableKey, table)
	})
}

// put writes the chunks of a segment, unless they are there.
func (s *segment) put(b *sealed.Batch) error {
	if s.memory == nil {
		return nil
	}
	for stream, data := range s.memory {
		n := 0
		for piece := range slices.Chunk(data, chunkSize) {
			if err := b.Put(chunkName{s.id, stream, n}.key(), piece); err != nil {
				return err
			}
			n++
		}
	}
	return nil
}
