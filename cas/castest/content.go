package castest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// sizes returns sizes at the limits of a store: of a chunk of the hash, a page, a block, a part. With -short it
// leaves out the longest, which use the same goroutines as the others.
func sizes() []int {
	all := []int{
		0, 1, 1023, 1024, 1025, 4 << 10,
		64<<10 - 1, 64 << 10, 64<<10 + 1,
		256<<10 - 1, 256 << 10, 256<<10 + 1,
		512<<10 - 1, 512 << 10, 512<<10 + 1,
		1 << 20, 5 << 20,
	}
	if testing.Short() {
		return all[:len(all)-2]
	}
	return all
}

// crowd is how many goroutines use a store at once. With -short, as under the race detector, a few are enough.
func crowd() int {
	if testing.Short() {
		return 8
	}
	return 32
}

// Random returns n bytes that don't compress, the same for the same seed.
func Random(seed uint64, n int) []byte { return randoms.first(seed, n) }

// Text returns n bytes that compress like text, the same for the same seed.
func Text(seed uint64, n int) []byte { return texts.first(seed, n) }

var randoms, texts = source{make: random}, source{make: text}

// A source makes content and caches long ones, because making them takes more time than most stores do.
type source struct {
	make func(seed uint64, n int) []byte // a shorter result is a prefix of a longer one

	mu    sync.Mutex
	cache map[uint64][]byte // by seed
}

// first returns the first n bytes for a seed.

func (s *source) first(seed uint64, n int) []byte {
	if n < 64<<10 {
		return s.make(seed, n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cache[seed]) < n {
		if s.cache == nil {
			s.cache = map[uint64][]byte{}
		}
		s.cache[seed] = s.make(seed, n)
	}
	return slices.Clone(s.cache[seed][:n])
}

func random(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return b
}

// text makes bytes that compress like text. They must never change, because golden vectors hold them.
func text(seed uint64, n int) []byte {
	words := [...]string{"bytes", "get", "a", "name", "some" + "body", "vouches", "for", "the", "name", "and",
		"nothing", "else", "runs"}
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, 0, n+64)
	for len(b) < n {
		b = append(b, words[r.IntN(len(words))]...)
		switch r.IntN(12) {
		case 0:
			b = fmt.Appendf(b, " %d\n", r.IntN(1e6))
		default:
			b = append(b, ' ')
		}
	}
	return b[:n]
}

// contents are the ways to fill an object.
var contents = []struct {
	name string
	make func(seed uint64, n int) []byte
}{
	{"random", Random},
	{"text", Text},
	{"zeros", func(_ uint64, n int) []byte { return make([]byte, n) }},
}

// small returns n different objects of a few hundred bytes.
func small(seed uint64, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = fmt.Appendf(nil, "%d %d %s", seed, i, Text(seed+uint64(i), i%700))
	}
	return out
}
