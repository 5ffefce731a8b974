package tlog

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

// The algorithms of keys in signed notes.
const (
	algLog    = 1 // Ed25519, of logs
	algCosign = 4 // Ed25519 over a checkpoint and a time, of witnesses
)

// A Key is the public key of a log or a witness, in the form of signed notes: NAME+HASH+BASE64, the name of a log
// being its origin.
type Key struct {
	Name string

	algorithm byte
	hash      uint32
	public    key.Public // zero if rye doesn't verify the algorithm
	text      string
}

// NewKey returns the key of a log.
func NewKey(origin string, public key.Public) (Key, error) {
	raw := public.Bytes()
	return ParseKey(keyText(origin, append([]byte{algLog}, raw[:]...)))
}

// NewWitnessKey returns the key of a witness.
func NewWitnessKey(name string, public key.Public) (Key, error) {
	raw := public.Bytes()
	return ParseKey(keyText(name, append([]byte{algCosign}, raw[:]...)))
}

func keyText(name string, material []byte) string {
	return fmt.Sprintf("%s+%08x+%s", name, keyHash(name, material), base64.StdEncoding.EncodeToString(material))
}

// keyHash returns the first 4 bytes of a key's digest, by which signatures name it.
func keyHash(name string, material []byte) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), material...))
	return binary.BigEndian.Uint32(sum[:])
}

// ParseKey reads a key. A key of an algorithm that rye doesn't verify is valid, and none of its signatures counts.
func ParseKey(text string) (Key, error) {
	name, rest, _ := strings.Cut(text, "+")
	hash, encoded, ok := strings.Cut(rest, "+")
	material, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !ok || err != nil || len(material) < 2 || !isKeyName(name) {
		return Key{}, invalidKey(text, "expected NAME+HASH+BASE64")
	}
	k := Key{Name: name, algorithm: material[0], hash: keyHash(name, material), text: text}
	if keyText(name, material) != text {
		if n, err := strconv.ParseUint(hash, 16, 32); err == nil && uint32(n) != k.hash {
			return Key{}, invalidKey(text, "the hash %s is not the key's, which is %08x", hash, k.hash)
		}
		return Key{}, invalidKey(text, "expected 8 digits of hash, in lower case")
	}
	if k.algorithm == algLog || k.algorithm == algCosign {
		if k.public, err = key.NewPublic(material[1:]); err != nil {
			return Key{}, invalidKey(text, "%v", err)
		}
	}
	return k, nil
}

func invalidKey(text, format string, args ...any) error {
	return fault.New(fault.Parsing, "invalid key %+q: "+format, append([]any{fault.Clip(text, 100)}, args...)...)
}

// isKeyName reports whether a signed note may have a key of this name.
func isKeyName(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || unicode.IsSpace(r) || r == utf8.RuneError
	})
}

// String returns the key as ParseKey reads it.
func (k Key) String() string { return k.text }

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k.text == "" }

// Public returns the Ed25519 key; zero if rye doesn't verify the algorithm.
func (k Key) Public() key.Public { return k.public }

// IsLog reports whether the key signs checkpoints as a log does.
func (k Key) IsLog() bool { return k.algorithm == algLog }

// IsWitness reports whether rye verifies the key's cosignatures.
func (k Key) IsWitness() bool { return k.algorithm == algCosign }

// A verifier is a Key as package note asks it.
type verifier struct{ Key }

func (v verifier) Name() string    { return v.Key.Name }
func (v verifier) KeyHash() uint32 { return v.hash }

// Verify reports whether sig is the key's signature of the text of a note.
func (v verifier) Verify(text, sig []byte) bool {
	if v.algorithm == algLog {
		return len(sig) == 64 && v.public.Verify(text, sig)
	}
	at, ok := cosignatureTime(sig)
	return ok && v.public.Verify(cosigned(text, at), sig[8:])
}

// cosignatureTime returns the time of a cosignature: 8 bytes before the 64 of the signature.
func cosignatureTime(sig []byte) (seconds int64, ok bool) {
	if len(sig) != 8+64 {
		return 0, false
	}
	seconds = int64(binary.BigEndian.Uint64(sig))
	return seconds, seconds > 0
}

// cosigned returns what a witness signs.
func cosigned(text []byte, seconds int64) []byte {
	return append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", seconds), text...)
}

// A signer is the private key of a log or a witness.
type signer struct {
	verifier
	private key.Private
	at      time.Time // of a cosignature
}

// Sign implements note.Signer.
func (s signer) Sign(text []byte) ([]byte, error) {
	if s.algorithm == algLog {
		sig := s.private.Sign(text)
		return sig[:], nil
	}
	seconds := s.at.Unix()
	sig := s.private.Sign(cosigned(text, seconds))
	return append(binary.BigEndian.AppendUint64(nil, uint64(seconds)), sig[:]...), nil
}

var _ note.Signer = signer{}
