package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/rye-build/rye/cas"
)

// ops counts operations by name.
type ops struct {
	mu sync.Mutex
	n  map[string]int
}

func (o *ops) hook(op Op) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n == nil {
		o.n = make(map[string]int)
	}
	o.n[op.Name]++
	return nil
}

func (o *ops) take() (syncs, all int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, n := range o.n {
		all += n
		if name == "sync" || name == "syncdir" {
			syncs += n
		}
	}
	o.n = nil
	return syncs, all
}

// TestSyncs counts what durability costs.
func TestSyncs(t *testing.T) {
	ctx := t.Context()
	var o ops
	s, err := Open(ramDir(t), Options{Create: true, Hook: o.hook})
	must(t, err)
	defer s.Close()
	want := func(what string, most int) {
		t.Helper()
		if syncs, _ := o.take(); syncs != most {
			t.Errorf("%s: %d syncs, not %d", what, syncs, most)
		}
	}
	o.take()
	i, err := s.Put(ctx, cas.Blob, strings.NewReader("one"))
	must(t, err)
	want("a put", 2)
	_, err = s.Put(ctx, cas.Blob, strings.NewReader("one"))
	must(t, err)
	want("a put of what this process has put", 0)
	b, err := s.Batch(ctx)
	must(t, err)
	for n := range 1000 {
		_, err := b.PutBytes(ctx, cas.Blob, text(uint64(n), 100))
		must(t, err)
	}
	_, err = b.PutBytes(ctx, cas.Blob, noise(1, 5<<20))
	must(t, err)
	must(t, b.Commit(ctx))
	must(t, b.Close())
	want("a batch", 2)
	must(t, s.SetRef(ctx, "main", cas.ID{}, i.ID))
	want("a ref", 2)
	other, err := Open(s.dir, Options{Hook: o.hook})
	must(t, err)
	defer other.Close()
	_, err = other.Put(ctx, cas.Blob, strings.NewReader("one"))
	must(t, err)
	want("a put of what another process has put", 1)
	must(t, other.PutRef(ctx, "other", i.ID))
	want("a ref to it", 2)
}

// TestManyPuts puts 10,000 files one by one: packs and work stay bounded.
func TestManyPuts(t *testing.T) {
	var o ops
	s, err := Open(ramDir(t), Options{Create: true, Hook: o.hook})
	must(t, err)
	defer s.Close()
	s.files.lazy = true
	const puts = 10_000 / ((sample + 1) / 2)
	o.take()
	for n := range puts {
		_, err := s.Put(t.Context(), cas.Blob, strings.NewReader(strings.Repeat("x",
			n%50)+string(rune('a'+n%26))+string(binary.BigEndian.AppendUint32(nil, uint32(n)))))
		must(t, err)
		if n%1000 == 0 {
			paths, err := listPacks(s.dir)
			must(t, err)
			if len(paths) > 40 {
				t.Fatalf("%d packs after %d puts", len(paths), n)
			}
			if fds, err := os.ReadDir("/proc/self/fd"); err == nil && len(fds) > 600 {
				t.Fatalf("%d open files after %d puts", len(fds), n)
			}
		}
	}
	syncs, all := o.take()
	if syncs > puts*3 || all > puts*14 {
		t.Errorf("%d syncs, %d operations for %d puts", syncs, all, puts)
	}
	t.Logf("%.2f syncs and %.2f operations a put", float64(syncs)/puts, float64(all)/puts)
	n := 0
	for _, err := range s.List(t.Context()) {
		must(t, err)
		n++
	}
	if n != puts {
		t.Errorf("%d objects", n)
	}
	must(t, clean(s))
	must(t, swept(s.dir))
}

// TestFewOpen: packs that were replaced don't stay open.
func TestFewOpen(t *testing.T) {
	s, err := Open(ramDir(t), Options{Create: true})
	must(t, err)
	defer s.Close()
	s.files.lazy = true
	for n := range 1500 {
		_, err := s.Put(t.Context(), cas.Blob, bytes.NewReader(binary.BigEndian.AppendUint32(nil, uint32(n))))
		must(t, err)
		if fds, err := os.ReadDir("/proc/self/fd"); err == nil && len(fds) > 100 {
			t.Fatalf("%d open files after %d puts", len(fds), n)
		}
	}
}

