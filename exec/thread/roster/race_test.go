package roster_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/roster"
)

// A racer is a process that begins a child, and drives it until its standard input ends.
type racer struct {
	Path, Root string
	Child      string
	Parent     string
	Spawns     int64
}

func TestMain(m *testing.M) {
	os.Exit(journaltest.Main(m, os.Getenv(journaltest.Variable), os.Stdin, os.Stdout, racer.run))
}

// run returns what it has got: that the thread runs, else the limit that is in the way.
func (r racer) run(hook journal.Hook) (string, error) {
	l := roster.Open(r.Path, time.Now, hook)
	row, err := child(r.Root, r.Child, r.Parent)
	if err == nil {
		err = l.Create(context.Background(), row, r.Spawns)
	}
	if err == nil {
		_, err = l.Claim(context.Background(), r.Child, 0,
			roster.Driver{Process: os.Getpid(), Start: proc.Start(os.Getpid())})
	}
	if err == nil {
		return "runs", nil
	}
	limit, _ := fault.Of(err).Details["limit"].(string)
	return limit + string(fault.CodeOf(err)), nil
}

// child makes the directory of a thread, and returns its row.
func child(root, id, parent string) (*roster.Thread, error) {
	at, err := roster.ProjectAt(root)
	t := &roster.Thread{ID: id, Kind: "directive", Directive: "directive:acme/x", Project: at, Parent: parent,
		Created: time.Now().UTC().Round(0)}
	if err == nil {
		err = os.MkdirAll(t.Dir(), 0o700)
	}
	return t, err
}

// start starts a process, and returns what it says and what ends it.
func (r racer) start(t *testing.T, dies int) (says func() string, end func()) {
	t.Helper()
	cmd := journaltest.Command(t, r, dies)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	return func() string {
			line, _ := bufio.NewReader(out).ReadString('\n') // none if it was killed
			return line
		}, func() {
			in.Close()
			cmd.Wait()
		}
}

// parents registers a thread that runs, and below it one that allows so many children at once.
func parents(t *testing.T, path, root string, most roster.Most) *roster.Local {
	t.Helper()
	l := roster.Open(path, time.Now, nil)
	t.Cleanup(func() { l.Close() })
	row, err := child(root, "top", "")
	must(t, err)
	row.Most = most
	must(t, l.Create(t.Context(), row, 0))
	_, err = l.Claim(t.Context(), "top", 0, roster.Driver{Process: os.Getpid(), Start: proc.Start(os.Getpid())})
	must(t, err)
	return l
}

// TestProcesses: of many processes that begin children of one thread at once, as many begin as it may have in all, and
// as many run as it may have at once, whatever their order.
func TestProcesses(t *testing.T) {
	for name, c := range map[string]struct {
		most   roster.Most
		spawns int64
		runs   int
		says   string
	}{
		"children": {roster.Most{Children: 5, Total: 100}, 30, 5, "children_exceededLIMIT_EXCEEDED\n"},
		"total":    {roster.Most{Children: 100, Total: 7}, 30, 6, "threads_exceededLIMIT_EXCEEDED\n"},
		"spawns":   {roster.Most{}, 9, 9, "spawns_exceededLIMIT_EXCEEDED\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, path := t.TempDir(), filepath.Join(t.TempDir(), "registry")
			l := parents(t, path, root, c.most)
			var says []func() string
			for i := range 24 {
				say, end := racer{Path: path, Root: root, Child: fmt.Sprint("c", i), Parent: "top",
					Spawns: c.spawns}.start(t, 0)
				defer end()
				says = append(says, say)
			}
			said := map[string]int{}
			for _, say := range says {
				said[say()]++
			}
			if said["runs\n"] != c.runs || said[c.says] != 24-c.runs {
				t.Errorf("%v", said)
			}
			rows, err := l.Threads(t.Context(), roster.Filter{})
			must(t, err)
			running := -1 // the parent
			for _, row := range rows {
				if row.State == roster.Running && row.Alive {
					running++
				}
			}
			if top, err := roster.Get(t.Context(), l, "top"); err != nil || running != c.runs ||
				int(top.Spawned) > min(24, int(c.spawns)) || len(rows)-1 != int(top.Spawned) {
				t.Errorf("%d run, %d rows, %+v, %v", running, len(rows), top, err)
			}
		})
	}
}

// TestKilledWriting kills a process before each change that it makes to the roster: what it was told is done stays,
// the next process goes on, and its thread is taken over.
func TestKilledWriting(t *testing.T) {
	for n := 1; ; n++ {
		root, path := t.TempDir(), filepath.Join(t.TempDir(), "registry")
		l := parents(t, path, root, roster.Most{})
		say, end := racer{Path: path, Root: root, Child: "c", Parent: "top", Spawns: 3}.start(t, n)
		said := say()
		end()
		top, err := roster.Get(t.Context(), l, "top")
		must(t, err)
		row, err := roster.Get(t.Context(), l, "c")
		switch {
		case err != nil && (fault.CodeOf(err) != fault.NotFound || top.Spawned != 0):
			t.Errorf("before change %d: %v, %+v", n, err, top)
		case err == nil && (top.Spawned != 1 || row.Alive || said != "" && row.State != roster.Running):
			t.Errorf("before change %d: %+v, %+v", n, row, top)
		}
		if row == nil {
			row, err = child(root, "c", "top")
			must(t, err)
			must(t, l.Create(t.Context(), row, 3))
		}
		_, err = l.Claim(t.Context(), "c", row.Epoch,
			roster.Driver{Process: os.Getpid(), Start: proc.Start(os.Getpid())})
		must(t, err)
		if said == "runs\n" {
			if n < 4 {
				t.Errorf("only %d changes", n)
			}
			return
		}
	}
}
