package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// A Layer compresses the bytes that are written to it.
type Layer struct {
	z    *zstd.Encoder
	out  bytes.Buffer
	raw  cas.Hasher
	size int64
	sum  hash.Hash
}

// NewLayer returns a layer that can be used many times. One encoder at a time, so that nothing depends on the machine.
func NewLayer() (*Layer, error) {
	l := &Layer{raw: cas.NewHasher(), sum: sha256.New()}
	// Memory that isn't touched costs nothing. Grow would clear it, and growing step by step costs twice.
	l.out = *bytes.NewBuffer(make([]byte, 0, MaxBlob))
	var err error
	// The level and the window are part of the bytes: another one makes other digests of the same objects.
	l.z, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(4<<20),
		zstd.WithEncoderCRC(true), zstd.WithZeroFrames(true), zstd.WithEncoderConcurrency(1))
	return l, err
}

// Begin begins a layer.
func (l *Layer) Begin() {
	l.out.Reset()
	l.raw.Reset()
	l.sum.Reset()
	l.size = 0
	l.z.Reset(&l.out)
}

// Write adds bytes to the layer.
func (l *Layer) Write(b []byte) error {
	l.raw.Write(b)
	l.size += int64(len(b))
	_, err := l.z.Write(b)
	return err
}

// Bytes returns the layer that has ended. They are valid until Begin.
func (l *Layer) Bytes() []byte { return l.out.Bytes() }

// End ends the layer.
func (l *Layer) End() (Descriptor, error) {
	if err := l.z.Close(); err != nil {
		return Descriptor{}, err
	}
	l.sum.Write(l.out.Bytes())
	return Descriptor{"sha256:" + hex.EncodeToString(l.sum.Sum(nil)), int64(l.out.Len()), l.raw.Digest(), l.size}, nil
}

// Unpack decompresses a layer, and checks the length of the result. It doesn't check the digest, which is the claim of
// the layer's author: a caller hashes the objects in the layer anyway, and their digests are those of the document.
func Unpack(r io.Reader, descriptor Descriptor, write func([]byte) error) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer z.Close()
	buf := make([]byte, 64<<10)
	for left := descriptor.Length; ; {
		n, err := z.Read(buf)
		if left -= int64(n); left < 0 {
			return wrongLayer(descriptor, fmt.Sprintf("more than %d bytes", descriptor.Length))
		}
		if n > 0 {
			if err := write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF && left > 0:
			return wrongLayer(descriptor, fmt.Sprintf("%d bytes too few", left))
		case err == io.EOF:
			return nil
		case err != nil:
			return wrongLayer(descriptor, err.Error()).From(err)
		}
	}
}

func wrongLayer(d Descriptor, why string) *fault.Error {
	return fault.New(fault.Integrity, "the layer %s is not what the manifest says: %s", d.SHA256, why).
		On("digest", d.SHA256).On("reason", "layer")
}
