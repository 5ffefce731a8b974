package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

var (
	noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	own  = keytest.Seeded(1)
)

// A prunable has threads in a directory.
type prunable struct {
	base  string
	now   time.Time
	hook  func(op, path string, b []byte) error
	rows  *roster.Local
	money *ledger.Local
}

func open(base string, hook func(op, path string, b []byte) error) *prunable {
	w := &prunable{base: base, now: noon, hook: hook}
	w.rows = roster.Open(filepath.Join(base, "registry"), func() time.Time { return w.now }, hook)
	w.money = ledger.In(filepath.Join(base, "ledger"), hook)
	return w
}

func (w *prunable) close() { w.rows.Close(); w.money.Shut() }

func newPrunable(t testing.TB) *prunable {
	w := open(t.TempDir(), nil)
	t.Cleanup(w.close)
	return w
}

func (w *prunable) options(before time.Time) control.PruneOptions {
	return control.PruneOptions{Roster: w.rows, Ledger: w.money, Keys: []key.Public{own.Public()}, Before: before,
		Now: noon.AddDate(1, 0, 0),
		Hook: func(op, path string) error {
			if w.hook == nil {
				return nil
			}
			return w.hook(op, path, nil)
		}}
}

// prune prunes what ended before a time.
func (w *prunable) prune(t testing.TB, before time.Time, edit func(*control.PruneOptions)) *control.Pruned {
	t.Helper()
	o := w.options(before)
	var err error
	o.Rows, err = w.rows.Threads(t.Context(), roster.Filter{})
	must(t, err)
	if edit != nil {
		edit(&o)
	}
	r, err := control.Prune(t.Context(), o)
	must(t, err)
	return r
}

// thread makes a thread that is in a state since a time, with a transcript of one model call.
func (w *prunable) thread(t testing.TB, row roster.Thread, state roster.State, at time.Time) *roster.Thread {
	t.Helper()
	w.now = at
	p, err := roster.ProjectAt(w.base)
	must(t, err)
	row.Project, row.Kind, row.Directive, row.Created = p, "directive", "directive:acme/plan", at
	must(t, os.MkdirAll(row.Dir(), 0o700), w.rows.Create(t.Context(), &row, 100))
	claimed, err := w.rows.Claim(t.Context(), row.ID, 0, roster.Driver{Process: 1})
	must(t, err)
	must(t, w.money.Do(t.Context(), ledger.Open(row.ID, "", 1, nil, at), ledger.Reserve(row.ID, 1, "1", 300),
		ledger.Settle(row.ID, 1, "1", 250), ledger.Close(row.ID, 1, at)))
	provider := transcript.Item{Ref: "tool:acme/p", Digest: cas.Sum(nil)}
	writer, err := transcript.Create(row.Dir(), row.ID,
		transcript.Started{Kind: "directive", Directive: transcript.Item{Ref: "directive:acme/plan",
			Digest: cas.Sum(nil)},
			Provider: provider, Policy: []cas.Digest{}, Grants: []string{}, Model: "m"}, transcript.Driver{Epoch: 1},
		transcript.Options{Key: own, Now: func() time.Time { return at }})
	must(t, err)
	_, err = writer.Append(transcript.Request{Turn: 1, Attempt: 1, Digest: cas.Sum(nil),
		Messages: []any{transcript.Message{Role: "user", Text: "hi"}}, Provider: provider, Model: "m"})
	must(t, err)
	_, err = writer.Append(transcript.Answer{Turn: 1, Attempt: 1, Text: strings.Repeat("x", 5000), Cost: 250,
		Usage: &transcript.Usage{Input: 3, Output: 4, Reported: true}},
		transcript.Checkpoint{Turn: 1})
	must(t, err)
	if state.Ended() {
		_, err = writer.Append(transcript.Completed{Result: "done"}, transcript.Checkpoint{Turn: 1})
	} else {
		_, err = writer.Append(transcript.Checkpoint{Turn: 1})
	}
	must(t, err, writer.Close(), w.rows.Set(t.Context(), row.ID, claimed.Epoch, state, row.Next))
	return &row
}

func ids(rows []*roster.Thread) (all []string) {
	for _, r := range rows {
		all = append(all, r.ID)
	}
	slices.Sort(all)
	return all
}