// TestReferences: a pack stays open for those who read it, through replacement and Close, and no longer.
func TestReferences(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ramDir(t), Options{Create: true})
	must(t, err)
	s.files.lazy = true
	long := noise(1, 8<<20)
	id := cas.ID{Kind: cas.Blob, Digest: cas.Sum(long)}
	seen := make(map[*pack]bool)
	var mu sync.Mutex
	note := func() {
		snap, err := s.snapshot()
		must(t, err)
		defer snap.release()
		mu.Lock()
		defer mu.Unlock()
		for _, p := range snap.packs {
			seen[p] = true
		}
	}
	put := func(b []byte) {
		_, err := s.Put(ctx, cas.Blob, bytes.NewReader(b))
		must(t, err)
		note()
	}
	put(long)
	must(t, s.PutRef(ctx, "long", id))
	open, err := s.Get(ctx, id)
	must(t, err)
	gone, err := s.Get(ctx, id)
	must(t, err)

	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				note()
				must(t, reads(s, id, long))
				for _, err := range s.List(ctx) {
					must(t, err)
				}
				must(t, s.Visit(ctx, []cas.ID{id}, func(int, cas.Object) error { return nil }))
			}
		})
	}
	for n := range 60 {
		put(text(uint64(n), 1000))
		if n%20 == 19 {
			_, err := s.GC(ctx, GCOptions{})
			must(t, err)
			_, err = s.Repack(ctx)
			must(t, err)
		}
	}
	close(done)
	wg.Wait()
	must(t, gone.Close())
	must(t, s.Close())
	users := func() (open []*pack) {
		for p := range seen {
			switch n := p.refs.Load(); {
			case n > 0:
				open = append(open, p)
			case n < 0 || p.index != nil:
				t.Errorf("%s: %d references, index %t", p.path, n, p.index != nil)
			}
		}
		return open
	}
	if n := len(users()); n == 0 || n > 10 || len(seen) < 60 {
		t.Errorf("%d of %d packs are open, of one reader", n, len(seen))
	}
	got, err := io.ReadAll(open)
	if err != nil || !bytes.Equal(got, long) {
		t.Errorf("read %d bytes after the store was closed: %v", len(got), err)
	}
	must(t, open.Close())
	for _, p := range users() {
		t.Errorf("%s is still open", p.path)
	}
}

// TestRollOver puts more than two packs hold in one batch, from several goroutines, with repeats.
func TestRollOver(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ramDir(t), Options{Create: true})
	must(t, err)
	defer s.Close()
	b, err := s.Batch(ctx)
	must(t, err)
	const n = 140_000
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range n / 2 { // two goroutines put each
				x := binary.BigEndian.AppendUint64(nil, uint64(i+g%2*n/2))
				if _, err := b.PutBytes(ctx, cas.Blob, x); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	ids := make([]cas.ID, n)
	for i := range ids {
		ids[i] = cas.ID{Kind: cas.Blob, Digest: cas.Sum(binary.BigEndian.AppendUint64(nil, uint64(i)))}
	}
	absent, err := b.Missing(ctx, ids)
	if err != nil || len(absent) > 0 {
		t.Errorf("%d are missing in the batch, %v", len(absent), err)
	}
	must(t, b.Commit(ctx))
	must(t, b.Close())
	absent, err = s.Missing(ctx, ids)
	if err != nil || len(absent) > 0 {
		t.Errorf("%d are missing, %v", len(absent), err)
	}
	r, err := s.Fsck(ctx, nil)
	if err != nil || len(r.Problems) > 0 || r.Objects != n || r.Packs != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A reader's own error, whichever it is, ends a put.
func TestReaderErrors(t *testing.T) {
	s := tinyStore(t, Options{})
	for _, size := range []int{10, 256 << 10, 256<<10 + 1, 600 << 10, 2 << 20} {
		for _, want := range []error{io.ErrUnexpectedEOF, io.ErrNoProgress, context.Canceled} {
			x := noise(uint64(size), size)
			r := io.MultiReader(bytes.NewReader(x), iotest.ErrReader(want))
			if _, err := s.Put(t.Context(), cas.Blob, r); !errors.Is(err, want) {
				t.Errorf("%d bytes and %v: %v", size, want, err)
			}
			absent, err := s.Missing(t.Context(), []cas.ID{{Kind: cas.Blob, Digest: cas.Sum(x)}})
			if err != nil || len(absent) != 1 {
				t.Errorf("%d bytes and %v: they are there", size, want)
			}
		}
	}
	must(t, swept(s.dir))
}

// An error in all segments of a long object is reported once.
func TestLongFails(t *testing.T) {
	s := tinyStore(t, Options{Hook: func(op Op) error {
		if op.Name == "write" && len(op.Data) > 1<<10 {
			return syscall.ENOSPC
		}
		return nil
	}})
	_, err := s.Put(t.Context(), cas.Blob, bytes.NewReader(noise(1, 8<<20)))
	if !errors.Is(err, syscall.ENOSPC) || strings.Count(err.Error(), syscall.ENOSPC.Error()) != 1 {
		t.Errorf("%v", err)
	}
}

// A backup may leave out directories in which there is nothing.
func TestEmptyFolders(t *testing.T) {
	s := tinyStore(t, Options{})
	id, err := s.Put(t.Context(), cas.Blob, strings.NewReader("x"))
	must(t, err)
	for _, d := range folders {
		os.Remove(filepath.Join(s.dir, d)) // where there is something it stays
	}
	other, err := Open(s.dir, Options{})
	must(t, err)
	defer other.Close()
	must(t, other.PutRef(t.Context(), "main", id.ID))
	_, err = other.GC(t.Context(), GCOptions{})
	must(t, err)
}

// TestBatchEnds uses batches that have ended, in every way they can.
func TestBatchEnds(t *testing.T) {
	ctx := t.Context()
	fail := ""
	s := tinyStore(t, Options{Hook: func(op Op) error {
		if op.Name == fail {
			return syscall.ENOSPC
		}
		return nil
	}})
	x := noise(1, 300<<10)
	id := cas.ID{Kind: cas.Blob, Digest: cas.Sum(x)}
	for _, fail = range []string{"create", "write", "sync", "rename"} {
		name := fail
		fail = ""
		b, err := s.Batch(ctx)
		must(t, err)
		_, err = b.PutBytes(ctx, cas.Blob, []byte("small "+name))
		must(t, err)
		fail = name
		b.PutBytes(ctx, cas.Blob, x)
		if err := b.Commit(ctx); name != "create" && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("commit with failing %s: %v", name, err)
		}
		fail = ""
		if name != "create" {
			if err := b.Commit(ctx); err == nil {
				t.Errorf("a failed commit after %s was repeated", name)
			}
		}
		b.Missing(ctx, []cas.ID{id})
		b.PutBytes(ctx, cas.Blob, x)
		must(t, b.Close())
		must(t, b.Close())
		if _, err := b.PutBytes(ctx, cas.Blob, []byte("after the end")); err == nil {
			t.Error("put after the end")
		}
		if err := b.Commit(ctx); err == nil {
			t.Error("commit after the end")
		}
		must(t, swept(s.dir))
		must(t, clean(s))
	}
	b, err := s.Batch(ctx)
	must(t, err)
	_, err = b.PutBytes(ctx, cas.Blob, []byte("cancelled"))
	must(t, err)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := b.Commit(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled commit: %v", err)
	}
	must(t, b.Commit(ctx)) // it had not begun
	must(t, b.Close())
	must(t, clean(s))
}

