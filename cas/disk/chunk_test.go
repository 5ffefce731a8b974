package disk

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk/cut"
)

// cutsOf cuts a buffer at once.
func cutsOf(c *cut.Cutter, b []byte) (cuts []int) {
	for len(b) > 0 {
		n := c.Next(b)
		cuts = append(cuts, n)
		b = b[n:]
	}
	return cuts
}

// TestCuts: a stream is cut where the whole would be, whatever the segments and the reads.
func TestCuts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	turn := 0
	for _, kind := range []cas.Kind{cas.Blob, cas.Document} {
		c := cut.Of(kind)
		for _, size := range []int{c.Whole + 1, segmentSize - 1, segmentSize, segmentSize + 1, 2*segmentSize - 7,
			3*segmentSize + 12345} {
			for name, b := range map[string][]byte{"noise": noise(uint64(size), size),
				"text": text(uint64(size), size), "zeros": make([]byte, size)} {
				want := cutsOf(c, b)
				for readers, reader := range map[string]io.Reader{
					"whole": bytes.NewReader(b), "half": iotest.HalfReader(bytes.NewReader(b)),
					"data and error": iotest.DataErrReader(bytes.NewReader(b)),
					"odd":            &oddReader{b, r},
				} {
					if turn++; turn%((sample+1)/2) != 0 {
						continue
					}
					s := tinyStore(t, Options{})
					s.packObjects = packObjects
					i, err := s.Put(t.Context(), kind, reader)
					must(t, err)
					if got := stored(t, s, i.ID); !slices.Equal(got, want) || i.Digest != cas.Sum(b) {
						t.Errorf("%s of %d bytes of %s, read by %s: %d cuts, not %d", kind, size, name, readers,
							len(got), len(want))
					}
				}
			}
		}
	}
}

// An oddReader gives pieces of any length, none included.
type oddReader struct {
	b []byte
	r *rand.Rand
}

func (o *oddReader) Read(p []byte) (int, error) {
	if len(o.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, o.b[:min(len(o.b), o.r.IntN(100_000))])
	o.b = o.b[n:]
	return n, nil
}

// stored returns the lengths of the chunks that a store keeps an object in.
func stored(t *testing.T, s *Store, id cas.ID) (cuts []int) {
	t.Helper()
	snap, err := s.load()
	must(t, err)
	defer snap.release()
	k := s.takeCache()
	defer s.giveCache(k)
	for _, p := range snap.packs {
		e, ok, err := p.lookup(id.Kind, &id.Digest)
		must(t, err)
		if !ok {
			continue
		}
		b, err := k.get(p, e.block)
		must(t, err)
		b, err = e.of(b)
		must(t, err)
		_, _, level, items, err := decodeRoot(b)
		must(t, err)
		must(t, snap.parts(k).chunks(t.Context(), id.Kind, level, items, func(b []byte) error {
			cuts = append(cuts, len(b))
			return nil
		}))
		return cuts
	}
	t.Fatalf("%s isn't there", id)
	return nil
}

func packsSize(t *testing.T, s *Store) (sum int64) {
	t.Helper()
	paths, err := listPacks(s.dir)
	must(t, err)
	for _, path := range paths {
		fi, err := os.Stat(path)
		must(t, err)
		sum += fi.Size()
	}
	return sum
}

// TestEditIsCheap edits and inserts into a large file: what is added to the store is near the edits.
func TestEditIsCheap(t *testing.T) {
	s := tinyStore(t, Options{})
	s.packObjects, s.fanout = packObjects, fanout
	part := 1 << 20
	if sample > 1 {
		part = 1 << 17
	}
	b := noise(1, 64*part)
	_, err := s.Put(t.Context(), cas.Blob, bytes.NewReader(b))
	must(t, err)
	size := packsSize(t, s)
	if size > int64(66*part) {
		t.Errorf("%d bytes take %d", len(b), size)
	}
	for name, edited := range map[string][]byte{
		"a byte":     slices.Concat(b[:30*part], []byte{1}, b[30*part+1:]),
		"an insert":  slices.Concat(b[:20*part], []byte("inserted"), b[20*part:]),
		"a deletion": slices.Concat(b[:10*part], b[10*part+100:]),
		"the start":  slices.Concat([]byte("new"), b),
	} {
		_, err := s.Put(t.Context(), cas.Blob, bytes.NewReader(edited))
		must(t, err)
		added := packsSize(t, s) - size
		size += added
		// A chunk or two, the list they are in, the root, and an index of two pages and a footer.
		if added > 160<<10 {
			t.Errorf("%s costs %d bytes", name, added)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add(text(1, 20<<10), uint16(700))
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		c := cut.Of(cas.Document)
		want := cutsOf(c, b)
		sum := 0
		for i, n := range want {
			if sum += n; n > c.Max || n <= 0 || n < c.Min && i < len(want)-1 {
				t.Fatalf("a chunk of %d bytes", n)
			}
		}
		if sum != len(b) {
			t.Fatalf("%d bytes of %d", sum, len(b))
		}
		// A segment that ends anywhere leaves the same cuts.
		g := new(segment)
		n := copy(g.b[:], b[:min(int(at), len(b))])
		used := g.split(c, n, false)
		if got := fmt.Sprint(g.cuts); got != fmt.Sprint(want[:len(g.cuts)]) {
			t.Fatalf("%s, not %v", got, want)
		}
		if n-used >= c.Max {
			t.Fatalf("%d bytes are left", n-used)
		}
	})
}
