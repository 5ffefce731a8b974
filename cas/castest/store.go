package castest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/rye-build/rye/cas"
)

func (s *suite) roundTrip() {
	for _, c := range contents {
		s.Run(c.name, func(t *testing.T) {
			s := &suite{t, s.Store, t.Context()}
			for _, n := range sizes() {
				s.put(s, cas.Blob, c.make(1, n))
			}
			for _, n := range sizes() {
				s.want(cas.Blob, c.make(1, n))
			}
		})
	}
}

// oddReaders writes and reads in all the portions that io.Reader allows.
func (s *suite) oddReaders() {
	for _, n := range []int{0, 1, 5000, 300 << 10} {
		for i, odd := range []func(io.Reader) io.Reader{iotest.HalfReader, iotest.DataErrReader,
			iotest.OneByteReader} {
			b := Text(uint64(i), n)
			info, err := s.Put(s.ctx, cas.Blob, odd(bytes.NewReader(b)))
			if err != nil || info != infoOf(cas.Blob, b) {
				s.Fatalf("Put of %s = %v, %v", name(b), info, err)
			}
			o, err := s.Get(s.ctx, info.ID)
			if err != nil {
				s.Fatal(err)
			}
			o.ReadCloser = io.NopCloser(odd(struct{ io.Reader }{o.ReadCloser}))
			s.wantObject(o, info, b)
			o.Close()
		}
	}
}

// kinds checks that the same bytes of another kind are another object.
func (s *suite) kinds() {
	kinds := []cas.Kind{cas.Blob, cas.TreeKind, cas.Document}
	for _, n := range []int{14, 700 << 10} {
		b := Text(7, n)
		copy(b, "rye: \"tree/2\"\n")
		for i, kind := range kinds {
			s.put(s, kind, b)
			s.want(kind, b)
			for _, other := range kinds[i+1:] {
				s.wantNone(infoOf(other, b).ID)
			}
		}
	}
	for _, kind := range []cas.Kind{0, 4, 255} {
		if _, err := s.Put(s.ctx, kind, bytes.NewReader(nil)); err == nil {
			s.Errorf("Put of kind %d succeeded", byte(kind))
		}
	}
}

func (s *suite) absent() {
	s.wantNone(cas.ID{Kind: cas.Blob}, infoOf(cas.Blob, nil).ID, infoOf(cas.TreeKind, []byte("x")).ID)
	s.put(s, cas.Blob, []byte("there"))
	s.wantNone(infoOf(cas.Blob, []byte("not there")).ID)
}

func (s *suite) missing() {
	s.wantMissing(s, nil, nil)
	a, b, c := s.put(s, cas.Blob, []byte("a")).ID, infoOf(cas.Blob, []byte("b")).ID,
		s.put(s, cas.TreeKind, []byte("c")).ID
	z := infoOf(cas.Document, []byte("z")).ID
	s.wantMissing(s, []cas.ID{a, c, a}, nil)
	s.wantMissing(s, []cas.ID{z, b}, []cas.ID{z, b})
	s.wantMissing(s, []cas.ID{z, a, b, c, z, b}, []cas.ID{z, b, z, b})
}

func (s *suite) missingMany() {
	var ids, want []cas.ID
	for i, b := range small(3, 10_000) {
		id := infoOf(cas.Blob, b).ID
		ids = append(ids, id)
		if i%100 == 99 {
			s.put(s, cas.Blob, b)
		} else {
			want = append(want, id)
		}
	}
	s.wantMissing(s, ids, want)
}

func (s *suite) idempotent() {
	for _, b := range [][]byte{nil, []byte("again"), Random(1, 600<<10)} {
		for range 3 {
			s.put(s, cas.Blob, b)
			s.want(cas.Blob, b)
		}
	}
	if l, ok := s.Store.(cas.Lister); ok && len(s.all(l)) != 3 {
		s.Errorf("List gives %d objects, want 3", len(s.all(l)))
	}
}

var errReader = errors.New("the reader has failed")

// failing returns a reader that fails after b.
func failing(b []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(b), iotest.ErrReader(errReader))
}

