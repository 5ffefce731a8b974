package postgres

import (
	"context"
	"embed"
	"io/fs"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rye-build/rye/cas/fault"
)

//go:embed migrations/*.sql
var files embed.FS

// migrations returns the steps to the current schema: the first makes schema 1 of an empty database.
func migrations() ([]string, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	slices.Sort(names)
	var all []string
	for _, name := range names {
		text, bad := files.ReadFile(name)
		if bad != nil {
			err = bad
		}
		all = append(all, string(text))
	}
	return all, err
}

// turn is the advisory lock of the one process that migrates: "rye" and the number of the use.
const turn = 0x727965_01

// migrate brings the tables to the current schema. Processes that start at once take turns.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	steps, err := migrations()
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, turn); err != nil {
			return err
		}
		// Not "IF NOT EXISTS" at once: a user without the right to create tables may use existing ones.
		var exists bool
		var have int
		if err := tx.QueryRow(ctx, `SELECT to_regclass('rye_schema') IS NOT NULL`).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			if _, err := tx.Exec(ctx, `CREATE TABLE rye_schema (number integer NOT NULL);
				INSERT INTO rye_schema VALUES (0)`); err != nil {
				return err
			}
		} else if err := tx.QueryRow(ctx, `SELECT number FROM rye_schema`).Scan(&have); err != nil {
			return err
		}
		if have > len(steps) {
			return fault.New(fault.VersionMismatch, "the database has schema %d, this program knows up to %d", have,
				len(steps)).On("schema", have).Try("ryed version")
		}
		for _, step := range steps[have:] {
			if _, err := tx.Exec(ctx, step); err != nil {
				return err
			}
		}
		if have < len(steps) {
			if _, err := tx.Exec(ctx, `UPDATE rye_schema SET number = $1`, len(steps)); err != nil {
				return err
			}
		}
		// Connections that ended long ago: their processes don't ask any more.
		_, err := tx.Exec(ctx, `DELETE FROM rye_updates WHERE at < now() - interval '7 days'`)
		return err
	})
}
