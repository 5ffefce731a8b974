package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
)

// folder is a new store of files.
func folder(t testing.TB) blobs.Store {
	t.Helper()
	l, err := blobs.OpenLocal(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (w *world) backup(to blobs.Store) *registry.BackedUp {
	w.Helper()
	done, err := w.Backup(w.Context(), to, map[string]string{"config.json": "{}"})
	if err != nil {
		w.Fatal(err)
	}
	return done
}

// another returns the restore of a backup of this registry into an empty place, and the world of that place.
func (w *world) another(from blobs.Store) (*registry.Restore, *world) {
	w.Helper()
	other := &world{TB: w.TB, dir: w.TempDir(), now: w.now, o: w.o}
	other.o.Now = func() time.Time { return other.now }
	other.o.Warn = func(err error) { other.warns = append(other.warns, err.Error()) }
	backup, err := registry.ReadBackup(w.Context(), from)
	if err != nil {
		w.Fatal(err)
	}
	restore := &registry.Restore{From: from, Backup: backup, Begun: func() error { return nil }}
	other.place(restore)
	return restore, other
}

// place opens the stores of a place that is restored, as a new process does.
func (w *world) place(restore *registry.Restore) {
	w.Helper()
	local, err := rows.OpenLocal(filepath.Join(w.dir, "rows"), nil)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { local.Close() })
	if w.files, err = blobs.OpenLocal(filepath.Join(w.dir, "files"), nil); err != nil {
		w.Fatal(err)
	}
	w.o.Rows, w.o.Blobs = local, w.files
	restore.To = w.o
}

func (w *world) restored(restore *registry.Restore) *registry.Restored {
	w.Helper()
	done, err := restore.Run(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	w.open()
	return done
}

// all returns the files that clients read, and their bytes.
func (w *world) all() map[string]string {
	w.Helper()
	files := map[string]string{}
	for info, err := range w.files.List(w.Context(), "") {
		if err != nil {
			w.Fatal(err)
		}
		files[info.Name] = string(w.read(info.Name))
	}
	return files
}

// good fails unless Verify finds nothing.
func (w *world) good() {
	w.Helper()
	if check, err := w.Verify(w.Context()); err != nil || len(check.Wrong) > 0 {
		w.Errorf("%+v, %v", check, err)
	}
}

// filled returns a registry with a few versions, one of them yanked and one unpublished.
func filled(t *testing.T) (*world, *registry.Caller) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	w.publish(ada, pack{id: "acme/base", version: "1.1.0"})
	w.publish(ada, pack{id: "acme/other", version: "1.0.0"})
	if _, err := w.Withdraw(t.Context(), ada, "acme/base", "1.0.0", false); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Withdraw(t.Context(), ada, "acme/other", "1.0.0", true); err != nil {
		t.Fatal(err)
	}
	return w, ada
}

// TestIncremental: a second backup copies what is new, and forgets what was unpublished.
func TestIncremental(t *testing.T) {
	w, ada := filled(t)
	to := folder(t)
	w.backup(to)
	if done := w.backup(to); done.Copied != 0 || done.Removed != 0 || done.Archives != 2 {
		t.Errorf("%+v", done)
	}
	gone := w.publish(ada, pack{id: "acme/base", version: "2.0.0"})
	if done := w.backup(to); done.Copied != 1 || done.Removed != 1 || done.Archives != 3 {
		t.Errorf("%+v", done)
	}
	if _, err := w.Withdraw(t.Context(), ada, "acme/base", "2.0.0", true); err != nil {
		t.Fatal(err)
	}
	if done := w.backup(to); done.Copied != 0 || done.Removed != 2 || done.Archives != 2 {
		t.Errorf("%+v", done)
	}
	if _, err := to.Open(t.Context(), client.ArchiveFile(gone.Archive)); err == nil {
		t.Error("what was unpublished is still in the backup")
	}
	restore, other := w.another(to)
	other.restored(restore)
	other.good()
}

// TestBackupInterrupted stops a backup before each write: what is there is the backup before, or the new one.
func TestBackupInterrupted(t *testing.T) {
	w, ada := filled(t)
	for stop := 0; ; stop++ {
		to := folder(t)
		w.backup(to)
		w.publish(ada, pack{id: "acme/base", version: fmt.Sprintf("2.%d.0", stop)})
		_, err := w.Backup(t.Context(), &stopping{to, stop}, nil)
		if err != nil && !errors.Is(err, errStopped) {
			t.Fatal(err)
		}
		restore, other := w.another(to)
		if done := other.restored(restore); len(done.Wrong) > 0 {
			t.Errorf("%d: %q", stop, done.Wrong)
		}
		other.good()
		if err == nil {
			if stop < 4 {
				t.Errorf("a backup changes %d files", stop)
			}
			return
		}
		w.backup(to)
		restore, other = w.another(to)
		other.restored(restore)
		other.good()
	}
}

// TestDamaged: what the registry or the backup has lost is named, and the rest is there.
func TestDamaged(t *testing.T) {
	w, ada := filled(t)
	first := w.publish(ada, pack{id: "acme/base", version: "2.0.0"})
	second := w.publish(ada, pack{id: "acme/base", version: "2.1.0"})
	good := w.read(client.ArchiveFile(first.Archive))
	bad := bytes.Clone(good)
	bad[9] ^= 1
	if err := w.files.Replace(t.Context(), client.ArchiveFile(first.Archive), bad); err != nil {
		t.Fatal(err)
	}
	if err := w.files.Remove(t.Context(), client.ArchiveFile(second.Archive)); err != nil {
		t.Fatal(err)
	}
	var document string
	for info := range w.files.List(t.Context(), "documents/") {
		document = info.Name
	}
	claim := w.read(document)
	if err := w.files.Remove(t.Context(), document); err != nil {
		t.Fatal(err)
	}
	to := folder(t)
	if done := w.backup(to); len(done.Wrong) != 3 || !strings.Contains(done.Wrong[0], "archive") ||
		!strings.Contains(done.Wrong[2], "document") {
		t.Errorf("%q", done.Wrong)
	}
	restore, other := w.another(to)
	if done := other.restored(restore); len(done.Wrong) != 3 || done.Archives != 2 {
		t.Errorf("%+v", done)
	}
	// An archive that the backup has isn't asked for again; a document that is wrong in both isn't taken.
	if err := w.files.Replace(t.Context(), document, append(claim, 'x')); err != nil {
		t.Fatal(err)
	}
	if err := to.Replace(t.Context(), client.ArchiveFile(first.Archive), bad); err != nil {
		t.Fatal(err)
	}
	if done := w.backup(to); len(done.Wrong) != 2 || !strings.Contains(done.Wrong[1], "damaged") {
		t.Errorf("%q", done.Wrong)
	}
	restore, other = w.another(to)
	if done := other.restored(restore); len(done.Wrong) != 3 || !strings.Contains(strings.Join(done.Wrong, " "),
		"is damaged in the backup") {
		t.Errorf("%+v", done)
	}
}

// TestBackupServing: backups that are made while clients publish and unpublish are each those of one state.
func TestBackupServing(t *testing.T) {
	w, ada := filled(t)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			v, err := w.Publish(t.Context(), ada, bytes.NewReader(w.archive(pack{id: fmt.Sprintf("acme/n%d", n%3),
				version: fmt.Sprintf("1.%d.0", n)})))
			if err == nil && n%2 == 0 {
				_, err = w.Withdraw(t.Context(), ada, v.Bundle, v.Version, true)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	to := folder(t)
	for range 8 {
		if done := w.backup(to); len(done.Wrong) > 0 && !strings.Contains(done.Wrong[0], "missing") {
			t.Errorf("%q", done.Wrong)
		}
		restore, other := w.another(to)
		done := other.restored(restore)
		if len(done.Wrong) == 0 {
			other.good()
		}
		if done.Entries < done.Shown {
			t.Errorf("%+v", done)
		}
		if _, err := other.Resume(t.Context(), other.read("log/checkpoint")); err != nil {
			t.Error(err)
		}
	}
	stop()
	all.Wait()
	if done := w.backup(to); len(done.Wrong) > 0 {
		t.Errorf("%q", done.Wrong)
	}
	restore, other := w.another(to)
	other.restored(restore)
	other.good()
}

// unreadable is a store of files whose reads fail after some.
type unreadable struct {
	blobs.Store
	left int
}

func (u *unreadable) Open(ctx context.Context, name string) (*blobs.File, error) {
	if u.left--; u.left < 0 {
		return nil, errStopped
	}
	return u.Store.Open(ctx, name)
}

func (u *unreadable) List(ctx context.Context, prefix string) iter.Seq2[blobs.Info, error] {
	if u.left--; u.left < 0 {
		return func(yield func(blobs.Info, error) bool) { yield(blobs.Info{}, errStopped) }
	}
	return u.Store.List(ctx, prefix)
}

// TestUnreadableFiles lets each read of files fail once, of the registry, of the backup, and of what is restored: the
// error is returned, and made again it is as if it had never been.
func TestUnreadableFiles(t *testing.T) {
	w, _ := filled(t)
	to := folder(t)
	w.backup(to)
	ctx := t.Context()
	restore, other := w.another(to)
	checkpoint := w.read("log/checkpoint")
	for name, do := range map[string]func(n int) error{
		"backup": func(n int) error {
			store := &unreadable{w.files, 1 << 30}
			o := w.o
			o.Blobs = store
			r, err := registry.Open(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			store.left = n
			if _, err := r.Audit(ctx, registry.Filter{}); err != nil {
				return err
			}
			if _, err := r.Seen(ctx, nil, checkpoint); err != nil {
				return err
			}
			_, err = r.Backup(ctx, folder(t), nil)
			return err
		},
		"backup again": func(n int) error { _, err := w.Backup(ctx, &unreadable{to, n}, nil); return err },
		"read": func(n int) error {
			_, err := registry.ReadBackup(ctx, &unreadable{to, n})
			return err
		},
		"restore": func(n int) error {
			again, _ := w.another(to)
			again.From = &unreadable{to, n}
			_, err := again.Run(ctx)
			return err
		},
		"restored": func(n int) error {
			restore.To.Blobs = &unreadable{other.files, n}
			_, err := restore.Run(ctx)
			return err
		},
	} {
		for n := 0; ; n++ {
			err := do(n)
			if err == nil {
				if n == 0 {
					t.Errorf("%s reads nothing", name)
				}
				break
			}
			if !errors.Is(err, errStopped) {
				t.Errorf("%s, read %d: %v", name, n, err)
				break
			}
		}
	}
	other.open()
	other.good()
}
