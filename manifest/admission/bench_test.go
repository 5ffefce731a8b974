package admission_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

const benchFiles = 10_000

// bare returns how long Ed25519 alone takes for as many signatures and verifications as there are files, on this
// machine and in this run.
func bare(b *testing.B) (signs, verifies time.Duration) {
	b.Helper()
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public := private.Public().(ed25519.PublicKey)
	message := make([]byte, 256)
	const n = benchFiles / 10
	var sig []byte
	begin := time.Now()
	for i := range n {
		message[0], message[1] = byte(i), byte(i>>8)
		sig = ed25519.Sign(private, message)
	}
	signs = time.Since(begin)
	begin = time.Now()
	for range n {
		if !ed25519.Verify(public, message, sig) {
			b.Fatal("doesn't hold")
		}
	}
	return 10 * signs, 10 * time.Since(begin)
}

// A tools is 10,000 tools of about 1.5 KB, as they are written and as they are signed.
type tools struct {
	names        []string
	bare, signed [][]byte
}

func makeTools(b *testing.B) (t tools) {
	b.Helper()
	for i := range benchFiles {
		name := fmt.Sprintf("tool:d%02d/t%d", i/100, i)
		text := fmt.Appendf(nil, "#!/usr/bin/env python3\n__version__ = \"%d\"\n%s", i,
			bytes.Repeat([]byte("print(\"hello, world\")\n"), 66))
		t.names = append(t.names, name)
		t.bare, t.signed = append(t.bare, text), append(t.signed, makeSigned(b, name, text))
	}
	return t
}

func makeSigned(b *testing.B, name string, text []byte) []byte {
	s := item(name)
	out, err := sign.Sign(text, s.Signing(), s.Claim(), alice, noon, nil)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// write writes the tools to a directory of their own, a hundred to a directory, and returns their paths.
func (t tools) write(b *testing.B, texts [][]byte) (paths []string) {
	b.Helper()
	dir := b.TempDir()
	for i, text := range texts {
		path := filepath.Join(dir, t.names[i][len("tool:"):]+".py")
		if i%100 == 0 {
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			b.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// verifyAll examines files by one policy, one after the other.
func verifyAll(b *testing.B, x *admission.Trust, paths, names []string) {
	for i, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		e, err := x.Examine(item(names[i]), f, policy.ToUse)
		if err != nil || !e.Decision.Allowed {
			b.Fatal(err, e.Decision.Reason())
		}
		f.Close()
	}
}

// signAll reads files, signs them and writes those that were not, each beside and then in its place.
func signAll(b *testing.B, paths, names []string) {
	for i, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		out := makeSigned(b, names[i], text)
		if bytes.Equal(out, text) {
			continue
		}
		if err = os.WriteFile(path+".new", out, 0o600); err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// What signing and verifying 10,000 files on disk takes, by one goroutine, as a multiple of what Ed25519 alone takes
// for as many: cold on files that were just made, warm on files that were read before.
func BenchmarkDisk(b *testing.B) {
	x := trust(b, two)
	ratio := func(b *testing.B, alone time.Duration) {
		each := b.Elapsed() / time.Duration(b.N)
		b.ReportMetric(float64(each)/float64(alone), "x-ed25519")
		b.ReportMetric(benchFiles/each.Seconds(), "files/s")
	}
	t := makeTools(b)
	cold := func(b *testing.B, texts [][]byte, alone time.Duration, work func(*testing.B, []string)) {
		for b.Loop() {
			b.StopTimer()
			paths := t.write(b, texts)
			b.StartTimer()
			work(b, paths)
		}
		ratio(b, alone)
	}
	warm := func(b *testing.B, texts [][]byte, alone time.Duration, work func(*testing.B, []string)) {
		paths := t.write(b, texts)
		for b.Loop() {
			work(b, paths)
		}
		ratio(b, alone)
	}
	signing := func(b *testing.B, paths []string) { signAll(b, paths, t.names) }
	verifying := func(b *testing.B, paths []string) { verifyAll(b, x, paths, t.names) }
	signs, verifies := bare(b)
	b.Run("sign/cold", func(b *testing.B) { cold(b, t.bare, signs, signing) })
	b.Run("sign/warm", func(b *testing.B) { warm(b, t.signed, signs, signing) }) // nothing changes
	b.Run("verify/cold", func(b *testing.B) { cold(b, t.signed, verifies, verifying) })
	b.Run("verify/warm", func(b *testing.B) { warm(b, t.signed, verifies, verifying) })
}
