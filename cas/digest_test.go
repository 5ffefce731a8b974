package cas

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// pattern returns the input of the vectors, which is that of the official ones.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b
}

func TestDigestVectors(t *testing.T) {
	var v struct {
		All     struct{ Digest Digest }
		Vectors []struct {
			Length int
			Digest Digest
		}
	}
	b, err := os.ReadFile("../testdata/vectors/digest.json")
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil || len(v.Vectors) < 50 {
		t.Fatalf("%d vectors, %v", len(v.Vectors), err)
	}
	h := NewHasher()
	for _, v := range v.Vectors {
		b := pattern(v.Length)
		if got := Sum(b); got != v.Digest {
			t.Errorf("Sum of %d bytes = %v, want %v", v.Length, got, v.Digest)
		}
		for _, piece := range []int{1, 7, 64, 1023, 1024, 1025, 8192, 65536, 1 << 20} {
			h.Reset()
			for rest := b; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
				h.Write(rest[:min(piece, len(rest))])
				if len(rest) > piece*3/2 && len(rest) < piece*2 {
					h.Digest() // asking changes nothing
					h.Clone().Write(b)
				}
			}
			if got := h.Clone().Digest(); got != v.Digest {
				t.Errorf("%d bytes in pieces of %d: %v, want %v", v.Length, piece, got, v.Digest)
			}
		}
	}
	all := NewHasher()
	for n := range 1026 {
		d := Sum(pattern(n))
		all.Write(d[:])
	}
	if got := all.Digest(); got != v.All.Digest {
		t.Errorf("the lengths 0 to 1025 together: %v, want %v", got, v.All.Digest)
	}
}

// TestDigestStreams hashes 64 MiB in pieces that end anywhere, and at once.
func TestDigestStreams(t *testing.T) {
	size := 64 << 20
	if testing.Short() {
		size = 4 << 20
	}
	b := pattern(size)
	h := NewHasher()
	r := rand.New(rand.NewPCG(1, 1))
	for rest := b; len(rest) > 0; {
		n := min(1+r.IntN(1<<r.IntN(22)), len(rest))
		h.Write(rest[:n])
		rest = rest[n:]
	}
	if got, want := h.Digest(), Sum(b); got != want {
		t.Errorf("in pieces %v, at once %v", got, want)
	}
}

