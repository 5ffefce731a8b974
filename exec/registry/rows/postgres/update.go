package postgres

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/rows"
)

var _ rows.Store = (*Store)(nil)

// View implements rows.Store.
func (s *Store) View(ctx context.Context, look func(rows.Reader) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*answerWait, errLong)
	defer cancel()
	conn, tx, err := s.begin(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer conn.Release()
	defer undo(tx)
	r := &reader{ctx: ctx, tx: tx}
	if err := rows.View(r, look); err != nil {
		return err
	}
	return r.failed
}

// begin begins a transaction. The connections in the pool may have broken while they were idle: then it takes the next
// one, at last a new one.
func (s *Store) begin(ctx context.Context, how pgx.TxOptions) (*pgxpool.Conn, pgx.Tx, error) {
	for left := s.pool.Config().MaxConns; ; left-- {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return nil, nil, failure(ctx, err)
		}
		tx, err := conn.BeginTx(ctx, how)
		if err == nil {
			return conn, tx, nil
		}
		broken := conn.Conn().IsClosed()
		conn.Release()
		if !broken || left == 0 || ctx.Err() != nil {
			return nil, nil, failure(ctx, err)
		}
	}
}

// errLong is the cause of a context that a view or update has outlived.
var errLong = fault.New(fault.Timeout, "the database did not answer in time")

// undo ends a transaction without its writes. It does nothing after a commit.
func undo(tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.Background(), connectWait)
	defer cancel()
	_ = tx.Rollback(ctx) // a connection that can't is closed, which undoes it too
}

// mostTries is how often an update is repeated that has met another one.
const mostTries = 10

// Update implements rows.Store.
func (s *Store) Update(ctx context.Context, change func(rows.Writer) error) error {
	for try := 0; ; try++ {
		err := s.try(ctx, change, try > 0)
		if !met(err) {
			return err
		}
		if try == mostTries {
			return fault.New(fault.Busy, "other updates of the same rows came first %d times", try+1).From(err)
		}
		select {
		case <-time.After(rand.N(time.Duration(try+1) * 10 * time.Millisecond)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// try makes an update once. alone waits for the updates that are about to commit, and lets no other commit.
func (s *Store) try(ctx context.Context, change func(rows.Writer) error, alone bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*answerWait, errLong)
	defer cancel()
	conn, tx, err := s.begin(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
	if err != nil {
		return err
	}
	defer conn.Release()
	defer undo(tx)
	if alone {
		// Before the first query, which fixes the state that the transaction sees. All who commit write this table.
		if _, err := tx.Exec(ctx, `LOCK TABLE rye_updates IN EXCLUSIVE MODE`); err != nil {
			return failure(ctx, err)
		}
	}
	r := &reader{ctx: ctx, tx: tx}
	writes, err := rows.Change(r, change)
	if r.failed != nil {
		return r.failed // change may have hidden it
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	m := conn.Conn().PgConn().CustomData()[markOf].(*mark)
	m.number++
	if err := write(ctx, tx, writes, *m); err != nil {
		return failure(ctx, err)
	}
	// From here on, the end of ctx is ignored: it would only make the outcome unknown.
	ctx, cancel = context.WithTimeoutCause(context.WithoutCancel(ctx), answerWait, errLong)
	defer cancel()
	if err = tx.Commit(ctx); err == nil || answered(err) {
		return failure(ctx, err)
	}
	conn.Release() // the pool may have no other place for a connection
	return s.settle(ctx, *m, err)
}

// write sends the writes, and the mark of the update.
func write(ctx context.Context, tx pgx.Tx, writes []rows.Row, m mark) error {
	var names, doomed []string
	var values [][]byte
	for _, row := range writes {
		if row.Value == nil {
			doomed = append(doomed, row.Name)
		} else {
			names, values = append(names, row.Name), append(values, row.Value)
		}
	}
	var batch pgx.Batch
	// First what conflicts with an update that is alone, so that none waits for the other's rows.
	batch.Queue(`INSERT INTO rye_updates (connection, number, at) VALUES ($1, $2, now())
		ON CONFLICT (connection) DO UPDATE SET number = EXCLUDED.number, at = EXCLUDED.at`, m.connection, m.number)
	batch.Queue(`SELECT pg_advisory_xact_lock($1)`, m.connection)
	if len(names) > 0 {
		batch.Queue(`INSERT INTO rye_rows (name, value) SELECT * FROM unnest($1::text[], $2::bytea[])
			ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value`, names, values)
	}
	if len(doomed) > 0 {
		batch.Queue(`DELETE FROM rye_rows WHERE name = ANY($1::text[])`, doomed)
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// settle finds out whether an update was made whose commit broke.
func (s *Store) settle(ctx context.Context, m mark, broke error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.wait)
	defer cancel()
	done, err := s.outcome(ctx, m)
	switch {
	case err != nil:
		return fault.New(fault.Unavailable, "the connection to the database broke during a commit: %v", broke).
			Because("it is unknown whether the update was made").On("outcome", "unknown").From(errors.Join(broke, err))
	case !done:
		return fault.New(fault.Unavailable, "the connection to the database broke during a commit: %v", broke).
			Because("the update was not made").On("outcome", "none").From(broke)
	}
	return nil
}

// outcome reports whether an update was made, when its transaction has ended. It asks until ctx ends: the server may
// have to start again.
func (s *Store) outcome(ctx context.Context, m mark) (done bool, err error) {
	for {
		if done, err = s.ask(ctx, m); err == nil {
			return done, nil
		}
		select {
		case <-time.After(min(time.Second, s.wait/4)):
		case <-ctx.Done():
			return false, err
		}
	}
}

func (s *Store) ask(ctx context.Context, m mark) (done bool, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, m.connection); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM rye_updates WHERE connection = $1 AND number >= $2)`,
			m.connection, m.number).Scan(&done)
	})
	return done, err
}

// A reader reads rows in a transaction.
type reader struct {
	ctx    context.Context
	tx     pgx.Tx
	failed error // of the first query that failed: then the transaction did
}

// fail remembers the first error.
func (r *reader) fail(err error) error {
	if r.failed == nil {
		r.failed = failure(r.ctx, err)
	}
	return r.failed
}

// Get implements rows.Reader.
func (r *reader) Get(name string) (value []byte, err error) {
	err = r.tx.QueryRow(r.ctx, `SELECT value FROM rye_rows WHERE name = $1`, name).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, r.fail(err)
	}
	return value, nil
}

// page is how many rows a scan reads at once. The caller may use the connection between two pages.
const page = 200

// Scan implements rows.Reader.
func (r *reader) Scan(prefix, after string) iter.Seq2[rows.Row, error] {
	return func(yield func(rows.Row, error) bool) {
		for {
			// Names are visible ASCII, so 0x7f comes after all with the prefix.
			found, _ := r.tx.Query(r.ctx, `SELECT name, value FROM rye_rows
				WHERE name >= $1 AND name > $2 AND name < $3 ORDER BY name LIMIT $4`, prefix, after, prefix+"\x7f", page)
			all, err := pgx.CollectRows(found, pgx.RowToStructByPos[rows.Row])
			if err != nil {
				yield(rows.Row{}, r.fail(err))
				return
			}
			for _, row := range all {
				if !yield(row, nil) {
					return
				}
			}
			if len(all) < page {
				return
			}
			after = all[page-1].Name
		}
	}
}
