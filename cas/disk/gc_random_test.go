package disk

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
)

// A life is a store that chance works on: writers that begin early and end late, refs, the clock, merges, and gcs of
// any grace, which are killed now and then.
type life struct {
	t     *testing.T
	rand  *rand.Rand
	clock *clock
	*run
	blobs [][]byte
	slow  []slowBatch
	acked map[cas.ID]time.Time // put by who began then, and since in no gc that may have removed it
}

type slowBatch struct {
	cas.Batch
	begun time.Time
}

// TestLives lets chance work on stores. Each time what refs name and what is in its grace can be read, and so can
// all that counts as present.
func TestLives(t *testing.T) {
	for seed := range uint64(48 / sample) {
		l := &life{t: t, rand: rand.New(rand.NewPCG(seed, 7)), clock: newClock(), acked: make(map[cas.ID]time.Time)}
		l.run = l.clock.store(t)
		// Copies of a long one with changes here and there: each needs chunks of others.
		long := noise(seed, 300<<10)
		for i := range 6 {
			at := (i * 50) << 10
			l.blobs = append(l.blobs, append(append(long[:at:at], fmt.Sprint("edit ", i)...), long[at:]...))
		}
		l.blobs = append(l.blobs, long, text(seed, 100), text(seed+1, 2000))
		var history []string
		for range 30 {
			history = append(history, l.step())
			for _, b := range l.blobs {
				id := cas.ID{Kind: cas.Blob, Digest: cas.Sum(b)}
				absent, err := l.Missing(t.Context(), []cas.ID{id})
				must(t, err)
				_, kept := l.acked[id]
				if len(absent) > 0 && kept {
					t.Fatalf("seed %d, after %q: %s is missing", seed, history, id)
				}
				if len(absent) == 0 {
					if err := reads(l.Store, id, b); err != nil {
						t.Fatalf("seed %d, after %q: %v", seed, history, err)
					}
				}
			}
		}
		for _, b := range l.slow {
			must(t, b.Close())
		}
		must(t, clean(l.Store))
		must(t, l.Close())
	}
}

// step does one thing and returns what.
func (l *life) step() string {
	t, ctx := l.t, l.t.Context()
	blob := l.blobs[l.rand.IntN(len(l.blobs))]
	id := cas.ID{Kind: cas.Blob, Digest: cas.Sum(blob)}
	name := fmt.Sprint("r", l.rand.IntN(3))
	switch what := l.rand.IntN(12); what {
	case 0, 1, 2:
		_, err := l.one(blob)
		must(t, err)
		l.acked[id] = l.clock.now()
		return "put " + id.Digest.Short()
	case 3: // whatever is there
		if l.PutRef(ctx, name, id) == nil {
			return "ref " + name + " " + id.Digest.Short()
		}
		return "no ref"
	case 4:
		must(t, l.PutRef(ctx, name, cas.ID{}))
		return "unset " + name
	case 5:
		b, err := l.Batch(ctx)
		must(t, err)
		if _, err := b.Missing(ctx, []cas.ID{id}); err != nil { // which has it read the record of garbage
			t.Fatal(err)
		}
		l.slow = append(l.slow, slowBatch{b, l.clock.now()})
		return "begin"
	case 6, 7:
		if len(l.slow) == 0 {
			return "none"
		}
		l.end(blob)
		return "end with " + id.Digest.Short()
	case 8:
		l.clock.add(time.Duration(l.rand.IntN(60)) * time.Minute)
		return "time"
	case 9:
		_, err := l.Repack(ctx)
		must(t, err)
		return "repack"
	}
	grace := time.Duration(l.rand.IntN(2)) * time.Hour
	killed := l.rand.IntN(3) * l.rand.IntN(40)
	late := l.rand.IntN(2) == 0 // the writers end while the gc waits for them
	left, wait := killed, time.Millisecond
	if late {
		wait = time.Minute
	}
	s, err := open(l.dir, Options{Now: l.clock.now, Wait: wait, Hook: func(Op) error {
		if left--; killed > 0 && left <= 0 {
			return syscall.EIO
		}
		return nil
	}})
	must(t, err)
	over := make(chan struct{})
	go func() {
		s.GC(ctx, GCOptions{Grace: grace}) // it may be killed, or not wait so long
		close(over)
	}()
	for late && len(l.slow) > 0 {
		select {
		case <-over:
		case <-time.After(100 * time.Microsecond):
			if _, err := os.Lstat(filepath.Join(l.dir, condemnedFile)); err != nil {
				continue
			}
		}
		l.end(blob)
	}
	<-over
	must(t, s.Close())
	held := make(map[cas.ID]bool)
	refs, err := l.Refs()
	must(t, err)
	for _, r := range refs {
		held[r.ID] = true
	}
	for id, at := range l.acked {
		if !held[id] && l.clock.now().Sub(at) >= grace {
			delete(l.acked, id)
		}
	}
	return fmt.Sprintf("gc %v %d %v with %s", grace, killed, late, id.Digest.Short())
}

// end has the writer that began first put something.
func (l *life) end(blob []byte) {
	b := l.slow[0]
	l.slow = l.slow[1:]
	d, err := b.PutBytes(l.t.Context(), cas.Blob, blob)
	must(l.t, err)
	must(l.t, b.Commit(l.t.Context()))
	must(l.t, b.Close())
	if id := (cas.ID{Kind: cas.Blob, Digest: d}); l.acked[id].Before(b.begun) {
		l.acked[id] = b.begun
	}
}
