package cas

import (
	"errors"
	"io"
)

// Verify returns want as an Object that reads from r, at most one byte more than want.Size. If the length or the
// digest differs, reading ends with a *DamagedError instead of io.EOF. Closing the object closes r.
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
	err  error // of every later Read
}

func (v *verifier) Read(data []byte) (int, error) {
	if v.err != nil || len(data) == 0 {
		return 0, v.err
	}
	if v.left == 0 {
		v.err = v.end()
		return 0, v.err
	}
	if int64(len(data)) > v.left {
		data = data[:v.left]
	}
	n, err := v.r.Read(data)
	v.h.Write(data[:n])
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

// end checks the length and the digest, after all declared bytes were read.
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
