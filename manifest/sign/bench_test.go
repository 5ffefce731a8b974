package sign_test

import (
	"crypto/ed25519"
	"fmt"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

const benchFiles = 10_000

// smallFiles returns tools of about 1.5 KB.
func smallFiles() [][]byte {
	files := make([][]byte, benchFiles)
	for i := range files {
		f := fmt.Appendf(nil, "#!/usr/bin/env python3\n__version__ = \"%d\"\n", i)
		for len(f) < 1500 {
			f = append(f, "print(\"hello, world\")\n"...)
		}
		files[i] = f
	}
	return files
}

// What Ed25519 alone takes for as many messages.
func BenchmarkBare(b *testing.B) {
	p := ed25519.NewKeyFromSeed(make([]byte, 32))
	pub := p.Public().(ed25519.PublicKey)
	msg := make([]byte, 256)
	sigs := make([][]byte, benchFiles)
	b.Run("sign", func(b *testing.B) {
		for b.Loop() {
			for i := range sigs {
				msg[0], msg[1] = byte(i), byte(i>>8)
				sigs[i] = ed25519.Sign(p, msg)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			for i := range sigs {
				msg[0], msg[1] = byte(i), byte(i>>8)
				if !ed25519.Verify(pub, msg, sigs[i]) {
					b.Fatal("doesn't hold")
				}
			}
		}
	})
}

func BenchmarkFiles(b *testing.B) {
	files := smallFiles()
	signed := make([][]byte, len(files))
	b.Run("sign", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i, f := range files {
				var err error
				if signed[i], err = sign.Sign(f, sign.Hash, claim, alice, now, nil); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	keys := map[key.Fingerprint]key.Public{alice.Public().Fingerprint(): alice.Public()}
	find := func(f key.Fingerprint) (key.Public, bool) { p, ok := keys[f]; return p, ok }
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, f := range signed {
				s, err := sign.ReadBytes(f, sign.Hash)
				if err == nil {
					_, err = sign.Check(s, claim, find)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, f := range signed {
				if _, err := sign.ReadBytes(f, sign.Hash); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// Reading a large signed file, which is hashed with and without its lines, beside hashing it once.
func BenchmarkLarge(b *testing.B) {
	file := mustSign(b, string(make([]byte, 64<<20)), sign.Hash, alice)
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(file)))
		for b.Loop() {
			if _, err := sign.ReadBytes(file, sign.Hash); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("hash", func(b *testing.B) {
		b.SetBytes(int64(len(file)))
		for b.Loop() {
			cas.Sum(file)
		}
	})
}
