package castest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/rye-build/rye/cas"
)

// batcher returns a test that runs f if the store is a cas.Batcher.
func batcher(f func(*suite, cas.Batcher)) func(*suite) {
	return func(s *suite) {
		if b, ok := s.Store.(cas.Batcher); ok {
			f(s, b)
		}
	}
}

func (s *suite) begin(b cas.Batcher) cas.Batch {
	s.Helper()
	batch, err := b.Batch(s.ctx)
	if err != nil {
		s.Fatalf("Batch: %v", err)
	}
	return batch
}

func (s *suite) commit(b cas.Batch) {
	s.Helper()
	if err := b.Commit(s.ctx); err != nil {
		s.Errorf("Commit: %v", err)
	}
	s.close(b)
}

func (s *suite) close(b cas.Batch) {
	s.Helper()
	if err := b.Close(); err != nil {
		s.Errorf("Close: %v", err)
	}
}

// putBytes puts b, and then overwrites the slice that it passed, as PutBytes allows.
func (s *suite) putBytes(p cas.Batch, kind cas.Kind, b []byte) cas.Info {
	s.Helper()
	passed := bytes.Clone(b)
	d, err := p.PutBytes(s.ctx, kind, passed)
	if want := cas.Sum(b); err != nil || d != want {
		s.Errorf("PutBytes of %s = %v, %v; want %v", name(b), d, err, want)
	}
	for i := range passed {
		passed[i] ^= 0xff
	}
	return infoOf(kind, b)
}

// batch checks that only the batch itself sees its objects until it is committed.
func (s *suite) batch(batcher cas.Batcher) {
	old := s.put(s, cas.Blob, []byte("old")).ID
	batch := s.begin(batcher)
	one := s.put(batch, cas.Blob, []byte("one")).ID
	two := s.putBytes(batch, cas.TreeKind, []byte("two")).ID
	long := s.put(batch, cas.Blob, Random(1, 700<<10)).ID
	none := infoOf(cas.Blob, []byte("none")).ID
	s.wantNone(one, two, long)
	s.wantMissing(batch, []cas.ID{none, one, old, two, none, long}, []cas.ID{none, none})

	// A put outside the batch is visible at once and doesn't disturb the batch.
	s.put(s, cas.Blob, []byte("outside"))
	s.put(s, cas.Blob, []byte("one"))
	s.want(cas.Blob, []byte("outside"))

	s.commit(batch)
	s.want(cas.Blob, []byte("old"))
	s.want(cas.Blob, []byte("one"))
	s.want(cas.TreeKind, []byte("two"))
	s.want(cas.Blob, Random(1, 700<<10))

	s.commit(s.begin(batcher)) // an empty one
}

func (s *suite) batchRoundTrip(b cas.Batcher) {
	batch := s.begin(b)
	for _, c := range contents {
		for i, n := range sizes() {
			if i%2 == 0 {
				s.put(batch, cas.Blob, c.make(2, n))
			} else {
				s.putBytes(batch, cas.Blob, c.make(2, n))
			}
		}
	}
	for _, data := range small(2, 3000) {
		s.putBytes(batch, cas.Document, data)
		s.putBytes(batch, cas.Document, data)
	}
	s.commit(batch)
	for _, c := range contents {
		for _, n := range sizes() {
			s.want(cas.Blob, c.make(2, n))
		}
	}
	for _, data := range small(2, 3000) {
		s.want(cas.Document, data)
	}
}

func (s *suite) batchDropped(b cas.Batcher) {
	s.close(s.begin(b))
	batch := s.begin(b)
	var ids []cas.ID
	for _, n := range sizes() {
		ids = append(ids, s.put(batch, cas.Blob, Random(4, n)).ID)
	}
	s.close(batch)
	s.wantNone(ids...)
	if _, err := batch.PutBytes(s.ctx, cas.Blob, []byte("late")); err == nil {
		s.Error("PutBytes after Close succeeded")
	}
	if err := batch.Commit(s.ctx); err == nil {
		s.Error("Commit after Close succeeded")
	}
	s.wantNone(append(ids, infoOf(cas.Blob, []byte("late")).ID)...)
	s.put(s, cas.Blob, Random(4, 1<<20))
	s.want(cas.Blob, Random(4, 1<<20))
}

