package osfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Waiters get the lock in the order they came, and one that gave up doesn't delay the others.
func TestOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held := open(t, path)
	try(t, held, Exclusive, true)
	info, err := held.Stat()
	if err != nil {
		t.Fatal(err)
	}
	// The system lists those who wait with an arrow, and files by their device and number.
	number := fmt.Appendf(nil, ":%d 0 EOF", info.Sys().(*syscall.Stat_t).Ino)
	queued := func() (n int) {
		b, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err)
		}
		for l := range bytes.Lines(b) {
			if bytes.Contains(l, number) && bytes.Contains(l, []byte("->")) {
				n++
			}
		}
		return n
	}
	const many = 20
	waiting := 0
	var got []int
	var mu sync.Mutex // of got: the race detector doesn't know of the file lock
	done := make(chan bool)
	for n := range many {
		go func() {
			f, err := OpenLocked(t.Context(), path, Exclusive, time.Hour)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			got = append(got, n)
			mu.Unlock()
			f.Close()
			done <- true
		}()
		for waiting++; queued() != waiting; {
			time.Sleep(time.Millisecond)
		}
		if n == many/2 {
			if _, err := OpenLocked(t.Context(), path, Exclusive, time.Millisecond); err == nil {
				t.Error("two have it")
			}
			waiting++ // what sleeps for it goes on to sleep
		}
	}
	held.Close()
	for range many {
		<-done
	}
	if !slices.IsSorted(got) || len(got) != many {
		t.Errorf("they came as %v", got)
	}
}