// TestPrune: an old thread goes, and its row has what remains.
func TestPrune(t *testing.T) {
	w := newPrunable(t)
	old := w.thread(t, roster.Thread{ID: "acme/old-1"}, roster.Completed, noon)
	young := w.thread(t, roster.Thread{ID: "acme/young-1"}, roster.Completed, noon.AddDate(0, 1, 0))
	before := noon.AddDate(0, 0, 1)
	dry := w.prune(t, before, func(o *control.PruneOptions) { o.DryRun = true })
	if got := fmt.Sprint(ids(dry.Pruned)); got != "[acme/old-1]" || dry.Bytes == 0 || !transcript.Exists(old.Dir()) {
		t.Errorf("dry: %s, %d", got, dry.Bytes)
	}
	report, err := transcript.Verify(t.Context(), old.Dir(), transcript.Check{Keys: []key.Public{own.Public()}})
	must(t, err)
	if r := w.prune(t, before, nil); fmt.Sprint(ids(r.Pruned)) != "[acme/old-1]" || r.Bytes != dry.Bytes ||
		len(r.Kept) > 0 {
		t.Errorf("%+v", r)
	}
	if _, err := os.Lstat(old.Dir()); !errors.Is(err, os.ErrNotExist) || !transcript.Exists(young.Dir()) {
		t.Error(err)
	}
	row, err := roster.Get(t.Context(), w.rows, old.ID)
	must(t, err)
	p := row.Pruned
	if p == nil || row.Lost || row.State != roster.Completed || p.Spend != 250 || p.Lines != report.Lines ||
		p.Line != report.Lines || p.Digest != report.Last.Digest ||
		p.Signer != own.Public().Fingerprint().String() || len(p.Uses) != 1 ||
		p.Uses[0] != (roster.Use{Model: "acme/p/m", Day: "2026-11-20", Calls: 1, Input: 3, Output: 4, Spend: 250}) {
		t.Errorf("%+v, %+v", row, p)
	}
	if err := row.Gone(); fault.CodeOf(err) != fault.NotFound ||
		!strings.Contains(err.Error(), "pruned on 2027-11-20") {
		t.Error(err)
	}
	if r := w.prune(t, before, nil); len(r.Pruned) > 0 {
		t.Errorf("again: %+v", r)
	}
	if left, err := os.ReadDir(filepath.Join(w.base, ".ai", "threads")); err != nil || len(left) != 1 { // acme
		t.Errorf("%v, %v", left, err)
	}
}

// TestRelease: the store keeps what the lock of a thread names until its directory is gone, and a release that failed
// is made by the next prune.
func TestRelease(t *testing.T) {
	w := newPrunable(t)
	old := w.thread(t, roster.Thread{ID: "acme/old-1"}, roster.Completed, noon)
	w.thread(t, roster.Thread{ID: "acme/young-1"}, roster.Completed, noon.AddDate(0, 1, 0))
	before, broken := noon.AddDate(0, 0, 1), errors.New("the store is full")
	var released []string
	release := func(_ context.Context, path string) error {
		if _, err := os.Lstat(old.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("released before the thread was gone: %v", err)
		}
		if released = append(released, path); len(released) == 1 {
			return broken
		}
		return nil
	}
	if w.prune(t, before, func(o *control.PruneOptions) { o.DryRun, o.Release = true, release }); len(released) > 0 {
		t.Errorf("released without pruning: %q", released)
	}
	o := w.options(before)
	o.Release = release
	var err error
	o.Rows, err = w.rows.Threads(t.Context(), roster.Filter{})
	must(t, err)
	if _, err := control.Prune(t.Context(), o); !errors.Is(err, broken) {
		t.Error(err)
	}
	w.prune(t, before, func(o *control.PruneOptions) { o.Release = release })
	path := filepath.Join(old.Dir(), transcript.LockFile)
	if fmt.Sprint(released) != fmt.Sprint([]string{path, path}) {
		t.Errorf("released %q", released)
	}
}

