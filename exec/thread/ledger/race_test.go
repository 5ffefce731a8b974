package ledger_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/thread/ledger"
)

// A racer is a process that takes from a budget what it can get.
type racer struct {
	Path   string
	Child  string
	Rounds int
}

func TestMain(m *testing.M) {
	os.Exit(journaltest.Main(m, os.Getenv(journaltest.Variable), os.Stdin, os.Stdout, racer.run))
}

// run opens an account below x, makes calls of 7 that cost 5, and returns what it has spent.
func (r racer) run(hook journal.Hook) (string, error) {
	ctx := context.Background()
	l := ledger.In(r.Path, hook)
	budget, spent := int64(35), int64(0)
	if l.Do(ctx, ledger.Open(r.Child, "x", 1, &budget, noon)) != nil {
		return "0", nil
	}
	for n := range r.Rounds {
		call := fmt.Sprint(n)
		if l.Do(ctx, ledger.Reserve(r.Child, 1, call, 7)) != nil {
			break
		}
		if err := l.Do(ctx, ledger.Settle(r.Child, 1, call, 5)); err != nil {
			return "", err
		}
		spent += 5
	}
	return fmt.Sprint(spent), l.Do(ctx, ledger.Close(r.Child, 1, noon))
}

// TestProcesses: 100 processes that take from one budget at once, some of them killed with -9, never spend a
// nano-dollar more than there is, and what they have spent is what the ledger says.
func TestProcesses(t *testing.T) {
	processes := 100
	if testing.Short() {
		processes = 12
	}
	path := filepath.Join(t.TempDir(), "ledger")
	l := open(t, path)
	all := int64(processes * 20)
	must(t, l.Do(t.Context(), ledger.Open("x", "", 1, &all, noon)))
	var mu sync.Mutex
	var group sync.WaitGroup
	said := map[string]int64{}
	places := make(chan struct{}, 25) // at once: the machine has to have room for them
	for i := range processes {
		r, dies := racer{Path: path, Child: fmt.Sprint("c", i), Rounds: 6}, 0
		if i%5 == 0 {
			dies = 1 + i/5
		}
		cmd := journaltest.Command(t, r, dies)
		group.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			out, err := cmd.Output()
			if err != nil && (dies == 0 || cmd.ProcessState.ExitCode() != -1) {
				t.Errorf("%s: %v, %s", r.Child, err, out)
				return
			}
			var n int64
			if err != nil {
				return
			}
			_, err = fmt.Sscan(string(out), &n)
			mu.Lock()
			defer mu.Unlock()
			said[r.Child] = n
			if err != nil {
				t.Errorf("%s: %q", r.Child, out)
			}
		})
	}
	group.Wait()
	accounts, err := l.Accounts(t.Context())
	must(t, err)
	sum := int64(0)
	for id, a := range accounts {
		if id == "x" {
			continue
		}
		if n, ok := said[id]; ok && a.Own != n {
			t.Errorf("%s has spent %d by its word, %+v", id, n, a)
		}
		if !a.Closed { // killed: what it may have spent counts
			must(t, l.Do(t.Context(), ledger.Close(id, 1, noon)))
		}
		a, err := ledger.Get(t.Context(), l, id)
		must(t, err)
		sum += a.Own
	}
	x, err := ledger.Get(t.Context(), l, "x")
	must(t, err)
	if left, _ := x.Left(); x.Below != sum || sum > all || left != all-sum || x.Aside != 0 || len(said) < processes/2 {
		t.Errorf("%d of %d spent, %+v", sum, all, x)
	}
}

// TestKilledWriting kills a process before each change that it makes to the ledger: nothing that it was told is done
// is lost, and the next process goes on.
func TestKilledWriting(t *testing.T) {
	died := 0
	for n := 1; ; n++ {
		path := filepath.Join(t.TempDir(), "ledger")
		l := open(t, path)
		all := int64(100)
		must(t, l.Do(t.Context(), ledger.Open("x", "", 1, &all, noon)))
		cmd := journaltest.Command(t, racer{Path: path, Child: "c", Rounds: 2}, n)
		err := cmd.Run()
		if killed := cmd.ProcessState.ExitCode() == -1; !killed {
			must(t, err)
			break
		}
		died++
		a, err := ledger.Get(t.Context(), open(t, path), "c")
		must(t, err)
		if a != nil && (a.Own > 10 || a.Held > 7 || a.Own%5 != 0) {
			t.Errorf("before change %d: %+v", n, a)
		}
		must(t, l.Do(t.Context(), ledger.Reserve("x", 1, "after", 1)))
	}
	if died < 10 {
		t.Errorf("it died %d times", died)
	}
}
