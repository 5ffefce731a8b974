package cas

import (
	"errors"
	"io"
)

// Verify returns want as an Object that reads from r. It reads at most want.Size bytes and one more, and
// ends in *DamagedError instead of io.EOF when length or digest differ. Closing it closes r.
func Verify(want Info, r io.ReadCloser) Object {
	v := &verifier{want: want, r: r, h: NewHasher(), left: want.Size}
	if want.Size < 0 {
		v.err = &DamagedError{ID: want.ID, Err: errSize}
	}
	return Object{want, v}
}

type verifier struct {
	want Info
	r    io.ReadCloser
	h    Hasher
	left int64
	err  error // what every later Read returns
}

func (v *verifier) Read(p []byte) (int, error) {
	if v.err != nil || len(p) == 0 {
		return 0, v.err
	}
	if v.left == 0 {
		v.err = v.end()
		return 0, v.err
	}
	if int64(len(p)) > v.left {
		p = p[:v.left]
	}
	n, err := v.r.Read(p)
	v.h.Write(p[:n])
	v.left -= int64(n)
	if err == io.EOF {
		if v.left > 0 {
			err = &DamagedError{ID: v.want.ID, Err: io.ErrUnexpectedEOF}
		} else {
			err = nil // the next Read compares the digest and returns io.EOF
		}
	}
	v.err = err
	return n, err
}

// end is called once all declared bytes were read.
func (v *verifier) end() error {
	var one [1]byte
	n, err := io.ReadFull(v.r, one[:])
	if n > 0 {
		return &DamagedError{ID: v.want.ID, Err: ErrTooLong}
	}
	if err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if found := v.h.Digest(); found != v.want.Digest {
		return &DamagedError{ID: v.want.ID, Found: found}
	}
	return io.EOF
}

func (v *verifier) Close() error { return v.r.Close() }