func TestDigestText(t *testing.T) {
	d := Sum([]byte("abc"))
	const text = "blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"
	if d.String() != text || d.Short() != "6437b3ac3846" || string(d.Append([]byte("x"))) != "x"+text {
		t.Errorf("String %q, Short %q, Append %q", d, d.Short(), d.Append([]byte("x")))
	}
	var unmarshalled Digest
	err := unmarshalled.UnmarshalText([]byte(text))
	if err != nil || unmarshalled != d {
		t.Errorf("UnmarshalText gives %v, %v", unmarshalled, err)
	}
	if got, err := ParseDigest(text); err != nil || got != d {
		t.Errorf("ParseDigest of a string gives %v, %v", got, err)
	}
	if got, err := ParseDigest([]byte(text)); err != nil || got != d {
		t.Errorf("ParseDigest of bytes gives %v, %v", got, err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		for i := range d {
			d[i] = byte(r.Uint32())
		}
		if got := d.String(); got != "blake3:"+hex.EncodeToString(d[:]) {
			t.Fatalf("%x is written %q", d[:], got)
		}
		if got, err := ParseDigest(d.String()); err != nil || got != d {
			t.Fatalf("%q is read as %v, %v", d, got, err)
		}
	}
}

// TestParseDigestRefuses changes each character of a digest to each other byte.
func TestParseDigestRefuses(t *testing.T) {
	good := Sum([]byte("abc")).String()
	for i := range good {
		for c := range 256 {
			b := []byte(good)
			if b[i] == byte(c) {
				continue
			}
			b[i] = byte(c)
			digit := i >= len(prefix) && strings.IndexByte("0123456789abcdef", byte(c)) >= 0
			got, err := ParseDigest(b)
			if digit != (err == nil) || digit && got.String() != string(b) || !digit && !got.IsZero() {
				t.Fatalf("%q is read as %v, %v", b, got, err)
			}
		}
	}
	for _, s := range []string{
		"", "blake3:", good[len(prefix):], good + "0", good[:len(good)-1], good + "\n", " " + good,
		strings.ToUpper(good), "blake3:" + strings.ToUpper(good[len(prefix):]), "sha256:" + good[len(prefix):],
		"BLAKE3:" + good[len(prefix):],
		"blake3-" + good[len(prefix):], strings.Repeat("x", len(good)), "blake3:0x" + good[len(prefix)+2:],
	} {
		if d, err := ParseDigest(s); err != ErrDigest || !d.IsZero() {
			t.Errorf("%q is read as %v, %v", s, d, err)
		}
	}
}

func TestDigestPrefix(t *testing.T) {
	d := Sum([]byte("abc"))
	for _, test := range []struct {
		typed  string
		digits string
		ok     bool
	}{
		{"6437", "6437", true},
		{"blake3:6437b", "6437b", true},
		{d.Short(), d.Short(), true},
		{d.String(), d.String()[len(prefix):], true},
		{"643", "", false},
		{"blake3:643", "", false},
		{"", "", false},
		{"6437B", "", false},
		{"6437g", "", false},
		{"sha256:6437", "", false},
		{"blake3:blake3:6437", "", false},
		{d.String() + "0", "", false},
		{" 6437", "", false},
	} {
		digits, ok := ParsePrefix(test.typed)
		if digits != test.digits || ok != test.ok {
			t.Errorf("ParsePrefix(%q) = %q, %t", test.typed, digits, ok)
		}
		if ok && !d.HasPrefix(digits) {
			t.Errorf("%v doesn't begin with %q", d, digits)
		}
	}
	for _, other := range []string{"6438", "6437c", "7437", d.String()[len(prefix):len(prefix)+63] + "0"} {
		if d.HasPrefix(other) {
			t.Errorf("%v begins with %q", d, other)
		}
	}
}

func TestDigestOrder(t *testing.T) {
	a, b := Digest{1}, Digest{1, 1}
	if a.Compare(b) >= 0 || b.Compare(a) <= 0 || a.Compare(a) != 0 || !(Digest{}).IsZero() || a.IsZero() {
		t.Error("digests are not ordered by their bytes")
	}
	if strings.Compare(a.String(), b.String()) != a.Compare(b) {
		t.Error("digests are ordered otherwise than their texts")
	}
}

func TestNames(t *testing.T) {
	for k := range 256 {
		kind := Kind(k)
		got, ok := ParseKind(kind.String())
		if known := kind >= Blob && kind <= Document; ok != known || known && got != kind {
			t.Errorf("ParseKind(%q) = %v, %t", kind, got, ok)
		}
	}
	id := ID{TreeKind, Sum(nil)}
	if got := id.String(); got != "tree "+Sum(nil).String() {
		t.Errorf("an ID is written %q", got)
	}
	if got := File.String() + Exec.String() + Dir.String() + Mode(0).String(); got != "fileexecdirmode(0)" {
		t.Errorf("modes are written %q", got)
	}
}

func FuzzParseDigest(f *testing.F) {
	f.Add(Sum(nil).String())
	f.Add(strings.ToUpper(Sum(nil).String()))
	f.Add("blake3:")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDigest(s)
		if err != nil && err != ErrDigest || err == nil && d.String() != s {
			t.Errorf("%q is read as %v, %v", s, d, err)
		}
		want, hexErr := hex.DecodeString(strings.TrimPrefix(s, prefix))
		plain := hexErr == nil && len(want) == Size && strings.HasPrefix(s, prefix) && len(s) == len(d.String()) &&
			strings.ToLower(s) == s
		if plain != (err == nil) || plain && !bytes.Equal(want, d[:]) {
			t.Errorf("%q is read as %v, %v; want %x", s, d, err, want)
		}
	})
}

func FuzzParsePrefix(f *testing.F) {
	f.Add("6437")
	f.Add("blake3:6437b")
	f.Add(Sum(nil).String())
	f.Fuzz(func(t *testing.T, s string) {
		digits, ok := ParsePrefix(s)
		if !ok {
			return
		}
		if digits != s && prefix+digits != s || len(digits) < 4 {
			t.Errorf("ParsePrefix(%q) = %q", s, digits)
		}
		d, err := ParseDigest(prefix + digits + strings.Repeat("0", 2*Size-len(digits)))
		if err != nil || !d.HasPrefix(digits) {
			t.Errorf("ParsePrefix(%q) = %q, with which no digest begins: %v", s, digits, err)
		}
	})
}

func BenchmarkDigestText(b *testing.B) {
	d := Sum(nil)
	text := d.Append(nil)
	b.Run("append", func(b *testing.B) {
		for b.Loop() {
			text = d.Append(text[:0])
		}
	})
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			if _, err := ParseDigest(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
