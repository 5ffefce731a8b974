package archive

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/rye-build/rye/bundle/foreign"
)

// A frame passes on the bytes of one zstd frame as they arrive. A decoder alone would skip skippable frames,
// continue with the next frame, and accept an empty file as empty content; a frame refuses all three.
type frame struct {
	r     *bufio.Reader
	off   int64  // of the next byte of r
	out   *int64 // bytes that the decoder has returned so far
	held  []byte
	left  int64 // of the current block
	last  bool  // the current block is the last one
	ended bool
	err   error // the first error, of the frame or of r
	buf   [14]byte
}

const (
	frameMagic = 0xfd2fb528

	hasChecksum   = 1 << 2
	reservedBits  = 1<<3 | 1<<4
	singleSegment = 1 << 5
)

var (
	errMagic      = errors.New("not a zstd frame")
	errForeign    = errors.New("a zip or a gzip, which no bundle is: rye add reads a plugin in one")
	errChecksum   = errors.New("the zstd frame has no checksum")
	errReserved   = errors.New("the zstd frame uses reserved bits")
	errDictionary = errors.New("the zstd frame requires a dictionary")
	errWindow     = fmt.Errorf("the zstd frame has a window of more than %d bytes", MaxWindow)
	errBlock      = errors.New("a zstd block of a reserved type")
	errEndless    = errors.New("the compressed content is too long")
	errBehind     = errors.New("trailing bytes after the end")
)

// most returns the longest compressed input that can belong to n decoded bytes: compression adds little, and the
// decoder holds less than a MiB that it hasn't returned yet.
func most(n int64) int64 { return n + n/64 + 1<<20 }

func (f *frame) fail(err error) error { return &Error{Offset: f.off, Frame: true, Err: err} }

// fill reads n bytes into held, to be passed on.
func (f *frame) fill(n int) ([]byte, error) {
	from := len(f.held)
	f.held = f.buf[:from+n]
	got, err := io.ReadFull(f.r, f.held[from:])
	f.off += int64(got)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err == io.ErrUnexpectedEOF {
		err = f.fail(err)
	}
	return f.held[from:], err
}

// begin reads the header.
func (f *frame) begin() error {
	data, err := f.fill(5)
	if err != nil {
		return err
	}
	flags := data[4]
	switch {
	case foreign.Is(data):
		err = errForeign
	case binary.LittleEndian.Uint32(data) != frameMagic:
		err = errMagic
	case flags&reservedBits != 0:
		err = errReserved
	case flags&hasChecksum == 0:
		err = errChecksum
	case flags&3 != 0:
		err = errDictionary
	}
	if err != nil {
		f.off = 0
		return f.fail(err)
	}
	window, sizes := int64(0), []int{0, 2, 4, 8}[flags>>6]
	if flags&singleSegment == 0 {
		if data, err = f.fill(1); err != nil {
			return err
		}
		base := int64(1) << (10 + data[0]>>3)
		window = base + base/8*int64(data[0]&7)
	} else if sizes == 0 {
		sizes = 1
	}
	if data, err = f.fill(sizes); err != nil {
		return err
	}
	if flags&singleSegment != 0 {
		var size [8]byte
		copy(size[:], data)
		// A size of two bytes lacks an offset of 256, which doesn't matter this far from the limit.
		window = int64(min(binary.LittleEndian.Uint64(size[:]), MaxWindow+1))
	}
	if window > MaxWindow {
		return f.fail(errWindow)
	}
	return nil
}

// Read implements io.Reader. It returns io.EOF at the end of the frame.
func (f *frame) Read(b []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.read(b)
	if err != io.EOF {
		f.err = err
	}
	return n, err
}

func (f *frame) read(b []byte) (int, error) {
	for {
		switch {
		case len(f.held) > 0:
			n := copy(b, f.held)
			f.held = f.held[n:]
			return n, nil
		case f.left > 0:
			n, err := f.r.Read(b[:min(int64(len(b)), f.left)])
			f.off, f.left = f.off+int64(n), f.left-int64(n)
			if err == io.EOF {
				err = f.fail(io.ErrUnexpectedEOF)
			}
			if n > 0 {
				err = nil // the next Read returns it again
			}
			return n, err
		case f.ended:
			return 0, io.EOF
		}
		if err := f.next(); err != nil {
			return 0, err
		}
	}
}

// next reads the header of the next block, or the checksum after the last one.
func (f *frame) next() error {
	if f.last {
		_, err := f.fill(4)
		f.ended = err == nil
		return err
	}
	b, err := f.fill(3)
	if err != nil {
		return err
	}
	head := int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16
	f.last, f.left = head&1 != 0, head>>3
	switch head >> 1 & 3 {
	case 1: // one byte, many times
		f.left = 1
	case 3:
		return f.fail(errBlock)
	}
	if f.off+f.left > most(*f.out) {
		return f.fail(errEndless)
	}
	return nil
}

// end refuses bytes after the frame.
func (f *frame) end() error {
	_, err := f.r.ReadByte()
	switch {
	case err == nil:
		return f.fail(errBehind)
	case err != io.EOF:
		return err
	}
	return nil
}
