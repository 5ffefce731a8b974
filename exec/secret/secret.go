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

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/audit/redact"
	"github.com/rye-build/rye/exec/env"
)

const (
	// MinValue and MaxValue bound the bytes of a value.
	MinValue = redact.Shortest
	MaxValue = 64 << 10
	// MaxSecrets bounds the secrets of one user.
	MaxSecrets = 1000

	maxName = 64
)

// A Secret is the record of a secret, without its value.
type Secret struct {
	Name    string    `json:"name"`
	Set     time.Time `json:"set"`
	Expires time.Time `json:"expires,omitzero"`  // zero: never
	From    string    `json:"from"`              // one word for the source of the value
	Keyring bool      `json:"keyring,omitempty"` // the value is in the keyring; otherwise it is in the file
}

// Expired reports whether the secret has expired.
func (s *Secret) Expired(now time.Time) bool { return !s.Expires.IsZero() && !now.Before(s.Expires) }

func badName(name, reason string) *fault.Error {
	return fault.New(fault.Validation, "invalid secret name %q: %s", name, reason).On("secret",
		name).Try("rye docs secrets")
}

func badValue(name, format string, args ...any) *fault.Error {
	return fault.New(fault.Validation, "invalid value for the secret %q: %s", name,
		fmt.Sprintf(format, args...)).On("secret", name).Try("rye docs secrets")
}

// NotSet returns the error for a secret without a value, both in the store and in the environment.
func NotSet(name string) *fault.Error {
	e := fault.New(fault.AuthRequired, "the secret %q is not set", name).On("secret",
		name).Try(fault.Command("rye auth set", name))
	if v, err := Variable(name); err == nil {
		e.Because("the variable " + v + " is not set either")
	}
	return e
}

// Variable returns the name of the environment variable for a secret.
func Variable(name string) (string, error) {
	if name != "" && !portable.Spelled(name, portable.Letters+portable.Digits, "._-", len(name)) {
		return "", badName(name, "use letters, digits, and . _ -, with a letter or digit first")
	}
	if name == "" || len(name) > maxName {
		return "", badName(name, fmt.Sprintf("it must have 1 to %d characters", maxName))
	}
	v := strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(name))
	if err := env.Check(v, ""); err != nil {
		return "", badName(name, err.Error())
	}
	return v, nil
}

// Check refuses an invalid value of a secret.
func Check(name, value string) error {
	if e := check(name, value); e != nil {
		return e
	}
	return nil
}

func check(name, value string) *fault.Error {
	switch {
	case value == "":
		return badValue(name, "it is empty")
	case len(value) < MinValue:
		return badValue(name, "it has fewer than %d bytes, too few to be removed from a tool's output", MinValue)
	case len(value) > MaxValue:
		return badValue(name, "it has more than %d bytes", MaxValue)
	case !utf8.ValidString(value):
		return badValue(name, "it is not valid UTF-8")
	case strings.ContainsRune(value, 0):
		return badValue(name, "it contains a NUL byte")
	}
	return nil
}

// usable returns the value of a secret. An invalid one is a configuration error.
func usable(name, value string) (string, error) {
	if e := check(name, value); e != nil {
		e.Code = fault.Config
		return "", e
	}
	return value, nil
}

// A Store is a user's secrets. It is immutable, and safe for concurrent use, also by many processes.
type Store struct {
	Dir     string
	Keyring Keyring                      // optional
	Env     func(variable string) string // our own environment; nil: it has nothing
	Now     func() time.Time
	Wait    time.Duration // limit on waiting for other processes, and for the keyring
}

// Given returns the value of a secret in the environment; "" for none.
func (s *Store) Given(name string) string {
	v, err := Variable(name)
	if err != nil || s.Env == nil {
		return ""
	}
	return s.Env(v)
}

// Get returns the value of a secret. The error for a missing secret is fault.AuthRequired, for an expired one
// fault.SessionExpired.
func (s *Store) Get(ctx context.Context, name string) (string, error) {
	if _, err := Variable(name); err != nil {
		return "", err
	}
	if v := s.Given(name); v != "" {
		return usable(name, v)
	}
	d, err := s.read()
	if err != nil {
		return "", err
	}
	e := d.find(name)
	switch {
	case e == nil:
		return "", NotSet(name)
	case e.Expired(s.Now()):
		return "", fault.New(fault.SessionExpired, "the secret %q expired at %s", name,
			e.Expires.UTC().Format(time.RFC3339)).On("secret", name).
			Try(fault.Command("rye auth set", name))
	case !e.Keyring:
		return e.Value, nil
	}
	v, err := s.asked(ctx, name, func(k Keyring) (string, error) { return k.Get(name) })
	if errors.Is(err, ErrNotFound) {
		return "", NotSet(name) // removed from the keyring by another program
	}
	if err != nil {
		return "", err
	}
	return usable(name, v)
}

// List returns the records of the stored secrets, sorted by name.
func (s *Store) List() ([]Secret, error) {
	d, err := s.read()
	if err != nil {
		return nil, err
	}
	list := make([]Secret, 0, len(d.Secrets))
	for _, e := range d.Secrets {
		list = append(list, e.Secret)
	}
	return list, nil
}

// Set stores the value of a secret durably, in the keyring unless the system has none or inFile is set, and returns
// the new record.
func (s *Store) Set(ctx context.Context, secret Secret, value string, inFile bool) (Secret, error) {
	if _, err := Variable(secret.Name); err != nil {
		return secret, err
	}
	if err := Check(secret.Name, value); err != nil {
		return secret, err
	}
	secret.Set, secret.Expires, secret.Keyring = s.Now().UTC().Truncate(time.Second),
		secret.Expires.UTC().Truncate(time.Second), false
	return secret, s.change(ctx, func(document *document) error {
		if !inFile && s.Keyring != nil {
			_, err := s.asked(ctx, secret.Name, func(k Keyring) (string, error) {
				return "",
					k.Set(secret.Name, value)
			})
			if err != nil && !errors.Is(err, ErrNoKeyring) {
				return err
			}
			secret.Keyring = err == nil
		}
		was := document.find(secret.Name)
		if was != nil && was.Keyring && !secret.Keyring {
			if err := s.forget(ctx, secret.Name); err != nil {
				return err
			}
		}
		now := entry{Secret: secret}
		if !secret.Keyring {
			now.Value = value
		}
		if was != nil {
			*was = now
			return nil
		}
		if len(document.Secrets) == MaxSecrets {
			return badName(secret.Name, fmt.Sprintf("there are already %d secrets", MaxSecrets))
		}
		document.Secrets = append(document.Secrets, now)
		slices.SortFunc(document.Secrets, func(a, b entry) int { return cmp.Compare(a.Name, b.Name) })
		return nil
	})
}

// Remove removes a stored secret. For a missing one it returns NotSet.
func (s *Store) Remove(ctx context.Context, name string) error {
	return s.change(ctx, func(d *document) error {
		e := d.find(name)
		if e == nil {
			return NotSet(name)
		}
		if e.Keyring {
			if err := s.forget(ctx, name); err != nil {
				return err
			}
		}
		d.Secrets = slices.DeleteFunc(d.Secrets, func(e entry) bool { return e.Name == name })
		return nil
	})
}

// forget removes a value from the keyring.
func (s *Store) forget(ctx context.Context, name string) error {
	_, err := s.asked(ctx, name, func(k Keyring) (string, error) { return "", k.Delete(name) })
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