// batchFailingReader checks that a batch continues after a source has failed, without that object.
func (s *suite) batchFailingReader(b cas.Batcher) {
	batch := s.begin(b)
	s.putBytes(batch, cas.Blob, []byte("before"))
	var ids []cas.ID
	for _, n := range sizes() {
		data := Random(6, n)
		if _, err := batch.Put(s.ctx, cas.Blob, failing(data)); !errors.Is(err, errReader) {
			s.Fatalf("Put of %d bytes from a reader that then fails: error %v", n, err)
		}
		ids = append(ids, infoOf(cas.Blob, data).ID)
	}
	if _, err := batch.PutBytes(s.ctx, 0, nil); err == nil {
		s.Error("PutBytes of kind 0 succeeded")
	}
	s.wantMissing(batch, ids, ids)
	s.putBytes(batch, cas.Blob, []byte("after"))
	s.commit(batch)
	s.wantNone(ids...)
	s.want(cas.Blob, []byte("before"))
	s.want(cas.Blob, []byte("after"))
}

func (s *suite) batchCancelled(b cas.Batcher) {
	ctx, cancel := context.WithCancel(s.ctx)
	batch := s.begin(b)
	id := s.putBytes(batch, cas.Blob, []byte("never")).ID
	cancel()
	if _, err := b.Batch(ctx); !errors.Is(err, context.Canceled) {
		s.Errorf("Batch: error %v, want context.Canceled", err)
	}
	if _, err := batch.PutBytes(ctx, cas.Blob, []byte("more")); !errors.Is(err, context.Canceled) {
		s.Errorf("PutBytes: error %v, want context.Canceled", err)
	}
	if err := batch.Commit(ctx); !errors.Is(err, context.Canceled) {
		s.Errorf("Commit: error %v, want context.Canceled", err)
	}
	s.close(batch)
	s.wantNone(id, infoOf(cas.Blob, []byte("more")).ID)
}

// batchTogether checks that many goroutines can put into one batch.
func (s *suite) batchTogether(b cas.Batcher) {
	objects := append(small(9, 600), Random(9, 300<<10), Text(9, 900<<10))
	batch := s.begin(b)
	s.many(crowd(), func(s *suite, g int) {
		for _, i := range rand.New(rand.NewPCG(uint64(g), 0)).Perm(len(objects)) {
			if data := objects[i]; i%2 == 0 {
				s.putBytes(batch, cas.Blob, data)
			} else {
				s.put(batch, cas.Blob, data)
			}
			s.wantMissing(batch, []cas.ID{infoOf(cas.Blob, objects[i]).ID}, nil)
		}
	})
	s.commit(batch)
	for _, data := range objects {
		s.want(cas.Blob, data)
	}
}

// batchesTogether runs batches with the same objects concurrently and drops some of them. It checks that the store
// has every object of a committed batch.
func (s *suite) batchesTogether(batcher cas.Batcher) {
	objects := append(small(8, 200), Random(8, 700<<10))
	s.Run("two", func(t *testing.T) {
		s := &suite{t, s.Store, t.Context()}
		committed, dropped := s.begin(batcher), s.begin(batcher)
		for _, data := range objects[:50] {
			s.putBytes(dropped, cas.Blob, data)
			s.putBytes(committed, cas.Blob, data)
		}
		s.commit(committed)
		s.close(dropped)
		for _, data := range objects[:50] {
			s.want(cas.Blob, data)
		}
	})
	s.many(16, func(suite *suite, g int) {
		batch, err := batcher.Batch(suite.ctx)
		if err != nil {
			suite.Errorf("Batch: %v", err)
			return
		}
		order := rand.New(rand.NewPCG(uint64(g), 0)).Perm(len(objects))[:100]
		for _, i := range order {
			suite.putBytes(batch, cas.Blob, objects[i])
		}
		if g%4 == 3 {
			suite.close(batch)
			return
		}
		suite.commit(batch)
		for _, i := range order {
			suite.want(cas.Blob, objects[i])
		}
	})
}
