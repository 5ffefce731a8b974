//go:build peers

package postgres

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/exec/registry/rows/rowstest"
)

// A wire is a connection to the server through a relay that can be cut.
type wire struct {
	net.Listener
	mu    sync.Mutex
	rule  func(message []byte, toServer bool) (deliver, goesOn bool) // one message at a time, of all connections
	links []net.Conn
}

// relay starts a relay and returns it with the address of a database behind it.
func relay(t testing.TB, at string) (*wire, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &wire{Listener: l}
	t.Cleanup(func() { l.Close(); w.cut() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("unix", filepath.Join(server, ".s.PGSQL.5432"))
			if err != nil {
				client.Close()
				continue
			}
			w.mu.Lock()
			w.links = append(w.links, client, back)
			w.mu.Unlock()
			go w.copy(back, client, true)
			go w.copy(client, back, false)
		}
	}()
	config, err := pgx.ParseConfig(at)
	must(t, err)
	return w, fmt.Sprintf("postgres://rye@127.0.0.1:%d/%s?sslmode=disable", l.Addr().(*net.TCPAddr).Port,
		config.Database)
}

func (w *wire) copy(to, from net.Conn, toServer bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			to.Close()
			return
		}
		deliver, goesOn := true, true
		w.mu.Lock()
		if w.rule != nil {
			deliver, goesOn = w.rule(b[:n], toServer)
		}
		w.mu.Unlock()
		if deliver {
			if _, err := to.Write(b[:n]); err != nil {
				from.Close()
				return
			}
		}
		if !goesOn {
			to.Close()
			from.Close()
			return
		}
	}
}

func (w *wire) follow(rule func(message []byte, toServer bool) (deliver, goesOn bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rule = rule
}

// cut breaks all connections.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.links {
		c.Close()
	}
	w.links = nil
}

// TestBroken: a connection that breaks during a commit. Whether the server has made it or not, Update finds out, calls
// change once, and the rows are as it says.
func TestBroken(t *testing.T) {
	for name, c := range map[string]struct {
		arrives bool // the commit reaches the server, and its answer is lost
		made    bool
	}{"before the server": {false, false}, "behind the server": {true, true}} {
		at := database(t)
		direct := open(t, at)
		w, through := relay(t, at)
		s := open(t, through)
		rowstest.Put(t, s, "a", `{"n":1}`)
		broken, committing := false, false
		w.follow(func(message []byte, toServer bool) (bool, bool) {
			isCommit := toServer && strings.Contains(string(message), "commit")
			switch {
			case isCommit && !broken && !c.arrives:
				broken = true
				return false, false
			case isCommit && !broken:
				committing = true
			case committing && !toServer:
				broken, committing = true, false
				return false, false
			}
			return true, true
		})
		calls := 0
		err := s.Update(t.Context(), func(w rows.Writer) error {
			calls++
			w.Put("a", []byte(`{"n":2}`))
			return nil
		})
		w.follow(nil)
		want := `a={"n":1}`
		if c.made {
			want = `a={"n":2}`
			must(t, err)
		} else {
			refused(t, fault.Unavailable, err)
			if fault.Of(err).Details["outcome"] != "none" {
				t.Errorf("%s: %+v", name, fault.Of(err).Details)
			}
		}
		if got := rowstest.All(t, direct); got != want || calls != 1 || !broken {
			t.Errorf("%s: %s after %d calls, %v", name, got, calls, broken)
		}
		rowstest.Put(t, s, "b", `{}`) // and the store goes on
	}
}

// TestUnknown: if nothing can be asked after the connection has broken, the outcome is said to be unknown, and
// the change is not repeated.
func TestUnknown(t *testing.T) {
	at := database(t)
	direct := open(t, at)
	w, through := relay(t, at)
	s := open(t, through)
	s.wait = 100 * time.Millisecond
	rowstest.Put(t, s, "a", `{"n":1}`)
	gone := false
	w.follow(func(message []byte, toServer bool) (bool, bool) {
		if toServer && strings.Contains(string(message), "commit") {
			gone = true
			return true, false
		}
		return !gone, !gone
	})
	calls := 0
	err := s.Update(t.Context(), func(w rows.Writer) error {
		calls++
		w.Put("a", []byte(`{"n":2}`))
		return nil
	})
	refused(t, fault.Unavailable, err)
	if fault.Of(err).Details["outcome"] != "unknown" || calls != 1 {
		t.Errorf("%d calls: %+v", calls, fault.Of(err))
	}
	w.follow(nil)
	rowstest.Put(t, direct, "b", `{}`)
}

// TestWaits: an outcome is not read before the server has ended the transaction, however long that takes.
func TestWaits(t *testing.T) {
	at := database(t)
	s := open(t, at)
	conn, err := pgx.Connect(t.Context(), at)
	must(t, err)
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	must(t, err)
	m := mark{connection: 7, number: 3}
	must(t, write(t.Context(), tx, nil, m))
	answer := make(chan bool)
	go func() {
		done, err := s.outcome(t.Context(), m)
		if err != nil {
			t.Error(err)
		}
		answer <- done
	}()
	for len(query(t, at, "SELECT pid::text FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")) == 0 {
		select {
		case done := <-answer:
			t.Fatalf("answered %v before the end", done)
		case <-t.Context().Done():
		default:
		}
	}
	must(t, tx.Commit(t.Context()))
	if !<-answer {
		t.Error("an update that was made is denied")
	}
	for _, other := range []mark{{7, 4}, {8, 1}} {
		if done, err := s.outcome(t.Context(), other); done || err != nil {
			t.Errorf("%+v: %v, %v", other, done, err)
		}
	}
}

// TestKilled: the backend of a connection is killed again and again while goroutines count. No increment is lost, and
// none is made that was reported as not made.
func TestKilled(t *testing.T) {
	at := database(t)
	s := open(t, at)
	var made, perhaps atomic.Int32
	var group sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		group.Go(func() {
			for range 25 {
				err := s.Update(t.Context(), func(w rows.Writer) error {
					value, err := w.Get("n")
					n := 0
					fmt.Sscanf(string(value), `{"n":%d}`, &n)
					w.Put("n", fmt.Appendf(nil, `{"n":%d}`, n+1))
					return err
				})
				switch {
				case err == nil:
					made.Add(1)
				case fault.CodeOf(err) != fault.Unavailable:
					t.Error(err)
				case fault.Of(err).Details["outcome"] == "unknown":
					perhaps.Add(1)
				}
			}
		})
	}
	go func() {
		group.Wait()
		close(stop)
	}()
	kills := 0
	for running := true; running; kills++ {
		select {
		case <-stop:
			running = false
		default:
			query(t, at, `SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity
				WHERE application_name = 'ryed' AND datname = current_database() ORDER BY random() LIMIT 1`)
		}
	}
	got := strings.TrimSuffix(strings.TrimPrefix(rowstest.All(t, open(t, at)), `n={"n":`), "}")
	n, err := strconv.Atoi(got)
	must(t, err)
	if int32(n) < made.Load() || int32(n) > made.Load()+perhaps.Load() || kills < 2 || made.Load() == 0 {
		t.Errorf("%d in the row, %d made, %d perhaps, %d kills", n, made.Load(), perhaps.Load(), kills)
	}
}
