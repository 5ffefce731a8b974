package secret

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/rye-build/rye/cas/fault"
)

// TestKeyring goes through the library's own keyring in memory. The real one is another test's.
func TestKeyring(t *testing.T) {
	keyring.MockInit()
	s := newStore(t)
	s.Keyring = System{}
	s.must(t, "name", "the value")
	if v, err := keyring.Get("rye", "name"); v != "the value" || err != nil {
		t.Error(v, err)
	}
	s.want(t, "name", "the value", "")
	d, err := s.read()
	if err != nil || !d.Secrets[0].Keyring || d.Secrets[0].Value != "" {
		t.Errorf("%+v, %v", d, err)
	}
	// A value that is gone from the keyring isn't set; without a keyring that can't be known.
	if err := keyring.Delete("rye", "name"); err != nil {
		t.Fatal(err)
	}
	s.want(t, "name", "", `the secret "name" is not set`)
	s.Keyring = nil
	s.want(t, "name", "", `the keyring failed for the secret "name": no keyring available`)
	s.Keyring = System{}
	if err := s.Remove(t.Context(), "name"); err != nil {
		t.Error(err)
	}
	// From the keyring to the file: nothing stays there.
	s.must(t, "name", "the value")
	if e, err := s.Set(t.Context(), Secret{Name: "name", From: "x"}, "in the file", true); e.Keyring || err != nil {
		t.Error(e, err)
	}
	if v, err := keyring.Get("rye", "name"); !errors.Is(err, keyring.ErrNotFound) {
		t.Error(v, err)
	}
	s.want(t, "name", "in the file", "")
	s.must(t, "name", "and back")
	if err := s.Remove(t.Context(), "name"); err != nil {
		t.Error(err)
	}
	if v, err := keyring.Get("rye", "name"); !errors.Is(err, keyring.ErrNotFound) {
		t.Error(v, err)
	}
	if _, err := keyring.Get("rye", "never"); inWords(err) != ErrNotFound {
		t.Error(err)
	}
}

// TestNoKeyring: without one, or with one that can't take it, there is the file; one that says no is an error.
func TestNoKeyring(t *testing.T) {
	s := newStore(t)
	s.Keyring = System{}
	for _, err := range []error{keyring.ErrUnsupportedPlatform, fmt.Errorf("x: %w", keyring.ErrSetDataTooBig)} {
		keyring.MockInitWithError(err)
		s.must(t, "name", "the value")
		s.want(t, "name", "the value", "")
	}
	keyring.MockInitWithError(errors.New("dismissed"))
	if _, err := s.Set(t.Context(), Secret{Name: "name", From: "x"}, "new value",
		false); fault.CodeOf(err) != fault.Unavailable || fault.Of(err).Details["secret"] != "name" ||
		fault.Of(err).Hint[0] != "rye auth set name --file" || !strings.Contains(err.Error(), "dismissed") {
		t.Error(err)
	}
	s.want(t, "name", "the value", "")
	keyring.MockInit()
	s.must(t, "kept", "the value")
	keyring.MockInitWithError(errors.New("dismissed"))
	s.want(t, "kept", "", "the keyring failed for the secret")
	if err := s.Remove(t.Context(), "kept"); fault.CodeOf(err) != fault.Unavailable {
		t.Error(err)
	}
	if _, err := s.Set(t.Context(), Secret{Name: "kept", From: "x"}, "new value",
		true); fault.CodeOf(err) != fault.Unavailable {
		t.Error(err)
	}
}

// A sleeper is a keyring that waits to be unlocked.
type sleeper struct{ System }

func (sleeper) Get(string) (string, error) { select {} }

// TestAsleep: waiting for a keyring is bounded.
func TestAsleep(t *testing.T) {
	keyring.MockInit()
	s := newStore(t)
	s.Keyring = sleeper{}
	s.must(t, "name", "the value")
	s.Wait = 10 * time.Millisecond
	s.want(t, "name", "", `the keyring failed for the secret "name": no answer within 10ms`)
}