// TestKept: what another thread may still need stays, and so does what can't be verified.
func TestKept(t *testing.T) {
	w := newPrunable(t)
	later := noon.AddDate(0, 1, 0)
	w.thread(t, roster.Thread{ID: "running"}, roster.Interrupted, noon)
	w.thread(t, roster.Thread{ID: "child", Parent: "running"}, roster.Completed, noon)
	w.thread(t, roster.Thread{ID: "grandchild", Parent: "child"}, roster.Failed, noon)
	w.thread(t, roster.Thread{ID: "first", Next: "second"}, roster.Continued, noon)
	w.thread(t, roster.Thread{ID: "second", Continues: "first"}, roster.Completed, later)
	edited := w.thread(t, roster.Thread{ID: "edited"}, roster.Cancelled, noon)
	path := filepath.Join(edited.Dir(), transcript.LinesFile)
	b, err := os.ReadFile(path)
	must(t, err, os.WriteFile(path, bytes.Replace(b, []byte("done"), []byte("gone"), 1), 0o600))
	cut := w.thread(t, roster.Thread{ID: "cut"}, roster.Completed, noon)
	path = filepath.Join(cut.Dir(), transcript.LinesFile)
	b, err = os.ReadFile(path)
	must(t, err)
	signed := bytes.Index(b, []byte(`"type":"checkpoint"`))
	must(t, os.WriteFile(path, b[:signed+bytes.IndexByte(b[signed:], '\n')+1], 0o600))
	gone := w.thread(t, roster.Thread{ID: "gone"}, roster.Completed, noon)
	must(t, os.RemoveAll(gone.Dir()))
	never := w.thread(t, roster.Thread{ID: "never"}, roster.Failed, noon)
	must(t, os.Remove(filepath.Join(never.Dir(), transcript.LinesFile)))
	unsigned := w.thread(t, roster.Thread{ID: "unsigned"}, roster.Failed, noon)
	path = filepath.Join(unsigned.Dir(), transcript.LinesFile)
	b, err = os.ReadFile(path)
	must(t, err, os.WriteFile(path, b[:bytes.Index(b, []byte(`"type":"checkpoint"`))], 0o600))

	r := w.prune(t, noon.AddDate(0, 0, 1), nil)
	if got := fmt.Sprint(ids(r.Pruned)); got != "[never unsigned]" {
		t.Error(got)
	}
	kept := map[string]string{}
	for _, k := range r.Kept {
		if kept[k.Thread] = k.Reason; (k.Err != nil) != (k.Thread == "edited" || k.Thread == "cut") {
			t.Errorf("%+v", k)
		}
	}
	if len(kept) != 6 || !strings.Contains(kept["cut"], "no signed end") ||
		kept["child"] != "the thread running is interrupted" || kept["grandchild"] == "" || kept["running"] == "" ||
		kept["first"] != "a thread that it is related to ended later" || !strings.HasPrefix(kept["edited"], "line ") {
		t.Errorf("%v", kept)
	}
	if r := w.prune(t, later.AddDate(0, 0, 1), nil); fmt.Sprint(ids(r.Pruned)) != "[first second]" {
		t.Errorf("%v", ids(r.Pruned))
	}
	row, err := roster.Get(t.Context(), w.rows, "never")
	must(t, err)
	if row.Pruned == nil || row.Pruned.Line != 0 || row.Pruned.Spend != 250 {
		t.Errorf("%+v", row.Pruned)
	}
	err = w.rows.Prune(t.Context(), map[string]roster.Pruned{"child": {At: noon}})
	if fault.CodeOf(err) != fault.Conflict {
		t.Errorf("a child of a thread that goes on: %v", err)
	}
	must(t, w.rows.Prune(t.Context(), map[string]roster.Pruned{"none": {At: noon}, "first": {At: noon}}))
}

// TestLink: a thread behind a link is refused before a row is written, in a dry run too, and so is what a pruned one
// has left.
func TestLink(t *testing.T) {
	w := newPrunable(t)
	w.thread(t, roster.Thread{ID: "a-1"}, roster.Completed, noon)
	row := w.thread(t, roster.Thread{ID: "acme/old-1"}, roster.Completed, noon)
	there, place := filepath.Join(w.base, "elsewhere"), filepath.Dir(row.Dir())
	must(t, os.Rename(place, there))
	if err := os.Symlink(there, place); err != nil {
		t.Skip(err) // Windows may forbid it
	}
	for _, o := range []control.PruneOptions{{Before: noon.AddDate(0, 0, 1), DryRun: true},
		{Before: noon.AddDate(0, 0, 1)}, {Before: noon, Now: noon}} {
		if o.Before.Equal(noon) {
			must(t, w.rows.Prune(t.Context(), map[string]roster.Pruned{row.ID: {At: noon}}))
		}
		o.Roster, o.Ledger, o.Keys = w.rows, w.money, []key.Public{own.Public()}
		var err error
		o.Rows, err = w.rows.Threads(t.Context(), roster.Filter{})
		must(t, err)
		_, err = control.Prune(t.Context(), o)
		if f, found := fault.Find(err); !found || f.Code != fault.Denied || f.Details["path"] != place ||
			len(f.Hint) != 1 {
			t.Errorf("%+v: %v", o, err)
		}
		rows, err := w.rows.Threads(t.Context(), roster.Filter{})
		must(t, err)
		for _, r := range rows {
			if r.Pruned != nil && !o.Before.Equal(noon) {
				t.Errorf("%s is pruned", r.ID)
			}
		}
		if !transcript.Exists(filepath.Join(there, "old-1")) {
			t.Error("it is gone")
		}
	}
	must(t, os.Remove(place), os.Rename(there, place))
	if r := w.prune(t, noon.AddDate(0, 0, 1), nil); fmt.Sprint(ids(r.Pruned)) != "[a-1]" ||
		transcript.Exists(row.Dir()) {
		t.Errorf("%+v", r)
	}
}

