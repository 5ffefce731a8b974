package disk

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// failNth returns a hook that fails the n-th operation, counted from 1, and when dead all that come after it, with
// the errors of full, broken and read-only disks by turns. Of a write half is made.
func failNth(n int, dead bool, fired *string) func(Op) error {
	err := []error{syscall.ENOSPC, syscall.EIO, syscall.EMFILE, syscall.EROFS}[n%4]
	var mu sync.Mutex // a batch writes from several goroutines
	return func(op Op) error {
		mu.Lock()
		defer mu.Unlock()
		n--
		if n > 0 || n < 0 && !dead {
			return nil
		}
		if n == 0 {
			*fired = fmt.Sprintf("%s %s: %v", op.Name, op.Path, err)
			if op.Name == "write" {
				if w, err := os.OpenFile(op.Path, os.O_WRONLY, 0); err == nil {
					w.WriteAt(op.Data[:len(op.Data)/2], op.Off)
					w.Close()
				}
			}
		}
		return err
	}
}

// TestFaults fails every operation of every step of a store's life in turn. What was acknowledged stays, the
// store stays clean, the next janitor removes what was left, and the step can be done again.
func TestFaults(t *testing.T) {
	ctx := context.Background()
	base := newWorld()
	dir := ramDir(t)
	s, err := open(dir, Options{})
	must(t, err)
	must(t, s.Close())
	steps := append(history(), step{"reindex", func(r *run) error {
		_, err := r.Reindex(ctx)
		return err
	}}, step{"repair", func(r *run) error {
		report, err := r.Fsck(ctx, nil)
		if err == nil {
			_, err = r.Repair(ctx, report, nil)
		}
		return err
	}})
	for _, step := range steps {
		hurt := func(dir string) {}
		switch step.name {
		case "reindex":
			hurt = hurtIndexes(t)
		case "repair":
			hurt = hurtHeaders(t)
		}
		for _, dead := range []bool{false, true} {
			ops := 0
			for n := 1; ; n += (sample + 1) / 2 {
				fired := ""
				at := copyDir(t, dir)
				hurt(at)
				w := base.clone()
				faulty(t, at, w, step, failNth(n, dead, &fired))
				if fired == "" {
					break
				}
				ops = n
				if err := recovers(at, w, step); err != nil {
					t.Fatalf("%s: operation %d, %s: %v", step.name, n, fired, err)
				}
				must(t, os.RemoveAll(at))
			}
			if ops == 0 {
				t.Errorf("%s: no operation was seen", step.name)
			}
		}
		hurt(dir)
		s, err := open(dir, Options{})
		must(t, err)
		must(t, step.do(&run{Store: s, w: base}))
		must(t, s.Close())
	}
}

// faulty does a step in a process that meets a failure.
func faulty(t *testing.T, dir string, w *world, step step, hook func(Op) error) {
	t.Helper()
	s, err := open(dir, Options{Hook: hook, Wait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	step.do(&run{Store: s, w: w}) // what it says is in w
	must(t, s.Close())
}

// recovers checks a store after a failure, with the next process.
func recovers(dir string, w *world, step step) error {
	ctx := context.Background()
	s, err := open(dir, Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := w.readable(s); err != nil {
		return err
	}
	if step.name == "reindex" || step.name == "repair" {
		if err := step.do(&run{Store: s, w: w}); err != nil {
			return fmt.Errorf("again: %w", err)
		}
	}
	if err := w.check(s); err != nil {
		return err
	}
	if err := clean(s); err != nil {
		return err
	}
	if _, err := s.GC(ctx, GCOptions{Grace: time.Hour}); err != nil {
		return err
	}
	if err := swept(dir); err != nil {
		return err
	}
	w.maybe = newWorld().maybe
	r := &run{Store: s, w: w}
	for name := range w.refs { // a ref may be as it was before the step or after it
		if id, err := s.Ref(name); err == nil {
			w.refs[name] = id
		}
	}
	if err := step.do(r); err != nil {
		return fmt.Errorf("again: %w", err)
	}
	if err := w.check(s); err != nil {
		return fmt.Errorf("after doing it again: %w", err)
	}
	return clean(s)
}
