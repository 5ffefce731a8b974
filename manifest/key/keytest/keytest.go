// Package keytest has the keys that tests sign with. They are not secret.
package keytest

import (
	"bytes"
	"strings"
	"sync"

	"github.com/rye-build/rye/manifest/key"
)

// Alice and Bob are trusted in most tests, Eve never is. They are functions since scripts start thousands of programs
// that have this package in them and need no key.
func Alice() key.Private { return alice() }
func Bob() key.Private   { return bob() }
func Eve() key.Private   { return eve() }

var alice, bob, eve = seeded(1), seeded(2), seeded(3)

func seeded(seed byte) func() key.Private {
	return sync.OnceValue(func() key.Private { return Seeded(seed) })
}

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