// TestManyUses: a row has room for what a thread of many models has used.
func TestManyUses(t *testing.T) {
	w := newPrunable(t)
	row := w.thread(t, roster.Thread{ID: "x"}, roster.Completed, noon)
	must(t, os.RemoveAll(row.Dir()))
	p := transcript.Item{Ref: "tool:acme/p", Digest: cas.Sum(nil)}
	writer, err := transcript.Create(row.Dir(), row.ID,
		transcript.Started{Kind: "directive", Directive: transcript.Item{Ref: "directive:acme/plan",
			Digest: cas.Sum(nil)},
			Provider: p, Policy: []cas.Digest{}, Grants: []string{}, Model: "m"}, transcript.Driver{Epoch: 1},
		transcript.Options{Key: own, Now: func() time.Time { return noon }})
	must(t, err)
	var events []transcript.Payload
	for i := range roster.MaxUses + 5 {
		turn := int64(i + 1)
		events = append(events, transcript.Request{Turn: turn, Attempt: 1, Digest: cas.Sum(nil), Messages: []any{},
			Provider: p, Model: fmt.Sprint("m", i)},
			transcript.Answer{Turn: turn, Attempt: 1, Cost: 1})
	}
	_, err = writer.Append(append(events, transcript.Completed{}, transcript.Checkpoint{Turn: 1})...)
	must(t, err, writer.Close())
	w.prune(t, noon.AddDate(0, 0, 1), nil)
	row, err = roster.Get(t.Context(), w.rows, "x")
	must(t, err)
	var spend int64
	for _, u := range row.Pruned.Uses {
		spend += u.Spend
	}
	if len(row.Pruned.Uses) != roster.MaxUses || spend != roster.MaxUses+5 {
		t.Errorf("%d rows, %d", len(row.Pruned.Uses), spend)
	}
}

