//go:build peers

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/exec/registry/rows/rowstest"
	"github.com/rye-build/rye/testdata/peerstart"
)

var must, refused = journaltest.Must, journaltest.Refused

// server is the directory of the running server's socket.
var server string

func TestMain(m *testing.M) {
	address, stop, err := peerstart.Start(context.Background(), "postgres")
	check(err)
	_, server, _ = strings.Cut(address, "?host=")
	status := m.Run()
	stop()
	os.Exit(status)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func address(database string) string {
	return "postgres://rye@/" + database + "?host=" + server
}

var databases atomic.Int32

// database makes an empty database and returns its address.
func database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprint("d", databases.Add(1))
	query(t, address("postgres"), "CREATE DATABASE "+name)
	return address(name)
}

// query runs a statement and returns the first column of what it returns.
func query(t testing.TB, address, text string, args ...any) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	must(t, err)
	defer conn.Close(context.Background())
	found, err := conn.Query(t.Context(), text, args...)
	must(t, err)
	all, err := pgx.CollectRows(found, pgx.RowTo[string])
	must(t, err)
	return all
}

func open(t testing.TB, address string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Address: address})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestPostgres(t *testing.T) {
	rowstest.Test(t, func(t testing.TB) rowstest.Open {
		at := database(t)
		return func(t testing.TB) rows.Store { return open(t, at) }
	})
}

// TestMigrated: processes that start at once make the tables once; later ones find them; a newer schema is refused.
func TestMigrated(t *testing.T) {
	at := database(t)
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			s, err := Open(t.Context(), Options{Address: at})
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	group.Wait()
	rowstest.Put(t, open(t, at), "a", `{}`)
	if got := rowstest.All(t, open(t, at)); got != "a={}" {
		t.Error(got)
	}
	if got := query(t, at, "SELECT number::text FROM rye_schema"); len(got) != 1 || got[0] != "1" {
		t.Error(got)
	}
	query(t, at, "UPDATE rye_schema SET number = 1000")
	_, err := Open(t.Context(), Options{Address: at})
	refused(t, fault.VersionMismatch, err)
}

// TestStep: a database with an older schema is brought forward, and what a failed step did is undone.
func TestStep(t *testing.T) {
	at := database(t)
	rowstest.Put(t, open(t, at), "a", `{}`)
	query(t, at, "UPDATE rye_schema SET number = 0") // the first step fails: its tables exist
	if _, err := Open(t.Context(), Options{Address: at}); err == nil {
		t.Error("a step that fails is ignored")
	}
	query(t, at, "ALTER TABLE rye_rows RENAME TO old")
	query(t, at, "DROP TABLE rye_updates")
	query(t, at, "ALTER INDEX rye_rows_pkey RENAME TO old_pkey")
	if got := rowstest.All(t, open(t, at)); got != "" {
		t.Error(got)
	}
}

// TestSettings: whatever the server's defaults are, a commit that was acknowledged survives a crash, and nothing waits
// without an end.
func TestSettings(t *testing.T) {
	at := database(t)
	s := open(t, at)
	for name, want := range map[string]string{"synchronous_commit": "on", "lock_timeout": "30s",
		"statement_timeout": "30s", "idle_in_transaction_session_timeout": "1min", "application_name": "ryed"} {
		var got string
		must(t, s.pool.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got))
		if got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	stronger := open(t, at+"&synchronous_commit=remote_apply")
	var got string
	must(t, stronger.pool.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got))
	if got != "remote_apply" {
		t.Errorf("made weaker: %s", got)
	}
}

// TestReadOnly: a server that accepts no writes is not used, whatever the address says.
func TestReadOnly(t *testing.T) {
	at := database(t)
	_, err := Open(t.Context(), Options{Address: at + "&default_transaction_read_only=on&target_session_attrs=any"})
	refused(t, fault.Unavailable, err)
}

// TestRefusedConnection: what is wrong with an address is said with a code, and without the password.
func TestRefusedConnection(t *testing.T) {
	for at, code := range map[string]fault.Code{
		address("none"): fault.Config,
		"postgres://unknown_role@/x?host=" + server: fault.AuthFailed,
		"postgres://rye@/x?host=" + t.TempDir():     fault.Unavailable,
	} {
		_, err := Open(t.Context(), Options{Address: at})
		refused(t, code, err)
	}
}

