package osfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// This test is also the program that holds a lock: it says when it has the lock and keeps it until its input ends.
const holdEnv = "OSFILE_TEST_HOLDS"

func TestMain(m *testing.M) {
	path := os.Getenv(holdEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	f, err := OpenLocked(context.Background(), path, Exclusive, time.Hour)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	bufio.NewReader(os.Stdin).ReadByte()
	f.Close()
}

// holder starts a process that holds a lock on path, and returns it when it has it.
func holder(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), holdEnv+"="+path)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		c.Process.Kill()
		c.Wait()
	})
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "held\n" {
		t.Fatalf("the other process said %q, %v", said, err)
	}
	return c
}

// open opens a file once more, for a lock of its own.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func try(t *testing.T, f *os.File, how Mode, want bool) {
	t.Helper()
	if ok, err := TryLock(f, how); ok != want || err != nil {
		t.Errorf("the lock is %v, %v; want %v", ok, err, want)
	}
}

// free waits until a lock is free: those that gave up release it at some time.
func free(t *testing.T, path string) {
	t.Helper()
	f, err := OpenLocked(t.Context(), path, Exclusive, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func TestModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, b, c := open(t, path), open(t, path), open(t, path)
	try(t, a, Shared, true)
	try(t, b, Shared, true)
	try(t, c, Exclusive, false)
	a.Close()
	try(t, c, Exclusive, false)
	b.Close()
	try(t, c, Exclusive, true)
	d := open(t, path)
	try(t, d, Shared, false)
	try(t, d, Exclusive, false)
	if ok, err := TryLock(a, Shared); ok || err == nil {
		t.Errorf("a closed file: %v, %v", ok, err)
	}
	if err := Lock(t.Context(), a, Shared, time.Hour); err == nil {
		t.Error("a closed file was locked")
	}
}

// A process that is killed lets go, and who waits for it goes on.
func TestProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := holder(t, path)
	_, err := OpenLocked(t.Context(), path, Shared, time.Millisecond)
	want := fmt.Sprintf("%q is in use: waited 1ms", path)
	if fault.CodeOf(err) != fault.Busy || err.Error() != want {
		t.Errorf("beside another process: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	got := make(chan error)
	go func() {
		_, err := OpenLocked(ctx, path, Exclusive, time.Hour)
		got <- err
	}()
	cancel(enough)
	if err := <-got; err != enough {
		t.Errorf("a wait that was broken off: %v", err)
	}
	go func() {
		f, err := OpenLocked(t.Context(), path, Exclusive, time.Hour)
		if err == nil {
			err = f.Close()
		}
		got <- err
	}()
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("after the other was killed: %v", err)
	}
	holder(t, path)
}

// A waiter that gives up has no lock, then or later, however close to getting it that was: many waiters give up at
// different times around the release, and afterwards the lock is free.
func TestGivingUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var had, gave atomic.Int64
	for round := range 200 {
		held := open(t, path)
		if err := Lock(t.Context(), held, Exclusive, time.Hour); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for n := range 4 {
			f := open(t, path)
			all.Go(func() {
				err := Lock(ctx, f, n%2 == 0, time.Hour)
				switch {
				case err == nil:
					had.Add(1)
					err = f.Close()
				case err == context.Canceled:
					gave.Add(1)
					if _, err2 := f.Stat(); !errors.Is(err2, fs.ErrClosed) {
						t.Error("the file is open")
					}
					err = nil
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		var both sync.WaitGroup
		both.Go(func() {
			time.Sleep(time.Duration(round%7) * 100 * time.Microsecond)
			cancel()
		})
		both.Go(func() {
			time.Sleep(time.Duration(round%5) * 100 * time.Microsecond)
			held.Close()
		})
		both.Wait()
		all.Wait()
		free(t, path)
	}
	if had.Load() == 0 || gave.Load() == 0 {
		t.Errorf("%d had the lock and %d gave up: one of both was never seen", had.Load(), gave.Load())
	}
}

// Of many who want a lock alone each gets it, one at a time.
func TestMany(t *testing.T) {
	const workers, rounds = 16, 25
	path := filepath.Join(t.TempDir(), "lock")
	var all sync.WaitGroup
	var inside atomic.Int64
	count := 0
	for range workers {
		all.Go(func() {
			for range rounds {
				f, err := OpenLocked(t.Context(), path, Exclusive, time.Hour)
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two have it")
				}
				count++
				inside.Add(-1)
				f.Close()
			}
		})
	}
	all.Wait()
	if count != workers*rounds {
		t.Errorf("%d of %d", count, workers*rounds)
	}
}

// A lock on a file that was taken away meanwhile is none.
func TestOpenLockedMoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	old := open(t, path)
	try(t, old, Exclusive, true)
	got := make(chan *os.File)
	go func() {
		f, err := OpenLocked(t.Context(), path, Exclusive, time.Hour)
		if err != nil {
			t.Error(err)
		}
		got <- f
	}()
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if same, err := StandsAt(old, path); same || err != nil {
		t.Errorf("what was moved stands at its path: %v, %v", same, err)
	}
	old.Close()
	f := <-got
	defer f.Close()
	if same, err := StandsAt(f, path); !same || err != nil {
		t.Errorf("what was locked isn't at its path: %v", err)
	}
	try(t, open(t, path), Shared, false)
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	f := open(t, file)
	if _, err := OpenLocked(t.Context(), filepath.Join(file, "lock"), Shared, time.Hour); err == nil {
		t.Error("a lock was made in a file")
	}
	if _, err := StandsAt(f, filepath.Join(file, "x")); err == nil {
		t.Error("something stands in a file")
	}
	f.Close()
	if _, err := StandsAt(f, file); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if e := Busy("x", 0).Error(); e != `"x" is in use` {
		t.Error(e)
	}
}

func TestSyncDirectory(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	err = os.Mkdir(filepath.Join(dir, "sub"), 0o700)
	if err := errors.Join(err, SyncDirectory(dir), SyncDirectoryIn(root, "."),
		SyncDirectoryIn(root, "sub")); err != nil {
		t.Error(err)
	}
}
