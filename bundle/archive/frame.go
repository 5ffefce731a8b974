package archive

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A frame passes on the bytes of one zstd frame as they come, and wants it to be the only thing there. A decoder would
// overlook frames that are to be skipped, go on with the next one, and take nothing at all for an empty content.
type frame struct {
	r     *bufio.Reader
	off   int64  // of the next byte of r
	out   *int64 // how many bytes came out of the decoder
	held  []byte
	left  int64 // of the current block
	last  bool  // the current block is the last one
	ended bool
	err   error // what went wrong here or in r
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
	errChecksum   = errors.New("the zstd frame has no checksum")
	errReserved   = errors.New("the zstd frame uses reserved bits")
	errDictionary = errors.New("the zstd frame requires a dictionary")
	errWindow     = fmt.Errorf("the zstd frame has a window of more than %d bytes", MaxWindow)
	errBlock      = errors.New("a zstd block of a reserved type")
	errEndless    = errors.New("the compressed content is too long")
	errBehind     = errors.New("trailing bytes after the end")
)

// most is how long what n bytes came from may be: compressing makes nothing much longer, and the decoder has read less
// than a MiB that it hasn't handed out yet.
func most(n int64) int64 { return n + n/64 + 1<<20 }

func (f *frame) fail(err error) error { return &Error{Offset: f.off, Frame: true, Err: err} }

// fill reads n bytes to be passed on.
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
	b, err := f.fill(5)
	if err != nil {
		return err
	}
	flags := b[4]
	switch {
	case binary.LittleEndian.Uint32(b) != frameMagic:
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
		if b, err = f.fill(1); err != nil {
			return err
		}
		base := int64(1) << (10 + b[0]>>3)
		window = base + base/8*int64(b[0]&7)
	} else if sizes == 0 {
		sizes = 1
	}
	if b, err = f.fill(sizes); err != nil {
		return err
	}
	if flags&singleSegment != 0 {
		var size [8]byte
		copy(size[:], b)
		// That 256 is to be added to one of two bytes can be left out: it is far from the limit.
		window = int64(min(binary.LittleEndian.Uint64(size[:]), MaxWindow+1))
	}
	if window > MaxWindow {
		return f.fail(errWindow)
	}
	return nil
}

// Read implements io.Reader. The io.EOF is that of the frame.
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
				err = nil // it will come again
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

// next goes to the next block, or to the checksum behind the last one.
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

// end wants the end.
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
