package secret

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rye-build/rye/exec/audit/redact"
	"github.com/rye-build/rye/exec/env"
)

const (
	// MinValue and MaxValue bound how many bytes a value has.
	MinValue = redact.Shortest
	MaxValue = 64 << 10
	// MaxSecrets is how many one user has.
	MaxSecrets = 1000

	maxName = 64
)

// A Secret is what is known of one, without its value.
type Secret struct {
	Name    string
	Set     time.Time
	Expires time.Time // zero: it doesn't
	From    string    // where the value was read from, in a word
	Keyring bool      // the value is in the keyring, else in the file
}

// Expired reports whether it is past its end.
func (s *Secret) Expired(now time.Time) bool { return !s.Expires.IsZero() && !now.Before(s.Expires) }

// A NameError says why there is no secret of a name.
type NameError struct{ Name, Reason string }

func (e *NameError) Error() string { return fmt.Sprintf("%q can't be a secret: %s", e.Name, e.Reason) }

// A ValueError says why something isn't the value of a secret.
type ValueError struct{ Name, Reason string }

func (e *ValueError) Error() string {
	return fmt.Sprintf("that is no value for the secret %q: %s", e.Name, e.Reason)
}

// A NotSetError says that a secret has no value.
type NotSetError struct{ Name string }

func (e *NotSetError) Error() string { return fmt.Sprintf("the secret %q isn't set", e.Name) }

// An ExpiredError says that a secret is past its end.
type ExpiredError struct {
	Name string
	At   time.Time
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("the secret %q has expired, at %s", e.Name, e.At.UTC().Format(time.RFC3339))
}

// Variable returns what a secret is called in an environment, or a *NameError.
func Variable(name string) (string, error) {
	for i := range len(name) {
		c := name[i]
		alnum := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return "", &NameError{name, "a name is letters, digits, . _ -"}
		}
	}
	if name == "" || len(name) > maxName {
		return "", &NameError{name, fmt.Sprintf("a name has 1 to %d characters", maxName)}
	}
	v := strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(name))
	if err := env.Check(v, ""); err != nil {
		return "", &NameError{name, err.Error()}
	}
	return v, nil
}

// Check says what is wrong with a value, in a *ValueError.
func Check(name, value string) error {
	switch {
	case value == "":
		return &ValueError{name, "it is empty"}
	case len(value) < MinValue:
		return &ValueError{name, fmt.Sprintf("it has fewer than %d bytes, and couldn't be taken out of what a tool prints", MinValue)}
	case len(value) > MaxValue:
		return &ValueError{name, fmt.Sprintf("it has more than %d bytes", MaxValue)}
	case !utf8.ValidString(value):
		return &ValueError{name, "it isn't text in UTF-8"}
	case strings.ContainsRune(value, 0):
		return &ValueError{name, "it has a NUL in it"}
	}
	return nil
}

// A Store is a user's secrets. It isn't changed, and safe for many goroutines and processes.
type Store struct {
	Dir     string
	Keyring Keyring                      // nil: there is none
	Env     func(variable string) string // our own environment; nil: it has nothing
	Now     func() time.Time
	Wait    time.Duration // for other processes, and for the keyring
}

// Given returns what the environment has for a secret; "" for nothing.
func (s *Store) Given(name string) string {
	v, err := Variable(name)
	if err != nil || s.Env == nil {
		return ""
	}
	return s.Env(v)
}

// Get returns the value of a secret. One that isn't set is a *NotSetError, one that has expired an *ExpiredError, and one
// that no tool could be handed a *NameError or a *ValueError.
func (s *Store) Get(ctx context.Context, name string) (string, error) {
	if _, err := Variable(name); err != nil {
		return "", err
	}
	if v := s.Given(name); v != "" {
		return v, Check(name, v)
	}
	d, err := s.read()
	if err != nil {
		return "", err
	}
	e := d.find(name)
	switch {
	case e == nil:
		return "", &NotSetError{name}
	case e.Expired(s.Now()):
		return "", &ExpiredError{name, e.Expires}
	case !e.Keyring:
		return e.value, nil
	}
	v, err := s.asked(ctx, name, func(k Keyring) (string, error) { return k.Get(name) })
	if errors.Is(err, ErrNotFound) {
		return "", &NotSetError{name} // somebody has taken it out there
	}
	if err != nil {
		return "", err
	}
	return v, Check(name, v)
}

// List returns what is known of the secrets that are kept, sorted by name.
func (s *Store) List() ([]Secret, error) {
	d, err := s.read()
	if err != nil {
		return nil, err
	}
	list := make([]Secret, 0, len(d.secrets))
	for _, e := range d.secrets {
		list = append(list, e.Secret)
	}
	return list, nil
}

// Set keeps a value under the name of a secret, in the keyring unless there is none or inFile is set, and returns what is
// known of it now. When it returns nil, it lasts.
func (s *Store) Set(ctx context.Context, e Secret, value string, inFile bool) (Secret, error) {
	if _, err := Variable(e.Name); err != nil {
		return e, err
	}
	if err := Check(e.Name, value); err != nil {
		return e, err
	}
	e.Set, e.Expires, e.Keyring = s.Now().UTC().Truncate(time.Second), e.Expires.UTC().Truncate(time.Second), false
	return e, s.change(ctx, func(d *document) error {
		if !inFile && s.Keyring != nil {
			_, err := s.asked(ctx, e.Name, func(k Keyring) (string, error) { return "", k.Set(e.Name, value) })
			if err != nil && !errors.Is(err, ErrNoKeyring) {
				return err
			}
			e.Keyring = err == nil
		}
		was := d.find(e.Name)
		if was != nil && was.Keyring && !e.Keyring {
			if err := s.forget(ctx, e.Name); err != nil {
				return err
			}
		}
		now := entry{Secret: e}
		if !e.Keyring {
			now.value = value
		}
		if was != nil {
			*was = now
			return nil
		}
		if len(d.secrets) == MaxSecrets {
			return &NameError{e.Name, fmt.Sprintf("there are %d already", MaxSecrets)}
		}
		d.secrets = append(d.secrets, now)
		slices.SortFunc(d.secrets, func(a, b entry) int { return cmp.Compare(a.Name, b.Name) })
		return nil
	})
}

// Remove forgets a secret. One that isn't kept is a *NotSetError.
func (s *Store) Remove(ctx context.Context, name string) error {
	return s.change(ctx, func(d *document) error {
		e := d.find(name)
		if e == nil {
			return &NotSetError{name}
		}
		if e.Keyring {
			if err := s.forget(ctx, name); err != nil {
				return err
			}
		}
		d.secrets = slices.DeleteFunc(d.secrets, func(e entry) bool { return e.Name == name })
		return nil
	})
}

// forget takes a value out of the keyring.
func (s *Store) forget(ctx context.Context, name string) error {
	_, err := s.asked(ctx, name, func(k Keyring) (string, error) { return "", k.Delete(name) })
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
