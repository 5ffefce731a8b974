package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest/trust"
)

var errPlanted = errors.New("planted")

// What fails on the way leaves the old file, and nothing beside it.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := osfile.WriteFile(path, 0o600, true, osfile.BytesOf([]byte("one"))); err != nil {
		t.Fatal(err)
	}
	if err := osfile.WriteFile(path, 0o600, true, osfile.BytesOf([]byte("two"))); !errors.Is(err, os.ErrExist) {
		t.Errorf("exclusive: %v", err)
	}
	failing := func(w io.Writer) error { w.Write([]byte("half")); return errPlanted }
	if err := osfile.WriteFile(path, 0o600, false, failing); !errors.Is(err, errPlanted) {
		t.Error(err)
	}
	if err := osfile.WriteFile(filepath.Join(dir, "none", "f"), 0o600, false, osfile.BytesOf(nil)); !errors.Is(err,
		os.ErrNotExist) {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "one" {
		t.Errorf("%q, %v", b, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// Files of dead processes are removed once they are old; young ones may belong to a process that is still writing.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for name, age := range map[string]time.Duration{osfile.Unfinished + "old": 2 * osfile.UnfinishedAge,
		osfile.Unfinished + "young": 0, "other": 2 * osfile.UnfinishedAge} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600),
			os.Chtimes(path, now.Add(-age), now.Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, osfile.Unfinished+"dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	osfile.Sweep(dir, now.Add(time.Minute))
	osfile.Sweep(filepath.Join(dir, "none"), now)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("%v, %v", left, err)
	}
}

// Waiting for a lock ends with its context.
func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unlock, err := trust.LockPolicy(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := trust.LockPolicy(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("a second one: %v", err)
	}
	unlock()
	again, err := trust.LockPolicy(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// TestReadSmall: what is too large is refused by its size, and not read.
func TestReadSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("twelve bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := osfile.ReadSmall(path, 12); err != nil || string(b) != "twelve bytes" {
		t.Errorf("%q, %v", b, err)
	}
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, err := osfile.ReadSmall(path, 64<<20)
	runtime.ReadMemStats(&after)
	if f, ok := errors.AsType[*fault.Error](err); b != nil || !ok || f.Code != fault.Limit {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("took %d bytes of memory", took)
	}
}

// TestReadIfThere: a file that is made while it is looked for is missing or there, and no link. One that was a link
// leading nowhere is neither.
func TestReadIfThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := errors.Join(osfile.WriteFile(path, 0o600, true, osfile.BytesOf([]byte("whole"))),
				os.Remove(path)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	end := sync.OnceFunc(func() {
		close(stop)
		group.Wait()
	})
	defer end()
	found, missing := 0, 0
	for found+missing < 20000 || min(found, missing) == 0 {
		switch b, err := osfile.ReadIfThere("it", path, 16); {
		case err == nil && string(b) == "whole":
			found++
		case errors.Is(err, fs.ErrNotExist):
			missing++
		default:
			t.Fatalf("%q, %v", b, err)
		}
	}
	end()
	if err := os.Symlink("nowhere", path); err != nil {
		t.Fatal(err)
	}
	if _, err := osfile.ReadIfThere("it", path, 16); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link that leads nowhere: %v", err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "nowhere"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := osfile.ReadIfThere("it", path, 16); err != nil {
		t.Errorf("a link: %v", err)
	}
}
