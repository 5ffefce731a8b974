package worker

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	// MaxFrame is the longest frame. Only a value may be longer, up to the output limit.
	MaxFrame = 64 << 10
	// MaxRequest is the longest request, since a request may hold all parameters of a call.
	MaxRequest = 64 << 20
)

// The kinds of frames. Those from Exit on end the conversation.
const (
	Used    = 'u'
	Out     = 'o'
	Err     = 'e'
	Exit    = 'x' // the status of the program, in 4 bytes
	Trap    = 't' // the reason why the program trapped
	Refused = 'n' // the reason why the program can't run: nothing happened
	Value   = 'v' // the program's value
)

// appendRequest appends a request after its length.
func appendRequest(b []byte, request any) ([]byte, error) {
	text, err := json.Marshal(request)
	if err == nil && len(text) > MaxRequest {
		err = fmt.Errorf("parameters, arguments and variables have %d bytes; at most %d are allowed", len(text),
			MaxRequest)
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...), err
}

// Read reads a request, and no byte after it.
func Read(in io.Reader, request any) error {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > MaxRequest {
		return fmt.Errorf("a request of %d bytes", n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(in, text); err != nil {
		return err
	}
	return json.Unmarshal(text, request)
}

// A Writer writes frames. It is safe for concurrent use.
type Writer struct {
	mu sync.Mutex
	to io.Writer
}

// NewWriter returns a Writer to the standard output of a guest.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Frame writes a frame.
func (w *Writer) Frame(kind byte, b []byte) error { return w.write(appendFrame(nil, kind, b)) }

// Last writes this process's usage and the frame that ends a conversation in one piece, so that the other side wakes
// up only once.
func (w *Writer) Last(kind byte, b []byte) error {
	used, err := appendUsed(nil)
	if err != nil {
		return err
	}
	return w.write(appendFrame(used, kind, b))
}

func (w *Writer) write(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.to.Write(b)
	return err
}

func appendFrame(to []byte, kind byte, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(append(to, kind), uint32(len(b))), b...)
}

// Stream returns a writer that sends frames of a kind.
func (w *Writer) Stream(kind byte) io.Writer { return stream{w, kind} }

type stream struct {
	*Writer
	kind byte
}

func (s stream) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		part := b[n:min(len(b), n+MaxFrame)]
		if err = s.Frame(s.kind, part); err == nil {
			n += len(part)
		}
	}
	return n, err
}

var (
	errFrame  = errors.New("the guest sent an invalid frame")
	errOutput = errors.New("the guest wrote more than it may")
)

// A reader parses the frames of a guest. It is an io.Writer, since frames may arrive in any pieces.
type reader struct {
	out, errs io.Writer
	left      int64  // bytes that the guest may still write
	stop      func() // ends a guest that writes too much or invalid frames

	counts [2]int64 // bytes written to the streams
	rest   []byte   // an incomplete frame

	used     bool // the guest has reported its usage
	cpu, rss int64
	err      error
	kind     byte // of the last frame
	text     []byte
}

func (r *reader) Write(data []byte) (int, error) {
	if r.err != nil {
		return len(data), nil // the guest is being stopped
	}
	r.rest = append(r.rest, data...)
	rest := r.rest
	for len(rest) >= 5 && r.err == nil {
		n := int(binary.BigEndian.Uint32(rest[1:]))
		if r.kind != 0 || n > MaxFrame && rest[0] != Value {
			r.err = errFrame
			break
		}
		if n > MaxFrame && int64(n) > r.left {
			r.err = errOutput
			break
		}
		if len(rest) < 5+n {
			break
		}
		r.frame(rest[0], rest[5:5+n])
		rest = rest[5+n:]
	}
	r.rest = append(r.rest[:0], rest...)
	if r.err != nil {
		r.stop()
	}
	return len(data), nil
}

// clean reports whether the guest has ended its answer and said what it used, and has written nothing else: the rest
// of a frame that it began now would be read as the next call's.
func (r *reader) clean() bool { return r.err == nil && len(r.rest) == 0 && r.used }

func (r *reader) frame(kind byte, data []byte) {
	to, count := r.out, &r.counts[0]
	switch kind {
	case Used:
		if len(data) != 16 {
			r.err = errFrame
			return
		}
		at := func(b []byte) int64 { return int64(min(binary.BigEndian.Uint64(b), 1<<50)) }
		r.used, r.cpu, r.rss = true, at(data), at(data[8:])
		return
	case Out:
	case Err:
		to, count = r.errs, &r.counts[1]
	case Value:
		to = io.Discard
		fallthrough
	case Exit, Trap, Refused:
		if r.kind, r.text = kind, append([]byte(nil), data...); kind == Exit && len(data) != 4 {
			r.err = errFrame
		}
		if kind != Value {
			return
		}
	default:
		r.err = errFrame
		return
	}
	*count += int64(len(data))
	pass := data[:min(int64(len(data)), r.left)]
	r.left -= int64(len(pass))
	if len(pass) > 0 {
		to.Write(pass)
	}
	if len(pass) < len(data) {
		r.err = errOutput
	}
}