func (s *suite) failingReader() {
	for _, n := range sizes() {
		b := Random(uint64(n), n)
		if _, err := s.Put(s.ctx, cas.Blob, failing(b)); !errors.Is(err, errReader) {
			s.Fatalf("Put of %d bytes from a reader that fails then: error %v", n, err)
		}
		s.wantNone(infoOf(cas.Blob, b).ID)
		s.put(s, cas.Blob, b)
		if _, err := s.Put(s.ctx, cas.Blob, failing(b)); !errors.Is(err, errReader) {
			s.Fatalf("Put of %d bytes that are there, from a reader that fails then: error %v", n, err)
		}
		s.want(cas.Blob, b)
	}
	if l, ok := s.Store.(cas.Lister); ok && len(s.all(l)) != len(sizes()) {
		s.Errorf("List gives %d objects, want %d", len(s.all(l)), len(sizes()))
	}
}

func (s *suite) cancelled() {
	data := []byte("here")
	id := s.put(s, cas.Blob, data).ID
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.Put(ctx, cas.Blob, bytes.NewReader([]byte("more"))); !errors.Is(err, context.Canceled) {
		s.Errorf("Put: error %v, want context.Canceled", err)
	}
	if _, err := s.Get(ctx, id); !errors.Is(err, context.Canceled) {
		s.Errorf("Get: error %v, want context.Canceled", err)
	}
	if _, err := s.Missing(ctx, []cas.ID{id}); !errors.Is(err, context.Canceled) {
		s.Errorf("Missing: error %v, want context.Canceled", err)
	}
	s.wantNone(infoOf(cas.Blob, []byte("more")).ID)
	s.want(cas.Blob, data)
}

// A cancelling reader cancels a context after some bytes, and could return many more.
type cancelling struct {
	io.Reader
	cancel context.CancelFunc
	before int
	after  int
}

func (c *cancelling) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if c.before -= n; c.before <= 0 {
		c.cancel()
		c.after += n
	}
	return n, err
}

func (s *suite) cancelledPut() {
	const long = 32 << 20
	for _, before := range []int{1, 100 << 10, 3 << 20} {
		ctx, cancel := context.WithCancel(s.ctx)
		var key [32]byte
		r := &cancelling{Reader: io.LimitReader(rand.NewChaCha8(key), long), cancel: cancel, before: before}
		if _, err := s.Put(ctx, cas.Blob, r); !errors.Is(err, context.Canceled) {
			s.Errorf("Put cancelled after %d bytes: error %v, want context.Canceled", before, err)
		}
		if r.after > long/2 {
			s.Errorf("Put cancelled after %d bytes read another %d", before, r.after)
		}
		cancel()
	}
	s.wantNone(infoOf(cas.Blob, Random(0, long)).ID)
}

// closedEarly checks that an object can be closed before its end.
func (s *suite) closedEarly() {
	data := Random(5, 5<<20)
	id := s.put(s, cas.Blob, data).ID
	for _, n := range []int{0, 1, 10_000, 1 << 20} {
		for range 8 {
			o, err := s.Get(s.ctx, id)
			if err != nil {
				s.Fatal(err)
			}
			got := make([]byte, n)
			if _, err := io.ReadFull(o, got); err != nil || !bytes.Equal(got, data[:n]) {
				s.Errorf("the first %d bytes: %v", n, err)
			}
			if err := o.Close(); err != nil {
				s.Errorf("Close after %d bytes: %v", n, err)
			}
		}
	}
	s.want(cas.Blob, data)
}

// together checks that many goroutines can put overlapping sets of objects and read them back.
func (s *suite) together() {
	objects := append(small(9, 150), Random(9, 300<<10), Text(9, 900<<10))
	s.many(crowd(), func(s *suite, g int) {
		order := rand.New(rand.NewPCG(uint64(g), 0)).Perm(len(objects))[:40]
		for _, i := range order {
			s.put(s, cas.Blob, objects[i])
			s.want(cas.Blob, objects[i])
		}
		for _, i := range order {
			s.wantMissing(s, []cas.ID{infoOf(cas.Blob, objects[i]).ID}, nil)
		}
	})
}

// many runs f in n goroutines at once.
func (s *suite) many(n int, f func(s *suite, g int)) {
	var wg sync.WaitGroup
	for g := range n {
		wg.Go(func() { f(s, g) })
	}
	wg.Wait()
}
