package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/rows"
)

// elsewhere hides that rows are on one machine, as those of a database aren't.
type elsewhere struct{ rows.Store }

// TestLeaseHere: on one machine a process is waited for while it lives, and the lease of one that was killed counts no
// more.
func TestLeaseHere(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	r, err := registry.Open(t.Context(), w.o)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.o.Rows.Update(t.Context(), func(in rows.Writer) error {
		in.Put("lease/flush", fmt.Appendf(nil, `{"holder":"other","until":%q}`,
			noon.Add(10*time.Second).Format(time.RFC3339)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	b := w.archive(pack{id: "acme/base", version: "1.0.0"})
	unlock, free, err := w.o.Rows.(rows.Locker).TryLock("flush")
	if err != nil || !free {
		t.Fatal(free, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.Publish(ctx, ada, bytes.NewReader(b)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it didn't wait for a living process: %v", err)
	}
	unlock() // as the system does when it is killed
	if _, err := r.Publish(t.Context(), ada, bytes.NewReader(b)); err != nil {
		t.Fatal(err) // the clock of this test stands still: a wait would end in BUSY
	}
	if list := w.index("acme/base"); len(list.Entries) != 1 {
		t.Errorf("%+v", list.Entries)
	}
	if unlock, free, err := w.o.Rows.(rows.Locker).TryLock("flush"); err != nil || !free {
		t.Errorf("the lock is still held: %v", err)
	} else {
		unlock()
	}
}

// TestLease: while another process writes the log's files, a change waits; one of another machine that has ended is
// waited for as long as its lease runs.
func TestLease(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	var late atomic.Int64
	o := w.o
	o.Rows = elsewhere{o.Rows}
	o.Now = func() time.Time { return noon.Add(time.Duration(late.Load())) }
	r, err := registry.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	hold := func() {
		t.Helper()
		if err := w.o.Rows.Update(t.Context(), func(in rows.Writer) error {
			in.Put("lease/flush", fmt.Appendf(nil, `{"holder":"other","until":%q}`,
				noon.Add(10*time.Second).Format(time.RFC3339)))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	hold()
	b := w.archive(pack{id: "acme/base", version: "1.0.0"})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.Publish(ctx, ada, bytes.NewReader(b)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it didn't wait: %v", err)
	}
	if _, err := w.files.Open(t.Context(), "index/acme/base.yaml"); err == nil {
		t.Fatal("two processes write at once")
	}
	done := make(chan error)
	go func() {
		_, err := r.Publish(t.Context(), ada, bytes.NewReader(b))
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("it didn't wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	late.Store(int64(11 * time.Second))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if list := w.index("acme/base"); len(list.Entries) != 1 {
		t.Errorf("%+v", list.Entries)
	}
}
