package key

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/rye-build/rye/cas/fault"
)

// A Private is a private key. It prints as the text of its public half, whatever the verb. The zero Private is no key,
// and signing with it panics.
type Private struct {
	// k is a function, because fmt doesn't call Format on a Private in an unexported field, and prints the targets of
	// pointers when the verb is wrong. Of a function it prints the address.
	k func() ed25519.PrivateKey
}

// Generate makes a key from 32 bytes of random, which is crypto/rand.Reader outside tests.
func Generate(random io.Reader) (Private, error) {
	var signer Private
	for {
		seed := make([]byte, ed25519.SeedSize)
		_, err := io.ReadFull(random, seed)
		if err != nil && signer.IsZero() {
			return Private{}, fmt.Errorf("random bytes for a key: %w", err)
		}
		if err != nil {
			return signer, nil
		}
		if signer, err = fromSeed(seed); err != nil || !strings.HasPrefix(signer.Public().String(), "-") {
			return signer, err
		}
		// A command line would parse this key as a flag: generate another one, as long as there are random bytes.
	}
}

// Derive returns the key that belongs to this one in a context, always the same: HKDF over SHA-256 (RFC 5869) with the
// context as its info. It tells nothing about this key, nor about those of other contexts.
func (p Private) Derive(context string) (Private, error) {
	const tries = 8 // for Generate, which rejects one key in 64
	seeds, err := hkdf.Key(sha256.New, p.k().Seed(), nil, context, tries*ed25519.SeedSize)
	if err != nil {
		return Private{}, err
	}
	return Generate(bytes.NewReader(seeds))
}

// fromSeed checks the public half like any other, although every seed makes a good one.
func fromSeed(seed []byte) (Private, error) {
	k := ed25519.NewKeyFromSeed(seed)
	if _, err := NewPublic(k[ed25519.SeedSize:]); err != nil {
		return Private{}, err
	}
	return Private{func() ed25519.PrivateKey { return k }}, nil
}

// IsZero reports whether p is the zero Private, which is no key.
func (p Private) IsZero() bool { return p.k == nil }

// Public returns the public half. For the zero Private it returns the zero Public.
func (p Private) Public() (pub Public) {
	if p.k != nil {
		pub.raw = [32]byte(p.k()[ed25519.SeedSize:])
	}
	return pub
}

// Sign signs msg. The same key and message give the same signature.
func (p Private) Sign(msg []byte) [64]byte { return [64]byte(ed25519.Sign(p.k(), msg)) }

// Format prints the public half instead of the seed.
func (p Private) Format(s fmt.State, _ rune) {
	io.WriteString(s, "private key of "+p.Public().String())
}

// PEM returns the key as PKCS#8, without a passphrase.
func (p Private) PEM() []byte {
	return encodePEM("PRIVATE KEY", privateDER+string(p.k().Seed()))
}

// ErrLocked is returned for a private key with a passphrase if none is given.
var ErrLocked error = fault.New(fault.Approval, "private key is locked with a passphrase").On("reason", "passphrase").
	Try("export RYE_KEY_PASSPHRASE=…")

// wrongPassphrase is the error about a passphrase that doesn't open the key.
func wrongPassphrase() error {
	return fault.New(fault.AuthFailed, "wrong passphrase").On("reason", "passphrase").
		Try("export RYE_KEY_PASSPHRASE=…")
}

// Ready does the 1 ms of work for a process's first signature in crypto/ed25519 ahead of time, while other work runs.
func Ready() { ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }

// ParsePrivatePEM reads the form that PEM writes. For the form that Lock writes it returns ErrLocked.
func ParsePrivatePEM(b []byte) (Private, error) {
	if IsLocked(b) {
		return Private{}, ErrLocked
	}
	seed, err := decodePEM(b, "PRIVATE KEY", privateDER)
	if err != nil {
		return Private{}, err
	}
	return fromSeed(seed[:])
}

const (
	writeWork = 17 // log2 of scrypt's N: 128 MiB
	readWork  = 18 // as "age -p" writes; more would let a file exhaust memory
)

// Lock returns the key in an age file under a passphrase.
func (p Private) Lock(passphrase string) ([]byte, error) {
	return p.lock(passphrase, writeWork)
}

func (p Private) lock(passphrase string, work int) ([]byte, error) {
	r, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, err
	}
	r.SetWorkFactor(work)
	var out bytes.Buffer
	a := armor.NewWriter(&out)
	w, err := age.Encrypt(a, r)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(p.PEM())
	if err = errors.Join(err, w.Close(), a.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// IsLocked reports whether b looks like the output of Lock, by its first line.
func IsLocked(b []byte) bool { return strings.HasPrefix(trimPEM(b), armor.Header) }

// Unlock reads the form that Lock writes. It rejects a key without a passphrase: its user believes that the file is
// locked.
func Unlock(b []byte, passphrase string) (Private, error) {
	if !IsLocked(b) {
		return Private{}, invalid("private key is not locked with a passphrase")
	}
	id, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return Private{}, wrongPassphrase() // the empty one
	}
	id.SetMaxWorkFactor(readWork)
	r, err := age.Decrypt(armor.NewReader(strings.NewReader(trimPEM(b)+"\n")), id)
	if err != nil {
		if errors.Is(err, age.ErrIncorrectIdentity) {
			return Private{}, wrongPassphrase()
		}
		return Private{}, invalid("locked private key: %v", err)
	}
	pem, err := io.ReadAll(io.LimitReader(r, maxPEM))
	if err != nil {
		return Private{}, invalid("locked private key: %v", err)
	}
	return ParsePrivatePEM(pem)
}

// ParsePrivate reads a private key with or without a passphrase. For a locked key it calls passphrase a single
// time; nil means that there is no user to enter one, and the error is ErrLocked.
func ParsePrivate(b []byte, passphrase func() (string, error)) (Private, error) {
	if !IsLocked(b) || passphrase == nil {
		return ParsePrivatePEM(b)
	}
	word, err := passphrase()
	if err != nil {
		return Private{}, err
	}
	return Unlock(b, word)
}
