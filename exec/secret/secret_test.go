package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 5, time.UTC)

// newStore is one without a keyring, in a directory that isn't there yet.
func newStore(t *testing.T) *Store {
	return &Store{Dir: filepath.Join(t.TempDir(), "state", "auth"), Now: func() time.Time {
		return noon
	}, Wait: 10 * time.Second}
}

func (s *Store) must(t *testing.T, name, value string) {
	t.Helper()
	if _, err := s.Set(t.Context(), Secret{Name: name, From: "stdin"}, value, false); err != nil {
		t.Fatal(err)
	}
}

// want is what Get has to say: a value, or the beginning of an error.
func (s *Store) want(t *testing.T, name, value, failure string) {
	t.Helper()
	got, err := s.Get(t.Context(), name)
	if failure == "" && err == nil && got == value {
		return
	}
	if err == nil || failure == "" || !strings.HasPrefix(err.Error(), failure) {
		t.Errorf("%s is %q, %v; want %q, %q", name, got, err, value, failure)
	}
}

func TestVariable(t *testing.T) {
	for name, want := range map[string]string{
		"acme-token": "ACME_TOKEN", "OPENAI_API_KEY": "OPENAI_API_KEY", "a.b-c_D1": "A_B_C_D1",
		"": "1 to 64 characters", strings.Repeat("a", 65): "1 to 64 characters", "a b": "letters, digits",
		"-a": "letters, digits", "é": "letters, digits",
		"2fa": "without a digit first", "path": "env_config sets it", "ld-preload": "other code",
		"rye.key": "reserved for rye", "HOME": "private directory",
	} {
		got, err := Variable(name)
		if err != nil && (fault.CodeOf(err) != fault.Validation || fault.Of(err).Details["secret"] != name ||
			got != "") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
		if text := got + fmt.Sprint(err); !strings.Contains(text, want) {
			t.Errorf("%q: %s; want %s", name, text, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for value, want := range map[string]string{
		"": "empty", "12345": "fewer than 6 bytes", strings.Repeat("x", MaxValue+1): "more than 65536 bytes",
		"s\xffcret": "UTF-8", "s\x00cret": "NUL", "123456": "", "a\nb\nc\nd": "", strings.Repeat("x", MaxValue): "",
	} {
		err := Check("n", value)
		if (err == nil) != (want == "") || err != nil &&
			(fault.CodeOf(err) != fault.Validation || !strings.Contains(err.Error(), want) || value != "" &&
				strings.Contains(err.Error(), value)) {
			t.Errorf("%.10q: %v; want %s", value, err, want)
		}
	}
}

// TestFile: what is set is there, for other processes and in the next one, encrypted, until it is removed.
func TestFile(t *testing.T) {
	s := newStore(t)
	s.want(t, "one", "", `the secret "one" is not set`)
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	s.must(t, "two", "second value")
	s.must(t, "one", "first value")
	e, err := s.Set(t.Context(), Secret{Name: "three", From: "file", Expires: noon.Add(time.Hour)}, "third value",
		true)
	if err != nil || e.Keyring || !e.Set.Equal(noon.Truncate(time.Second)) {
		t.Error(e, err)
	}
	again := *s
	again.want(t, "one", "first value", "")
	again.want(t, "three", "third value", "")
	s.must(t, "one", "another value")
	again.want(t, "one", "another value", "")
	list, err := s.List()
	if err != nil || len(list) != 3 || list[0].Name != "one" || list[1].Name != "three" ||
		list[2] != (Secret{Name: "two", Set: e.Set, From: "stdin"}) {
		t.Errorf("%+v, %v", list, err)
	}
	// An hour later the third is over.
	again.Now = func() time.Time { return noon.Add(time.Hour) }
	again.want(t, "three", "", `the secret "three" expired at 2026-11-22T13:00:00Z`)
	again.want(t, "two", "second value", "")
	files, err := os.ReadDir(s.Dir)
	if err != nil || len(files) != 3 {
		t.Error(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(s.Dir, f.Name()))
		if err != nil || bytes.Contains(b, []byte("value")) || bytes.Contains(b, []byte("two")) {
			t.Errorf("%s: %q, %v", f.Name(), b, err)
		}
	}
	if err := s.Remove(t.Context(), "two"); err != nil {
		t.Error(err)
	}
	if err := s.Remove(t.Context(), "two"); fault.CodeOf(err) != fault.AuthRequired ||
		fault.Of(err).Details["secret"] != "two" {
		t.Error(err)
	}
	s.want(t, "two", "", `the secret "two" is not set`)
	s.want(t, "no name", "", `invalid secret name "no name"`)
	for name, value := range map[string]string{"PATH": "a value", "one": "short"} {
		if _, err := s.Set(t.Context(), Secret{Name: name, From: "x"}, value, false); err == nil {
			t.Errorf("%s became %s", name, value)
		}
	}
	s.want(t, "one", "another value", "")
}

// TestEnvironment: a variable counts first, and has to be as good as what is kept.
func TestEnvironment(t *testing.T) {
	s := newStore(t)
	vars := map[string]string{"ACME_TOKEN": "from outside", "BAD": "short"}
	s.Env = func(name string) string { return vars[name] }
	s.want(t, "acme-token", "from outside", "")
	s.must(t, "acme-token", "kept value")
	s.must(t, "bad", "kept value")
	s.want(t, "acme-token", "from outside", "")
	s.want(t, "bad", "", `invalid value for the secret "bad": it has fewer than 6 bytes`)
	if _, err := s.Get(t.Context(), "bad"); fault.CodeOf(err) != fault.Config {
		t.Error(err)
	}
	vars = nil
	s.want(t, "acme-token", "kept value", "")
	if s.Given("no name") != "" {
		t.Error("something is given")
	}
}

// TestTogether: many processes at once lose no secret.
func TestTogether(t *testing.T) {
	s := newStore(t)
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			mine := *s
			if _, err := mine.Set(context.Background(), Secret{Name: fmt.Sprintf("name%d", i), From: "x"},
				fmt.Sprintf("value %d", i), false); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for i := range 12 {
		s.want(t, fmt.Sprintf("name%d", i), fmt.Sprintf("value %d", i), "")
	}
	// Waiting for another process is bounded.
	held, err := osfile.OpenLocked(t.Context(), filepath.Join(s.Dir, lockName), osfile.Exclusive, s.Wait)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	s.Wait = 20 * time.Millisecond
	if err := s.Remove(t.Context(), "name1"); fault.CodeOf(err) != fault.Busy {
		t.Error(err)
	}
	s.Wait = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Remove(ctx, "name1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestDamage: what can't be read is no empty store, and nothing is put in its place.
func TestDamage(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(s *Store) error
		want string
	}{
		"a bit":       {func(s *Store) error { return flip(filepath.Join(s.Dir, fileName)) }, "can't read"},
		"no key":      {func(s *Store) error { return os.Remove(filepath.Join(s.Dir, identityName)) }, "is missing"},
		"another key": {func(s *Store) error { return newKey(s) }, "can't read"},
		"no real key": {func(s *Store) error {
			return os.WriteFile(filepath.Join(s.Dir, identityName), []byte("AGE"), 0o600)
		}, "not an age identity"},
		"other bytes": {func(s *Store) error { return encrypted(s, "{}") }, "unsupported format"},
		"a newer rye": {func(s *Store) error {
			return encrypted(s, `{"format":"rye-secrets/2","secrets":[]}`)
		}, "expected rye-secrets/1"},
		"too large": {func(s *Store) error {
			return os.Truncate(filepath.Join(s.Dir, fileName), maxFile+1)
		}, "more than 16 MiB"},
		"no directory": {func(s *Store) error {
			return errors.Join(os.RemoveAll(s.Dir), os.WriteFile(s.Dir, nil, 0o600))
		}, ""},
	} {
		s := newStore(t)
		s.must(t, "name", "the value")
		if err := c.harm(s); err != nil {
			t.Fatal(err)
		}
		_, err := s.Get(t.Context(), "name")
		_, listed := s.List()
		_, set := s.Set(t.Context(), Secret{Name: "name", From: "x"}, "new value", false)
		for _, err := range []error{err, listed, set, s.Remove(t.Context(), "name")} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func flip(path string) error {
	b, err := os.ReadFile(path)
	if err == nil {
		b[len(b)-3] ^= 1
		err = os.WriteFile(path, b, 0o600)
	}
	return err
}

func newKey(s *Store) error {
	i, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.Dir, identityName), []byte(i.String()), 0o600)
}

// encrypted puts another text into the file.
func encrypted(s *Store, text string) error {
	i, err := s.identity()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, i.Recipient())
	if err != nil {
		return err
	}
	w.Write([]byte(text))
	return errors.Join(w.Close(), os.WriteFile(filepath.Join(s.Dir, fileName), out.Bytes(), 0o600))
}

// TestSwept: what a process that died has left goes with the next change.
func TestSwept(t *testing.T) {
	s := newStore(t)
	s.must(t, "name", "the value")
	left := filepath.Join(s.Dir, osfile.Unfinished+"x")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.must(t, "name", "the value")
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestMany: there is a number that there are at most.
func TestMany(t *testing.T) {
	s := newStore(t)
	s.must(t, "zz", "the value")
	d, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	first := d.Secrets[0]
	d.Secrets = nil
	for i := range MaxSecrets {
		e := first
		e.Name = fmt.Sprintf("n%04d", i)
		d.Secrets = append(d.Secrets, e)
	}
	if err := s.write(d); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Set(t.Context(), Secret{Name: "one-more", From: "x"}, "the value",
		false); fault.CodeOf(err) != fault.Validation {
		t.Error(err)
	}
	s.must(t, "n0007", "new value")
}

// A document is read if it is what is written, and nothing else is.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"format":"rye-secrets/1","secrets":[]}`))
	f.Add([]byte(
		`{"format":"rye-secrets/1","secrets":[{"expires":"2027-01-31T00:00:00Z","from":"terminal","keyring":true,"name":"acme-token","set":"2026-11-22T12:00:00Z"},` +
			`{"from":"file","name":"other","set":"2026-11-22T12:00:00Z","value":"s3cr3t"}]}`))
	for _, bad := range []string{`{"from":"","name":"a","set":"2026-11-22T12:00:00Z","value":"s3cr3t"}`,
		`{"from":"x","name":"PATH","set":"2026-11-22T12:00:00Z","value":"s3cr3t"}`,
		`{"from":"x","name":"a","set":"","value":"s3cr3t"}`,
		`{"from":"x","name":"a","set":"2026-11-22T12:00:00Z","value":"s"}`,
		`{"expires":"x","from":"x","name":"a","set":"2026-11-22T12:00:00Z","value":"s3cr3t"}`,
		`{"from":"x","name":"a","set":"2026-11-22T12:00:00Z","value":"s3cr3t","x":1}`,
		`{"from":"x","name":"b","set":"2026-11-22T12:00:00Z","value":"s3cr3t"},{"from":"x","name":"a","set":"2026-11-22T12:00:00Z","value":"s3cr3t"}`} {
		f.Add([]byte(`{"format":"rye-secrets/1","secrets":[` + bad + `]}`))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := parse(b)
		if err != nil {
			return
		}
		again, err := d.append()
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s is written as %s, %v", b, again, err)
		}
	})
}