// TestSkew: two updates that have both read before either writes have the result of one order, always.
func TestSkew(t *testing.T) {
	at := database(t)
	stores := []*Store{open(t, at), open(t, at)}
	rowstest.Put(t, stores[0], "a", `{"n":1}`, "b", `{"n":1}`)
	var both, group sync.WaitGroup
	both.Add(2)
	var calls [2]atomic.Int32
	for i, s := range stores {
		group.Go(func() {
			err := s.Update(t.Context(), func(w rows.Writer) error {
				a, err := w.Get("a")
				b, bad := w.Get("b")
				if calls[i].Add(1) == 1 {
					both.Done()
					both.Wait()
				}
				if string(a) == `{"n":1}` && string(b) == `{"n":1}` {
					w.Put([]string{"a", "b"}[i], []byte(`{"n":0}`))
				}
				return errors.Join(err, bad)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := rowstest.All(t, stores[0]); strings.Count(got, "1") != 1 {
		t.Error(got)
	}
	if calls[0].Load()+calls[1].Load() != 3 {
		t.Errorf("%d and %d calls: one is repeated", calls[0].Load(), calls[1].Load())
	}
}

// TestBusy: an update that another one beats each time ends, and says so. It leaves nothing.
func TestBusy(t *testing.T) {
	at := database(t)
	s := open(t, at)
	rowstest.Put(t, s, "a", `{"n":0}`)
	calls := 0
	err := s.Update(t.Context(), func(w rows.Writer) error {
		calls++
		if _, err := w.Get("a"); err != nil {
			return err
		}
		// Another program, which knows nothing of the lock that lets an update be alone.
		query(t, at, "UPDATE rye_rows SET value = $1 WHERE name = 'a'", fmt.Appendf(nil, `{"n":%d}`, calls))
		w.Put("a", []byte(`{"n":100}`))
		w.Put("b", []byte(`{}`))
		return nil
	})
	refused(t, fault.Busy, err)
	if got := rowstest.All(t, s); calls != mostTries+1 || got != fmt.Sprintf(`a={"n":%d}`, calls) {
		t.Errorf("%d calls, %s", calls, got)
	}
}

// TestAlone: an update that is repeated is not beaten again: others of ours wait until it is done.
func TestAlone(t *testing.T) {
	at := database(t)
	s, other := open(t, at), open(t, at)
	add := func(w rows.Writer) error {
		value, err := w.Get("n")
		n := 0
		fmt.Sscanf(string(value), `{"n":%d}`, &n)
		w.Put("n", fmt.Appendf(nil, `{"n":%d}`, n+1))
		return err
	}
	calls := 0
	ended := make(chan error, 1)
	must(t, s.Update(t.Context(), func(w rows.Writer) error {
		if calls++; calls == 1 {
			err := add(w)
			must(t, other.Update(t.Context(), add))
			return err
		}
		go func() { ended <- other.Update(t.Context(), add) }()
		for len(query(t, at, "SELECT pid::text FROM pg_locks WHERE locktype = 'relation' AND NOT granted")) == 0 {
			select {
			case err := <-ended:
				return fmt.Errorf("the other one has not waited: %v", err)
			default:
			}
		}
		return add(w)
	}))
	must(t, <-ended)
	if got := rowstest.All(t, s); got != `n={"n":3}` || calls != 2 {
		t.Errorf("%s after %d calls", got, calls)
	}
}

// TestHiddenConflict: a read that fails because the update has met others repeats it, whatever change makes of that.
func TestHiddenConflict(t *testing.T) {
	at := database(t)
	s := open(t, at)
	rowstest.Put(t, s, "first", `{}`, "x", `{}`, "y", `{}`)
	own := errors.New("own")
	calls := 0
	must(t, s.Update(t.Context(), func(w rows.Writer) error {
		calls++
		if _, err := w.Get("first"); err != nil || calls > 1 {
			return err
		}
		// Of two others, the one that writes x has read what the other one replaced before it ended.
		conn, err := pgx.Connect(t.Context(), at)
		must(t, err)
		defer conn.Close(context.Background())
		tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.Serializable})
		must(t, err)
		_, err = tx.Exec(t.Context(), "SELECT value FROM rye_rows WHERE name = 'y'")
		must(t, err)
		query(t, at+"&default_transaction_isolation=serializable",
			"UPDATE rye_rows SET value = '{\"n\":1}' WHERE name = 'y'")
		_, err = tx.Exec(t.Context(), "UPDATE rye_rows SET value = '{\"n\":1}' WHERE name = 'x'")
		must(t, err)
		must(t, tx.Commit(t.Context()))
		if _, err := w.Get("x"); err == nil {
			t.Error("the read doesn't fail")
		}
		return own
	}))
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}

// TestRestarted: connections that broke while they were idle are no error: others take their places.
func TestRestarted(t *testing.T) {
	at := database(t)
	s := open(t, at)
	for range 3 {
		rowstest.Put(t, s, "a", `{}`)
		query(t, at, "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE application_name = 'ryed'")
		if got := rowstest.All(t, s); got != "a={}" {
			t.Error(got)
		}
		query(t, at, "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE application_name = 'ryed'")
	}
}

// TestHidden: a change that hides a failed read is repeated all the same, or ends with that error.
func TestHidden(t *testing.T) {
	at := database(t)
	s := open(t, at)
	err := s.Update(t.Context(), func(w rows.Writer) error {
		w.Put("a", []byte(`{}`))
		query(t, at, "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE application_name = 'ryed'")
		w.Get("a1")
		for range w.Scan("", "") {
		}
		return nil
	})
	refused(t, fault.Unavailable, err)
	if err := s.View(t.Context(), func(r rows.Reader) error {
		query(t, at, "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE application_name = 'ryed'")
		r.Get("a1")
		return nil
	}); fault.CodeOf(err) != fault.Unavailable {
		t.Error(err)
	}
	if got := rowstest.All(t, s); got != "" {
		t.Error(got)
	}
}

// TestBounded: an update that waits for a lock of another program ends.
func TestBounded(t *testing.T) {
	at := database(t)
	s := open(t, at+"&lock_timeout=50ms")
	rowstest.Put(t, s, "a", `{}`)
	conn, err := pgx.Connect(t.Context(), at)
	must(t, err)
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM rye_rows FOR UPDATE")
	must(t, err)
	refused(t, fault.Busy, s.Update(t.Context(), func(w rows.Writer) error {
		w.Put("a", []byte(`{"n":1}`))
		return nil
	}))
	must(t, tx.Rollback(t.Context()))
	if _, ok := errors.AsType[*pgconn.PgError](failure(t.Context(), &pgconn.PgError{Code: "55P03"})); !ok {
		t.Error("the cause is lost")
	}
}
