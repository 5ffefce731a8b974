package secret

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/rye-build/rye/cas/fault"
)

// A Keyring is a system's storage of its users' passwords.
type Keyring interface {
	// Get returns a value, or ErrNotFound.
	Get(name string) (string, error)
	// Set stores a value. It returns ErrNoKeyring if the keyring can never store it.
	Set(name, value string) error
	// Delete removes a value. A missing one is ErrNotFound.
	Delete(name string) error
}

var (
	// ErrNotFound means that a keyring has no value of a name.
	ErrNotFound = errors.New("not in the keyring")
	// ErrNoKeyring means that the system has no keyring, or that it doesn't take a value like this.
	ErrNoKeyring = errors.New("no keyring available")
)

func keyringError(name string, err error) error {
	return fault.New(fault.Unavailable, "the keyring failed for the secret %q: %v", name, err).On("secret",
		name).From(err).
		Because("a keyring may have to be unlocked first, in a session on this machine").
		Try(fault.Command("rye auth set", name) + " --file")
}

// asked calls the keyring, which may prompt an absent user, and waits at most s.Wait. After that the call keeps
// running.
func (s *Store) asked(ctx context.Context, name string, ask func(Keyring) (string, error)) (string, error) {
	if s.Keyring == nil {
		return "", keyringError(name, ErrNoKeyring)
	}
	type answer struct {
		value string
		err   error
	}
	said := make(chan answer, 1)
	go func() {
		v, err := ask(s.Keyring)
		said <- answer{v, err}
	}()
	select {
	case a := <-said:
		if a.err != nil {
			return "", keyringError(name, a.err)
		}
		return a.value, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-time.After(s.Wait):
		return "", keyringError(name, fmt.Errorf("no answer within %s", s.Wait))
	}
}

// System is the keyring of this machine: Keychain, the Credential Manager, or the Secret Service on the session's
// D-Bus.
type System struct{}

const service = "rye"

// Get implements Keyring.
func (System) Get(name string) (string, error) {
	v, err := keyring.Get(service, name)
	return v, inWords(err)
}

// Set implements Keyring.
func (System) Set(name, value string) error { return inWords(keyring.Set(service, name, value)) }

// Delete implements Keyring.
func (System) Delete(name string) error { return inWords(keyring.Delete(service, name)) }

func inWords(err error) error {
	switch {
	case errors.Is(err, keyring.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, keyring.ErrUnsupportedPlatform), errors.Is(err, keyring.ErrSetDataTooBig), noService(err):
		return fmt.Errorf("%w: %w", ErrNoKeyring, err)
	}
	return err
}
