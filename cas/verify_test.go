package cas_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/castest"
)

func infoOf(b []byte) cas.Info {
	return cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: cas.Sum(b)}, Size: int64(len(b))}
}

// rhythms are the ways a reader may give its bytes.
var rhythms = map[string]func(io.Reader) io.Reader{
	"plain":            func(r io.Reader) io.Reader { return r },
	"byte by byte":     iotest.OneByteReader,
	"by halves":        iotest.HalfReader,
	"with the end":     iotest.DataErrReader,
	"end byte by byte": func(r io.Reader) io.Reader { return iotest.DataErrReader(iotest.OneByteReader(r)) },
}

func TestVerify(t *testing.T) {
	for _, n := range []int{0, 1, 2, 511, 512, 513, 1024, 5000, 70000} {
		b := castest.Random(1, n)
		for name, rhythm := range rhythms {
			o := cas.Verify(infoOf(b), io.NopCloser(rhythm(bytes.NewReader(b))))
			got, err := io.ReadAll(o)
			if err != nil || !bytes.Equal(got, b) || o.Info != infoOf(b) {
				t.Errorf("%s: %d bytes came back as %d, %v", name, n, len(got), err)
			}
			if n, err := o.Read(make([]byte, 10)); n != 0 || err != io.EOF {
				t.Errorf("%s: after the end: %d, %v", name, n, err)
			}
			if err := iotest.TestReader(cas.Verify(infoOf(b), io.NopCloser(rhythm(bytes.NewReader(b)))),
				b); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestVerifyDamage: no damage ends in io.EOF, and the error stays.
func TestVerifyDamage(t *testing.T) {
	for _, b := range [][]byte{nil, []byte("x"), castest.Text(1, 200), castest.Random(1, 70000)} {
		want := infoOf(b)
		for what, changed := range damages(b) {
			for name, rhythm := range rhythms {
				if len(b) > 1000 && strings.Contains(name, "byte") {
					continue
				}
				o := cas.Verify(want, io.NopCloser(rhythm(bytes.NewReader(changed))))
				got, err := io.ReadAll(o)
				damage, ok := errors.AsType[*cas.DamagedError](err)
				if !ok || damage.ID != want.ID || len(got) > len(b) {
					t.Fatalf("%s: %d bytes with %s: %d bytes, error %v", name, len(b), what, len(got), err)
				}
				switch {
				case len(changed) > len(b) && !errors.Is(err, cas.ErrTooLong),
					len(changed) < len(b) && !errors.Is(err, io.ErrUnexpectedEOF),
					len(changed) == len(b) && damage.Found != cas.Sum(changed):
					t.Errorf("%s: %d bytes with %s: error %v", name, len(b), what, err)
				}
				if n, again := o.Read(make([]byte, 10)); n != 0 || again != err {
					t.Errorf("%s: with %s, read again: %d, %v", name, what, n, again)
				}
			}
		}
	}
}

// A closing reader remembers that it was closed, and how much was read of it.
type closing struct {
	io.Reader
	read   int
	closed int
}

func (c *closing) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.read += n
	return n, err
}

var errClose = errors.New("closed")

func (c *closing) Close() error {
	c.closed++
	return errClose
}

func TestVerifyReads(t *testing.T) {
	b := []byte("ten bytes.")
	// No more than one byte too many is taken of what has no end.
	endless := &closing{Reader: io.MultiReader(bytes.NewReader(b), strings.NewReader(strings.Repeat("x", 1000)))}
	o := cas.Verify(infoOf(b), endless)
	if _, err := io.ReadAll(o); !errors.Is(err, cas.ErrTooLong) || endless.read != len(b)+1 {
		t.Errorf("error %v after %d bytes", err, endless.read)
	}
	if err := o.Close(); err != errClose || endless.closed != 1 {
		t.Errorf("Close gives %v, and closed %d times", err, endless.closed)
	}

	broken := errors.New("broken")
	for n := range len(b) + 1 {
		r := io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(broken))
		got, err := io.ReadAll(cas.Verify(infoOf(b), io.NopCloser(r)))
		if !errors.Is(err, broken) || len(got) != n {
			t.Errorf("broken after %d bytes: %d bytes, %v", n, len(got), err)
		}
	}

	for _, size := range []int64{-1, -1 << 63} {
		info := infoOf(b)
		info.Size = size
		got, err := io.ReadAll(cas.Verify(info, io.NopCloser(bytes.NewReader(b))))
		if _, ok := errors.AsType[*cas.DamagedError](err); !ok || len(got) != 0 {
			t.Errorf("with the size %d: %q, %v", size, got, err)
		}
	}
	if n, err := cas.Verify(infoOf(b), io.NopCloser(bytes.NewReader(b))).Read(nil); n != 0 || err != nil {
		t.Errorf("reading nothing: %d, %v", n, err)
	}
}

func TestDamagedError(t *testing.T) {
	id := cas.ID{Kind: cas.Blob, Digest: cas.Digest{1}}
	for _, test := range []struct {
		err  cas.DamagedError
		want string
	}{
		{cas.DamagedError{ID: id}, id.String() + " is damaged"},
		{cas.DamagedError{ID: id, Found: cas.Digest{2}},
			id.String() + " is damaged: its bytes have the digest " + cas.Digest{2}.String()},
		{cas.DamagedError{ID: id, Err: io.ErrUnexpectedEOF}, id.String() + " is damaged: unexpected EOF"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