// What a batch holds in memory does not grow with what is put.
func TestLongStream(t *testing.T) {
	s := tinyStore(t, Options{})
	s.packObjects = packObjects
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	size := int64(1 << 30 / sample)
	i, err := s.Put(t.Context(), cas.Blob, io.LimitReader(zeros{}, size))
	must(t, err)
	runtime.ReadMemStats(&after)
	if i.Size != size {
		t.Errorf("%d bytes", i.Size)
	}
	// the race detector drops pooled buffers
	if got := after.TotalAlloc - before.TotalAlloc; sample == 1 && got > 100<<20 {
		t.Errorf("a stream of %d bytes took %d", size, got)
	}
	o, err := s.Get(t.Context(), i.ID)
	must(t, err)
	runtime.ReadMemStats(&before)
	n, err := io.Copy(io.Discard, o)
	must(t, err)
	must(t, o.Close())
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; n != size || got > 100<<20 {
		t.Errorf("reading %d bytes of %d took %d", n, size, got)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestTogether does everything at once in one process.
func TestTogether(t *testing.T) {
	ctx := t.Context()
	s := tinyStore(t, Options{})
	base := &run{Store: s, w: newWorld()}
	must(t, base.put("base", noise(1, 600<<10), text(2, 500), text(3, 5000)))
	ids := slices.Collect(maps.Keys(base.w.objects))
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for g := range 3 {
		writers.Go(func() {
			r := &run{Store: s, w: newWorld()}
			for n := range 15 {
				if err := r.put("", text(uint64(n*3+g), 300), noise(uint64(n), 270<<10)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	again := func(f func() error) {
		readers.Go(func() {
			for {
				if err := f(); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	again(func() error { return base.w.check(s) })
	again(func() error {
		return s.Visit(ctx, ids, func(i int, o cas.Object) error {
			b, err := io.ReadAll(o)
			if err == nil && !bytes.Equal(b, base.w.objects[ids[i]]) {
				err = errors.New("a visit was shown other bytes")
			}
			return err
		})
	})
	again(func() error {
		for _, err := range s.List(ctx) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	again(func() error { return clean(s) })
	again(func() error { _, err := s.Repack(ctx); return err })
	writers.Wait()
	close(done)
	readers.Wait()
	must(t, clean(s))
}

// A commit that fails after its pack has its name leaves the pack: another may count on it by then.
func TestFailedCommitIsSeen(t *testing.T) {
	dir := ramDir(t)
	var other *run
	s, err := open(dir, Options{Hook: func(op Op) error {
		if op.Name != "syncdir" || filepath.Base(op.Path) != "packs" {
			return nil
		}
		s, err := open(dir, Options{})
		must(t, err)
		other = &run{Store: s, w: newWorld()}
		_, err = other.one(text(1, 100))
		must(t, err)
		return syscall.EIO
	}})
	must(t, err)
	if _, err := s.Put(t.Context(), cas.Blob, bytes.NewReader(text(1, 100))); !errors.Is(err, syscall.EIO) {
		t.Errorf("put: %v", err)
	}
	must(t, other.w.check(other.Store))
	must(t, s.Close())
	s, err = open(dir, Options{})
	must(t, err)
	must(t, other.w.check(s))
	must(t, swept(dir))
}
