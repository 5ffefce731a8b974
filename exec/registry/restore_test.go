package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// TestRestore: what is restored shows clients the same bytes, and signs nothing before the newest checkpoint that
// anybody has was compared with it.
func TestRestore(t *testing.T) {
	w, ada := filled(t)
	to := folder(t)
	if done := w.backup(to); done.Archives != 2 || done.Copied != 3 || done.Entries != 6 || len(done.Wrong) > 0 {
		t.Fatalf("%+v", done)
	}
	restore, other := w.another(to)
	if done := other.restored(restore); done.Archives != 2 || done.Entries != 6 || done.Shown != 6 ||
		len(done.Wrong) > 0 {
		t.Fatalf("%+v", done)
	}
	want, got := w.all(), other.all()
	for name := range want {
		// Tiles of smaller trees are of no use any more; a proof may have a newer checkpoint.
		if strings.HasPrefix(name, "proofs/") || strings.Contains(name, ".p/") && got[name] == "" {
			delete(want, name)
			delete(got, name)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%q\n%q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	other.index("acme/base")
	other.good()
	if len(other.warns) != 1 || !strings.Contains(other.warns[0], "signs nothing yet") {
		t.Errorf("%q", other.warns)
	}
	b := w.archive(pack{id: "acme/base", version: "2.0.0"})
	stopped := func(code fault.Code, says string) {
		t.Helper()
		_, err := other.Publish(t.Context(), ada, bytes.NewReader(b))
		wants(t, err, code, says)
		_, err = other.Claim(t.Context(), ada, "fresh", "")
		wants(t, err, code, says)
		_, err = other.Withdraw(t.Context(), ada, "acme/base", "1.1.0", false)
		wants(t, err, code, says)
		_, err = other.Change(t.Context(), ada, "acme", adding("ada"))
		if err != nil { // nothing changes
			t.Error(err)
		}
		if string(other.read("log/checkpoint")) != want["log/checkpoint"] {
			t.Error("it has signed a checkpoint")
		}
	}
	stopped(fault.Unavailable, "signs nothing yet")
	other.open() // also as another process
	stopped(fault.Unavailable, "signs nothing yet")

	// What a client shows never lets it go on, and the host's word only with what isn't older than the backup.
	now := w.read("log/checkpoint")
	if sighting, err := other.Seen(t.Context(), nil, now); err != nil || sighting.Signing || sighting.Seen != 6 ||
		sighting.Entries != 6 {
		t.Errorf("%+v, %v", sighting, err)
	}
	old, err := tlog.Sign(w.Registry.Log(), w.o.LogKey, 0, new(tlog.Tail).Root())
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Resume(t.Context(), old)
	wants(t, err, fault.Validation, "is older than the backup")
	_, err = other.Resume(t.Context(), []byte("nonsense"))
	wants(t, err, fault.Parsing, "")
	_, err = other.Resume(t.Context(), bytes.Repeat([]byte("x"), 1<<20))
	wants(t, err, fault.Limit, "")
	_, err = other.Resume(t.Context(), []byte("c2sp.org/tlog-proof@v1\n"))
	wants(t, err, fault.Parsing, "")
	stopped(fault.Unavailable, "signs nothing yet")
	if sighting, err := other.Resume(t.Context(), now); err != nil || !sighting.Signing {
		t.Fatalf("%+v, %v", sighting, err)
	}
	if v := other.publish(ada, pack{id: "acme/base", version: "2.0.0"}); v.Leaf != 6 {
		t.Errorf("%+v", v)
	}
	other.index("acme/base")
	other.good()
	if sighting, err := other.Resume(t.Context(), now); err != nil || !sighting.Signing || sighting.Entries != 7 {
		t.Errorf("%+v, %v", sighting, err)
	}
}

// TestLost: entries that were published after the backup and seen by anybody are never contradicted: not by a restore,
// and not when a client shows them later.
func TestLost(t *testing.T) {
	w, ada := filled(t)
	to := folder(t)
	w.backup(to)
	later := w.publish(ada, pack{id: "acme/base", version: "3.0.0"})
	newest, proof := w.read("log/checkpoint"), w.read(client.ProofFile(later.Archive))

	restore, other := w.another(to)
	for _, seen := range [][]byte{newest, proof} {
		restore.Seen = [][]byte{seen}
		_, err := restore.Run(t.Context())
		wants(t, err, fault.Rollback, "with 7 entries that the backup doesn't continue")
	}
	if len(other.all()) > 0 {
		t.Error("a restore that is refused has written files")
	}
	restore.Seen = nil
	other.restored(restore)
	for range 2 {
		_, err := other.Seen(t.Context(), nil, proof)
		wants(t, err, fault.Rollback, "7 entries")
	}
	if len(other.warns) != 2 {
		t.Errorf("%q", other.warns)
	}
	before := other.read("log/checkpoint")
	_, err := other.Resume(t.Context(), before)
	wants(t, err, fault.Rollback, "lost entries")
	other.o.Witness = new(notary)
	other.open()
	_, err = other.Publish(t.Context(), ada, bytes.NewReader(w.archive(pack{id: "acme/base", version: "2.0.0"})))
	wants(t, err, fault.Rollback, "lost entries")
	if hint := fault.Of(err).Hint; len(hint) == 0 || !strings.Contains(hint[0], "--new-log") {
		t.Errorf("%q", hint)
	}
	if !bytes.Equal(other.read("log/checkpoint"), before) {
		t.Error("it has signed a checkpoint")
	}

	// A registry that was copied by hand goes on with another history, until a client shows that.
	if _, err := w.Seen(t.Context(), nil, newest); err != nil {
		t.Error(err)
	}
	restore, fork := w.another(to)
	restore.Seen = [][]byte{before}
	fork.restored(restore)
	fork.publish(ada, pack{id: "acme/base", version: "9.0.0"})
	_, err = fork.Seen(t.Context(), nil, newest)
	wants(t, err, fault.Rollback, "7 entries")
	_, err = fork.Claim(t.Context(), ada, "fresh", "")
	wants(t, err, fault.Rollback, "lost entries")

	// Another key's word is nothing.
	key, err := tlog.NewKey(w.Registry.Log().Name, keytest.Seeded(9).Public())
	if err != nil {
		t.Fatal(err)
	}
	forged, err := tlog.Sign(key, keytest.Seeded(9), 100, tlog.Hash{1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Seen(t.Context(), nil, forged)
	wants(t, err, fault.Unsigned, "")
	w.publish(ada, pack{id: "acme/base", version: "4.0.0"})
}

// TestNewLog: what was lost begins a new log under another name, with the same entries.
func TestNewLog(t *testing.T) {
	w, ada := filled(t)
	to := folder(t)
	w.backup(to)
	w.publish(ada, pack{id: "acme/base", version: "3.0.0"})
	restore, other := w.another(to)
	restore.NewLog, restore.Seen = true, [][]byte{w.read("log/checkpoint")}
	_, err := restore.Run(t.Context())
	wants(t, err, fault.Validation, "another name")
	other.o.Name = "registry2.example"
	restore.To = other.o
	_, err = restore.Run(t.Context())
	wants(t, err, fault.Validation, "another key")
	other.o.LogKey = keytest.Seeded(7)
	restore.To = other.o
	if done := other.restored(restore); done.Entries != 6 || done.Shown != 0 {
		t.Errorf("%+v", done)
	}
	other.good()
	other.publish(ada, pack{id: "acme/base", version: "2.0.0"})
	checkpoint, err := tlog.Open(other.read("log/checkpoint"), other.Registry.Log())
	if err != nil || checkpoint.Origin != "registry2.example/log" || checkpoint.Size != 7 {
		t.Errorf("%+v, %v", checkpoint, err)
	}
	if len(other.warns) > 0 {
		t.Errorf("%q", other.warns)
	}
}

// TestWitnessKnows: the witnesses of a restored log say whether it may go on.
func TestWitnessKnows(t *testing.T) {
	w, ada := filled(t)
	to := folder(t)
	w.backup(to)
	restore, other := w.another(to)
	witness := &notary{away: true}
	other.o.Witness = witness
	other.restored(restore)
	if signing, err := other.Signing(t.Context()); err != nil || signing || len(other.warns) != 2 {
		t.Errorf("%v, %v, %q", signing, err, other.warns)
	}
	witness.away = false
	other.open()
	if signing, err := other.Signing(t.Context()); err != nil || !signing {
		t.Errorf("%v, %v", signing, err)
	}
	other.publish(ada, pack{id: "acme/base", version: "2.0.0"})
}

// stoppingRows is a store of rows that fails at the n-th update.
type stoppingRows struct {
	rows.Store
	left int
}

func (s *stoppingRows) Update(ctx context.Context, change func(rows.Writer) error) error {
	if s.left--; s.left < 0 {
		return errStopped
	}
	return s.Store.Update(ctx, change)
}

// TestRestoreInterrupted stops a restore before each write to the files and to the rows: no registry opens there, and
// the restore goes on when it is made again.
func TestRestoreInterrupted(t *testing.T) {
	w, _ := filled(t)
	to := folder(t)
	w.backup(to)
	for _, inRows := range []bool{false, true} {
		for stop := 0; ; stop++ {
			restore, other := w.another(to)
			if inRows {
				restore.To.Rows = &stoppingRows{other.o.Rows, stop}
			} else {
				restore.To.Blobs = &stopping{other.files, stop}
			}
			_, err := restore.Run(t.Context())
			if err == nil {
				if stop < 3 {
					t.Errorf("a restore has %d writes", stop)
				}
				break
			}
			if !errors.Is(err, errStopped) {
				t.Fatalf("%d: %v", stop, err)
			}
			if stop > 0 || !inRows {
				_, err = registry.Open(t.Context(), other.o)
				wants(t, err, fault.Unavailable, "not restored to the end")
			}
			other.place(restore)
			other.restored(restore)
			other.good()
			if signing, err := other.Signing(t.Context()); err != nil || signing {
				t.Errorf("%d: %v, %v", stop, signing, err)
			}
		}
	}
}

// TestRestoreRefused: what a backup isn't restored from, and where.
func TestRestoreRefused(t *testing.T) {
	w, ada := filled(t)
	to := folder(t)
	if _, err := registry.ReadBackup(t.Context(), to); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
	w.backup(to)
	backup := func(change func(*registry.Restore)) error {
		restore, _ := w.another(to)
		change(restore)
		_, err := restore.Run(t.Context())
		return err
	}
	wants(t, backup(func(r *registry.Restore) { r.To = w.o }), fault.Conflict, "not empty")
	wants(t, backup(func(r *registry.Restore) { r.To.Blobs = w.files }), fault.Conflict, "not empty")
	wants(t, backup(func(r *registry.Restore) { r.To.LogKey = keytest.Seeded(9) }), fault.Conflict, "keys")
	wants(t, backup(func(r *registry.Restore) { r.To.IndexKey = keytest.Seeded(9) }), fault.Conflict, "keys")
	wants(t, backup(func(r *registry.Restore) { r.To.Name = "other.example" }), fault.Conflict, "keys")
	wants(t, backup(func(r *registry.Restore) { r.To.Name = "a/b" }), fault.Config, "slash")
	wants(t, backup(func(r *registry.Restore) { r.Seen = [][]byte{nil} }), fault.Parsing, "")
	wants(t, backup(func(r *registry.Restore) { r.Backup.Checkpoint = "" }), fault.Parsing, "")
	wants(t, backup(func(r *registry.Restore) { r.Backup.Log = "" }), fault.Parsing, "")
	wants(t, backup(func(r *registry.Restore) { r.Backup.Count++ }), fault.Integrity, "damaged")
	old, err := tlog.Sign(w.Registry.Log(), w.o.LogKey, 0, new(tlog.Tail).Root())
	if err != nil {
		t.Fatal(err)
	}
	wants(t, backup(func(r *registry.Restore) { r.Seen = [][]byte{old} }), fault.Validation, "older than the backup")
	failed := errors.New("no place")
	if err := backup(func(r *registry.Restore) { r.Begun = func() error { return failed } }); err != failed {
		t.Error(err)
	}
	// Begun by the restore of one backup, it isn't ended by that of another.
	restore, other := w.another(to)
	restore.Begun = func() error { return failed }
	_, _ = restore.Run(t.Context())
	w.publish(ada, pack{id: "acme/base", version: "2.0.0"})
	later := folder(t)
	w.backup(later)
	second, _ := w.another(later)
	second.To = other.o
	_, err = second.Run(t.Context())
	wants(t, err, fault.Conflict, "not empty")

	// Rows that were changed, and rows of another log's checkpoint.
	text := func(name string) string {
		file, err := to.Open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		b, err := io.ReadAll(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var name string
	for info := range to.List(t.Context(), "rows/") {
		name = info.Name
	}
	good := text(name)
	for _, bad := range []string{good[1:], good[:len(good)-1] + "x", good + good, good + "z\n", "",
		strings.Replace(good, "ada", "eve", 1),
		strings.Replace(good, "entry/public/000000000002", "entry/public/9", 1),
		strings.Replace(good, `"size":6`, `"size":7`, 1), strings.Replace(good, "acme/base", "acme/bass", 1)} {
		if err := to.Replace(t.Context(), name, []byte(bad)); err != nil {
			t.Fatal(err)
		}
		if err := backup(func(*registry.Restore) {}); err == nil {
			t.Errorf("restored from %.200q", bad)
		}
	}
	if err := to.Remove(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	wants(t, backup(func(*registry.Restore) {}), fault.Integrity, "not complete")

	list := text("backup.json")
	for bad, code := range map[string]fault.Code{"{}": fault.Parsing, list + " ": fault.Parsing,
		list[1:]: fault.Parsing,
		strings.Replace(list, "backup/1", "backup/2", 1):                  fault.VersionMismatch,
		strings.Replace(list, `"registry.example"`, `"a/b"`, 1):           fault.Parsing,
		strings.Replace(list, `"count"`, `"more": 1, "count"`, 1):         fault.Parsing,
		strings.Replace(list, `"made": "2026`, `"made": "about 2026-`, 1): fault.Parsing} {
		if err := to.Replace(t.Context(), "backup.json", []byte(bad)); err != nil {
			t.Fatal(err)
		}
		_, err := registry.ReadBackup(t.Context(), to)
		wants(t, err, code, "")
	}
}

// TestUnshown: entries that no witness had signed when the backup was made are in it, and are shown when the log goes
// on, not earlier.
func TestUnshown(t *testing.T) {
	w, ada := filled(t)
	witness := new(notary)
	w.o.Witness = witness
	w.open()
	witness.away = true
	b := w.archive(pack{id: "acme/base", version: "2.0.0"})
	if _, err := w.Publish(t.Context(), ada, bytes.NewReader(b)); err == nil {
		t.Fatal("published")
	}
	if _, err := w.Withdraw(t.Context(), ada, "acme/base", "1.1.0", false); err == nil {
		t.Fatal("yanked")
	}
	to := folder(t)
	if done := w.backup(to); done.Entries != 8 || done.Archives != 3 {
		t.Errorf("%+v", done)
	}
	restore, other := w.another(to)
	restore.To.Witness, other.o.Witness = nil, nil
	if done := other.restored(restore); done.Entries != 8 || done.Shown != 6 {
		t.Errorf("%+v", done)
	}
	if list := other.index("acme/base"); len(list.Entries) != 2 || list.Entries[1].Logged.Yanked != 0 ||
		list.Counter != 5 {
		t.Errorf("%+v", list)
	}
	witness.away = false
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The first registry has shown them meanwhile; the rows of the other one have them, too.
	if sighting, err := other.Resume(t.Context(), w.read("log/checkpoint")); err != nil || !sighting.Signing {
		t.Fatalf("%+v, %v", sighting, err)
	}
	if list := other.index("acme/base"); len(list.Entries) != 3 || list.Entries[1].Logged.Yanked == 0 {
		t.Errorf("%+v", list)
	}
	if !bytes.Equal(w.read("log/checkpoint"), other.read("log/checkpoint")) {
		t.Error("two histories")
	}
	other.good()
}

// TestUnreadableRestore lets each read of the rows fail once, in a restore and in the registry that was restored: the
// error is returned, and made again it is as if it had never been.
func TestUnreadableRestore(t *testing.T) {
	w, _ := filled(t)
	to := folder(t)
	w.backup(to)
	restore, other := w.another(to)
	for n := 0; ; n++ {
		restore.To.Rows = &faulty{other.o.Rows, n}
		_, err := restore.Run(t.Context())
		if err == nil {
			if n < 8 {
				t.Errorf("a restore reads %d times", n)
			}
			break
		}
		if !errors.Is(err, errStopped) {
			t.Fatalf("read %d: %v", n, err)
		}
	}
	newest := w.read("log/checkpoint")
	o := other.o
	o.Warn, o.Witness = nil, new(notary)
	for name, do := range map[string]func(store *faulty, n int) error{
		"open": func(store *faulty, n int) error {
			store.left = n
			_, err := registry.Open(t.Context(), o)
			return err
		},
		"resume": func(store *faulty, n int) error {
			alone := o
			alone.Witness = nil
			r, err := registry.Open(t.Context(), alone)
			if err != nil {
				t.Fatal(err)
			}
			store.left = n
			_, err = r.Resume(t.Context(), newest)
			return err
		},
	} {
		for n := 0; ; n++ {
			other.halt()
			other.now = other.now.Add(time.Minute) // a lease that is left ends
			store := &faulty{other.o.Rows, 1 << 30}
			o.Rows = store
			err := do(store, n)
			if err == nil {
				if n < 4 {
					t.Errorf("%s reads %d times", name, n)
				}
				break
			}
			if !errors.Is(err, errStopped) {
				t.Fatalf("%s, read %d: %v", name, n, err)
			}
		}
	}
	other.open()
	other.good()
}

// halt makes the registry one that was just restored.
func (w *world) halt() {
	w.Helper()
	if err := w.o.Rows.Update(w.Context(), func(in rows.Writer) error {
		in.Put("halt/public", []byte(`{"since":"2026-11-20T12:00:00Z","made":"2026-11-20T12:00:00Z","least":6}`))
		return nil
	}); err != nil {
		w.Fatal(err)
	}
}

// TestRestoreStaged: what waits for approval is in a backup, and can be approved where it was restored.
func TestRestoreStaged(t *testing.T) {
	w, ada := filled(t)
	b := w.archive(pack{id: "acme/base", version: "2.0.0"})
	staged, err := w.Stage(t.Context(), ada, "", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	to := folder(t)
	if done := w.backup(to); done.Copied != 4 || done.Archives != 2 || len(done.Wrong) > 0 {
		t.Errorf("%+v", done)
	}
	restore, other := w.another(to)
	if done := other.restored(restore); len(done.Wrong) > 0 {
		t.Errorf("%+v", done)
	}
	file, err := other.StagedArchive(t.Context(), ada, staged.ID, staged.Versions[0].Archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got, err := io.ReadAll(file); err != nil || !bytes.Equal(got, b) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