// TestFaults: whatever can't be written or read is an error, and the next prune ends the work.
func TestFaults(t *testing.T) {
	planted := errors.New("planted")
	before := noon.AddDate(0, 0, 1)
	for at, done := 1, false; !done; at++ {
		n := 0
		w := open(t.TempDir(), func(op, path string, b []byte) error {
			if n++; n == at {
				return planted
			}
			return nil
		})
		n = -1000
		w.thread(t, roster.Thread{ID: "acme/a-1"}, roster.Completed, noon)
		n = 0
		o := w.options(before)
		var err error
		o.Rows, err = w.rows.Threads(t.Context(), roster.Filter{})
		must(t, err)
		_, err = control.Prune(t.Context(), o)
		if done = err == nil; !done && !errors.Is(err, planted) {
			t.Fatalf("%d: %v", at, err)
		}
		n = -1000
		dry := w.prune(t, before, func(o *control.PruneOptions) { o.DryRun = true })
		w.prune(t, before, nil)
		row, err := roster.Get(t.Context(), w.rows, "acme/a-1")
		must(t, err)
		if left, _ := os.ReadDir(filepath.Join(w.base, ".ai", "threads")); row.Pruned == nil || len(left) != 1 ||
			len(dry.Pruned) > 1 {
			t.Fatalf("%d: %+v, %v", at, row, left)
		}
		w.close()
	}

	w := newPrunable(t)
	row := w.thread(t, roster.Thread{ID: "acme/a-1"}, roster.Completed, noon)
	o := w.options(before)
	o.Rows = []*roster.Thread{row}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := control.Prune(over, o); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, name := range []string{"ledger", "registry"} {
		must(t, os.WriteFile(filepath.Join(w.base, name), []byte("damaged"), 0o600))
		w.close()
		if _, err := control.Prune(t.Context(), o); fault.CodeOf(err) != fault.Integrity {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReturned: a directory that came back, as from a backup, goes with the next prune; a project that is gone is
// passed over.
func TestReturned(t *testing.T) {
	w := newPrunable(t)
	before := noon.AddDate(0, 0, 1)
	row := w.thread(t, roster.Thread{ID: "acme/a-1"}, roster.Completed, noon)
	w.prune(t, before, nil)
	all := filepath.Join(w.base, ".ai", "threads")
	must(t, os.MkdirAll(filepath.Join(row.Dir(), "x"), 0o700),
		os.MkdirAll(filepath.Join(all, osfile.Unfinished+"pruned-acme-a-1", "y"), 0o700))
	w.prune(t, before, nil)
	if left, err := os.ReadDir(all); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	must(t, os.RemoveAll(filepath.Join(w.base, ".ai")))
	w.prune(t, before, nil)
}

// doomed prunes, and kills itself before its n-th change.
func doomed(base string, at int) int {
	n := 0
	w := open(base, func(op, path string, b []byte) error {
		if n++; op != "look" && n == at {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				self.Kill() // SIGKILL: nothing is cleaned up
			}
			select {}
		}
		return nil
	})
	o := w.options(noon.AddDate(0, 0, 1))
	ctx := context.Background()
	var err error
	if o.Rows, err = w.rows.Threads(ctx, roster.Filter{}); err == nil {
		for _, row := range o.Rows {
			row.Project.Root = base // which is a copy
		}
		_, err = control.Prune(ctx, o)
	}
	if err != nil {
		fmt.Println(err)
		return 2
	}
	return 0
}

// TestKilled: whenever the process dies, each thread is whole or pruned, and the next prune ends the work.
func TestKilled(t *testing.T) {
	base := t.TempDir()
	w := open(base, nil)
	made := []*roster.Thread{w.thread(t, roster.Thread{ID: "acme/a-1"}, roster.Completed, noon),
		w.thread(t, roster.Thread{ID: "acme/b-1"}, roster.Failed, noon)}
	w.close()
	killed := 0
	for at := 1; ; at++ {
		dir := filepath.Join(t.TempDir(), "copy")
		must(t, os.CopyFS(dir, os.DirFS(base)))
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "RYE_TEST_PRUNE="+dir, "RYE_TEST_AT="+strconv.Itoa(at))
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState.ExitCode() == 2 {
			t.Fatalf("%d: %s", at, out)
		}
		if err != nil {
			killed++
		}
		w := open(dir, nil)
		rows, bad := w.rows.Threads(t.Context(), roster.Filter{})
		must(t, bad)
		for _, row := range rows {
			row.Project.Root = dir
			_, missing := os.Lstat(row.Dir())
			if row.Pruned != nil && missing != nil {
				continue
			}
			r, bad := transcript.Verify(t.Context(), row.Dir(), transcript.Check{Keys: []key.Public{own.Public()}})
			if bad != nil || r.Problem != nil || missing != nil {
				t.Fatalf("%d: %s: %v, %v, %v", at, row.ID, bad, r, missing)
			}
		}
		o := w.options(noon.AddDate(0, 0, 1))
		o.Rows = rows
		_, bad = control.Prune(t.Context(), o)
		must(t, bad)
		rows, bad = w.rows.Threads(t.Context(), roster.Filter{})
		must(t, bad)
		for _, row := range rows {
			if row.Project.Root = dir; row.Pruned == nil {
				t.Fatalf("%d: %s is not pruned", at, row.ID)
			}
		}
		if left, bad := os.ReadDir(filepath.Join(dir, ".ai", "threads", "acme")); bad != nil || len(left) > 0 {
			t.Fatalf("%d: %v, %v", at, left, bad)
		}
		if left, bad := os.ReadDir(filepath.Join(dir, ".ai", "threads")); bad != nil || len(left) != 1 {
			t.Fatalf("%d: %v, %v", at, left, bad)
		}
		w.close()
		if err == nil {
			break
		}
	}
	if killed < 4*len(made) {
		t.Errorf("killed %d times", killed)
	}
}
