package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rye-build/rye/cas/fault"
)

// TestAddress: an address with a password is refused, and the error doesn't repeat it.
func TestAddress(t *testing.T) {
	for address, ok := range map[string]bool{
		"postgres://rye@db.example.com:5432/registry":                     true,
		"postgresql://rye@/registry?host=/run/postgresql":                 true,
		"postgres://rye@db/registry?sslmode=verify-full&pool_max_conns=5": true,
		"postgres://rye:s3cret@db/registry":                               false,
		"postgres://rye:@db/registry":                                     false,
		"postgres://rye@db/registry?password=s3cret":                      false,
		"postgres://rye@db/registry?sslpassword=s3cret":                   false,
		"postgres://rye@db/registry?PassWord=s3cret":                      false,
		"host=db user=rye password=s3cret":                                false,
		"mysql://rye:s3cret@db/registry":                                  false,
		"postgres://rye:s3cret@db:port%/registry":                         false,
		"postgres://rye@db/registry?sslmode=s3cret":                       false,
		"": false,
	} {
		config, err := Options{Address: address}.config()
		if (err == nil) != ok || err != nil && fault.CodeOf(err) != fault.Config {
			t.Errorf("%s: %v", address, err)
		}
		if err != nil && address != "" && !strings.Contains(address, "sslmode=s3cret") &&
			strings.Contains(err.Error()+strings.Join(fault.Of(err).Why, " "), "s3cret") {
			t.Errorf("shown: %v", err)
		}
		if err == nil && (config.ConnConfig.ConnectTimeout == 0 || config.ConnConfig.ValidateConnect == nil) {
			t.Errorf("%s: no bound, or any server", address)
		}
	}
}

// TestPasswordFile: a password comes from a file that no other user may read.
func TestPasswordFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Address: "postgres://rye@db/registry", PasswordFile: path}
	config, err := o.config()
	if err != nil || config.ConnConfig.Password != "s3cret" {
		t.Fatalf("%v", err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := o.config(); err == nil || fault.CodeOf(err) != fault.Denied {
		t.Errorf("others may read it: %v", err)
	}
	o.PasswordFile = path + ".none"
	if _, err := o.config(); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestSecrets: the driver reads passwords from files that other users may read. Such a file is refused, with the
// command that closes it; a file that isn't used is not looked at.
func TestSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pgpass")
	if err := os.WriteFile(path, []byte("*:*:*:*:s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGPASSFILE", path)
	o := Options{Address: "postgres://rye@db/registry", Secrets: []string{path, path + ".none"}}
	config, err := o.config()
	if err != nil || config.ConnConfig.Password != "s3cret" {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"PGPASSFILE": o,
		"passfile":    {Address: "postgres://rye@db/registry?passfile=" + path},
		"servicefile": {Address: "postgres://rye@db/registry?servicefile=" + path}} {
		_, err := o.config()
		if fault.CodeOf(err) != fault.Denied || !slices.Contains(fault.Of(err).Hint, "chmod go= "+path) {
			t.Errorf("%s: others may read it: %v, %q", name, err, fault.Of(err).Hint)
		}
	}
	own := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(own, []byte("other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.PasswordFile = own
	if config, err := o.config(); err != nil || config.ConnConfig.Password != "other" {
		t.Error(err)
	}
}

// TestFailure: errors of the database have codes.
func TestFailure(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	own := fault.New(fault.Limit, "own")
	for _, c := range []struct {
		ctx  context.Context
		err  error
		code fault.Code
	}{
		{t.Context(), &pgconn.PgError{Code: "28P01"}, fault.AuthFailed},
		{t.Context(), &pgconn.PgError{Code: "3D000"}, fault.Config},
		{t.Context(), &pgconn.PgError{Code: "42501"}, fault.Denied},
		{t.Context(), &pgconn.PgError{Code: "40001"}, fault.Busy},
		{t.Context(), &pgconn.PgError{Code: "53300"}, fault.Unavailable},
		{t.Context(), &pgconn.PgError{Code: "57P01"}, fault.Unavailable},
		{t.Context(), &pgconn.PgError{Code: "42P01"}, fault.Unknown},
		{t.Context(), errors.New("broken pipe"), fault.Unavailable},
		{over, errors.New("broken pipe"), fault.Cancelled},
		{over, own, fault.Limit},
	} {
		if err := failure(c.ctx, c.err); err == nil || fault.CodeOf(err) != c.code {
			t.Errorf("%v: %v, want %s", c.err, err, c.code)
		}
	}
	if failure(over, nil) != nil {
		t.Error("an error of nothing")
	}
	for code, want := range map[string]bool{"40001": true, "40P01": true, "23505": false} {
		if met(failure(t.Context(), &pgconn.PgError{Code: code})) != want {
			t.Error(code)
		}
	}
	if met(nil) || answered(errors.New("broken pipe")) || answered(&pgconn.PgError{SeverityUnlocalized: "FATAL"}) ||
		!answered(&pgconn.PgError{SeverityUnlocalized: "ERROR"}) {
		t.Error("the server's answer to a commit, or none")
	}
}

// TestMigrations: the steps are numbered from 1 without a gap.
func TestMigrations(t *testing.T) {
	all, err := migrations()
	names, bad := files.ReadDir("migrations")
	if err != nil || bad != nil || len(all) != len(names) || len(all) == 0 {
		t.Fatal(len(all), len(names), err, bad)
	}
	for i, name := range names {
		if number, _, _ := strings.Cut(name.Name(), "_"); number != "000"+string(rune('1'+i)) {
			t.Errorf("%s is step %d", name.Name(), i+1)
		}
		if i > 0 && slices.Contains(all[:i], all[i]) {
			t.Errorf("%s stands twice", name.Name())
		}
	}
}
