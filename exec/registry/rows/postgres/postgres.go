// Package postgres keeps rows (package rows) in PostgreSQL, version 15 or newer, for several processes.
//
// The rows are in the table rye_rows: name (text in the collation "C", so that names sort by their bytes) and value
// (bytea). Open creates the tables, or brings them to the schema of this program: migrations/NUMBER_NAME.sql in order,
// each once. The table rye_schema has the number of the last one. A database with a higher number is VERSION_MISMATCH.
//
// # Transactions
//
// An update is a SERIALIZABLE transaction. If it meets another one, PostgreSQL refuses one of the two. That one is
// repeated, up to 10 times, with a lock for which all commits wait, so that it doesn't lose again. A view is a READ
// ONLY transaction with one snapshot: it sees whole updates only.
//
// # A connection that breaks
//
// If the connection breaks before the commit was sent, the server undoes the update. If it breaks during the commit,
// the outcome is unknown at first. Therefore each connection has a random number and counts its updates in its row of
// the table rye_updates, in the same transaction. Another connection waits until the server has ended that
// transaction, by an advisory lock that it held, and reads that row: the update is done or not. If no server answers
// in time, Update returns UNAVAILABLE with the detail "outcome": "unknown". It never repeats an update on its own.
//
// # Addresses
//
// An address is postgres://USER@HOST:PORT/DATABASE, with the options of libpq as a query. It has no password. That
// comes from a file, from PGPASSWORD, or from the file that PGPASSFILE names, which only its owner may read. The
// connection is always to a server that accepts writes, waits at most 30 seconds for an answer or a lock, and commits
// with synchronous_commit = on or more.
package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// Options say where the rows are.
type Options struct {
	Address      string // a URL without a password
	PasswordFile string // only its owner may read it; optional

	// Secrets are files in which the driver looks for a password, such as ~/.pgpass. Open refuses those that other
	// users may read; the driver takes them.
	Secrets []string
}

// A Store keeps rows in PostgreSQL.
type Store struct {
	pool *pgxpool.Pool
	wait time.Duration // how long an update asks for its outcome after its connection broke
}

// The bounds of waits: for a connection, and for an answer or a lock.
const (
	connectWait = 10 * time.Second
	answerWait  = 30 * time.Second
)

// Open connects to a database and brings its tables to this program's schema. The caller closes the store.
func Open(ctx context.Context, o Options) (*Store, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, failure(ctx, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*answerWait)
	defer cancel()
	if err := migrate(ctx, pool); err != nil {
		pool.Close()
		return nil, failure(ctx, err)
	}
	return &Store{pool, answerWait}, nil
}

// Close implements rows.Store.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

// config returns the configuration of connections.
func (o Options) config() (*pgxpool.Config, error) {
	if err := checkAddress(o.Address); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(o.Address)
	if err != nil {
		return nil, fault.New(fault.Config, "invalid address of a database: %v", err).From(err).
			Try("ryed registry serve --help")
	}
	conn := config.ConnConfig
	if o.PasswordFile != "" {
		if conn.Password, err = readPassword(o.PasswordFile); err != nil {
			return nil, err
		}
	}
	if o.PasswordFile == "" {
		if err := o.checkSecrets(); err != nil {
			return nil, err
		}
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectWait
	}
	conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	for name, value := range map[string]string{
		"application_name": "ryed", "statement_timeout": "30s", "lock_timeout": "30s",
		"idle_in_transaction_session_timeout": "60s",
	} {
		if _, set := conn.RuntimeParams[name]; !set {
			conn.RuntimeParams[name] = value
		}
	}
	config.AfterConnect = prepare
	return config, nil
}

// checkAddress refuses what isn't a URL of PostgreSQL, and one with a password: addresses are shown, logged, and seen
// by other users of the machine.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		// The error of net/url repeats the address.
		return fault.New(fault.Config, "invalid address of a database: not a URL").Try("ryed registry serve --help")
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return fault.New(fault.Config, "invalid address of a database: expected postgres://USER@HOST:PORT/DATABASE").
			On("scheme", u.Scheme).Try("ryed registry serve --help")
	}
	_, has := u.User.Password()
	for name := range u.Query() {
		has = has || strings.Contains(strings.ToLower(name), "password")
	}
	if has {
		return fault.New(fault.Config, "the address of the database contains a password").
			Because("command lines and logs show addresses; the password comes from the environment or a file").
			Try("export PGPASSWORD", "export PGPASSFILE=~/.pgpass")
	}
	return nil
}

// checkSecrets refuses files with passwords that other users may read. A missing one has none.
func (o Options) checkSecrets() error {
	secrets := o.Secrets
	if u, err := url.Parse(o.Address); err == nil {
		for _, name := range []string{"passfile", "servicefile"} {
			if path := u.Query().Get(name); path != "" {
				secrets = append(secrets[:len(secrets):len(secrets)], path)
			}
		}
	}
	for _, path := range secrets {
		f, err := osfile.OpenPrivate(path, true)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// readPassword reads a password from a private file.
func readPassword(path string) (string, error) {
	f, err := osfile.OpenPrivate(path, true)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	return strings.TrimRight(string(b), "\r\n"), err
}

// A mark is what distinguishes the updates of a connection.
type mark struct {
	connection int64 // random
	number     int64 // of the last update that was begun
}

// markOf is the key of a connection's mark among its data.
const markOf = "rye"

// leastVersion is the oldest version of PostgreSQL, as the server writes it.
const leastVersion = 150000

// prepare prepares a new connection.
func prepare(ctx context.Context, conn *pgx.Conn) error {
	var version int
	if err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		return err
	}
	if version < leastVersion {
		return fault.New(fault.VersionMismatch, "the database server is PostgreSQL %d, expected %d or newer",
			version/10000, leastVersion/10000).On("version", version)
	}
	// A commit that was acknowledged survives a crash of the server, whatever the default of the database is.
	if _, err := conn.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false)
		WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')`); err != nil {
		return err
	}
	var b [8]byte
	rand.Read(b[:])
	conn.PgConn().CustomData()[markOf] = &mark{connection: int64(binary.BigEndian.Uint64(b[:]))}
	return nil
}
