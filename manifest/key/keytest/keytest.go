// Package keytest has the keys that tests sign with. They are not secret.
package keytest

import (
	"bytes"
	"strings"

	"github.com/rye-build/rye/manifest/key"
)

// Alice and Bob are trusted in most tests, Eve never is.
var Alice, Bob, Eve = Seeded(1), Seeded(2), Seeded(3)

// Seeded returns the key whose seed is 32 times a byte.
func Seeded(seed byte) key.Private { return generate(bytes.Repeat([]byte{seed}, 32)) }

// Named returns a key whose seed is a word, repeated.
func Named(word string) key.Private { return generate([]byte(strings.Repeat(word, 32)[:32])) }

func generate(seed []byte) key.Private {
	k, err := key.Generate(bytes.NewReader(seed))
	if err != nil {
		panic(err)
	}
	return k
}
