package approval_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/approval"
)

// A test process makes the call of an approved request in a state directory.
func TestMain(m *testing.M) {
	os.Exit(journaltest.Main(m, os.Getenv(journaltest.Variable), os.Stdin, os.Stdout, makes))
}

func makes(state string, hook journal.Hook) (string, error) { return "", makesCall(state, hook) }

func makesCall(state string, hook journal.Hook) error {
	l := approval.Open(state, time.Now, &trail{}, hook)
	ctx := context.Background()
	got, err := controller(l).Approve(ctx, question(), "")
	if errors.Is(err, approval.ErrWaits) {
		return nil
	}
	if err != nil {
		return err
	}
	end, err := got.Take(ctx, "x")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(state, "effects"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString("made\n"); err != nil {
		return err
	}
	return errors.Join(f.Close(), end(ctx, ""))
}

// approved returns a state directory with a request that is approved, and its id.
func approved(t testing.TB) (state string, l *approval.Local, id string) {
	t.Helper()
	state = t.TempDir()
	l = approval.Open(state, time.Now, &trail{}, nil)
	t.Cleanup(func() { l.Close() })
	if _, err := controller(l).Approve(t.Context(), question(), ""); !errors.Is(err, approval.ErrWaits) {
		t.Fatal(err)
	}
	id = pending(t, l)
	_, err := l.Do(t.Context(), id, approves)
	must(t, err)
	return state, l, id
}

func effects(state string) int {
	b, _ := os.ReadFile(filepath.Join(state, "effects")) // missing: none
	return strings.Count(string(b), "\n")
}

// TestKilled: a process that is killed before any change of a file leaves a journal that goes on, and its call is made
// once at most.
func TestKilled(t *testing.T) {
	for n := 1; ; n++ {
		state, l, id := approved(t)
		killed := journaltest.Command(t, state, n).Run()
		r, err := approval.Find(t.Context(), l, id)
		must(t, err)
		made := effects(state)
		if want := map[approval.State][2]int{approval.Approved: {0, 0}, approval.Unknown: {0, 1},
			approval.Done: {1, 1}}[r.State]; made < want[0] || made > want[1] || r.State == approval.Executing {
			t.Errorf("killed at %d: %s, made %d times", n, r.State, made)
		}
		if out, err := journaltest.Command(t, state, 0).CombinedOutput(); err != nil {
			t.Errorf("after %d: %v: %s", n, err, out)
		}
		again := effects(state)
		if again > 1 || r.State == approval.Approved && again != 1 || r.State != approval.Approved && again != made {
			t.Errorf("killed at %d: %s, made %d times, and %d after that", n, r.State, made, again)
		}
		if killed == nil {
			if n < 4 {
				t.Errorf("only %d changes", n)
			}
			return
		}
	}
}

// TestProcesses: of many processes with one approval one makes the call.
func TestProcesses(t *testing.T) {
	state, l, id := approved(t)
	var all []*exec.Cmd
	for range 8 {
		c := journaltest.Command(t, state, 0)
		must(t, c.Start())
		all = append(all, c)
	}
	for _, c := range all {
		_ = c.Wait() // that it was too late is a failure
	}
	r, err := approval.Find(t.Context(), l, id)
	must(t, err)
	if made := effects(state); made != 1 || r.State != approval.Done {
		t.Errorf("made %d times: %s", made, r.State)
	}
}
