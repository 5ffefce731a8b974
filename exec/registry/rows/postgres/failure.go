package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rye-build/rye/cas/fault"
)

// met reports whether a transaction met another one, and would succeed alone.
func met(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40001" || e.Code == "40P01")
}

// answered reports whether the server has refused a commit. An error that ends the connection is no answer: the
// server may have committed before it.
func answered(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.SeverityUnlocalized == "ERROR"
}

// codes are the codes of errors by those of PostgreSQL, or by their first two characters.
var codes = map[string]fault.Code{
	"40001": fault.Busy, "40P01": fault.Busy, "55P03": fault.Busy, "57014": fault.Timeout,
	"28": fault.AuthFailed, "3D": fault.Config, "42501": fault.Denied, "3F": fault.Config,
	"08": fault.Unavailable, "53": fault.Unavailable, "57": fault.Unavailable, "58": fault.Unavailable,
	"25006": fault.Unavailable, "25P03": fault.Unavailable,
}

// failure returns an error of the database as people and programs see it.
func failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, own := fault.Find(err); own {
		return err
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		code, known := codes[e.Code]
		if !known {
			code, known = codes[e.Code[:min(2, len(e.Code))]]
		}
		if !known {
			code = fault.Unknown
		}
		f := fault.New(code, "database: %s", e.Message).On("sqlstate", e.Code).From(err)
		switch code {
		case fault.AuthFailed, fault.Config, fault.Denied:
			f.Try("psql ADDRESS", "export PGPASSWORD")
		}
		return f
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fault.New(fault.Unavailable, "the database can't be reached: %v", err).From(err).Try("pg_isready")
}
