package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// The files of a thread's directory.
const (
	LinesFile    = "transcript.jsonl"
	PayloadsFile = "payloads"
	SummaryFile  = "thread.json"
)

// A Reader reads the events of one transcript in order. It checks their chain, payloads and order, but no
// signatures. It takes memory for one event. Its opener closes it.
type Reader struct {
	Torn bool // the transcript ends in an incomplete write, or in payloads that no line names

	lines    io.Reader
	payloads *bufio.Reader
	buf      []byte // of lines; not yet consumed from spent on
	spent    int    // consumed bytes of buf
	order    order
	last     Position
	thread   string
	at       int64 // consumed bytes of lines
	large    int64 // consumed bytes of payloads
	close    []io.Closer
}

// NewReader returns a Reader of lines and their payloads, which may be nil if the lines name none.
func NewReader(lines, payloads io.Reader) *Reader {
	if payloads == nil {
		payloads = bytes.NewReader(nil)
	}
	return &Reader{lines: lines, payloads: bufio.NewReaderSize(payloads, 32<<10)}
}

// OpenReader returns a Reader of a thread's directory. The caller closes it.
func OpenReader(dir string) (*Reader, error) {
	lines, err := osfile.OpenRegular(filepath.Join(dir, LinesFile))
	if err != nil {
		return nil, err
	}
	payloads := &lateFile{path: filepath.Join(dir, PayloadsFile)}
	r := NewReader(lines, payloads)
	r.close = []io.Closer{lines, payloads}
	return r, nil
}

// Exists reports whether the directory of a thread has a transcript.
func Exists(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, LinesFile))
	return err == nil
}

// A lateFile is opened at the first read, because the file of payloads appears with the first large one.
type lateFile struct {
	path string
	f    *os.File
}

func (l *lateFile) Read(data []byte) (int, error) {
	if l.f == nil {
		f, err := osfile.OpenRegular(l.path)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		l.f = f
	}
	return l.f.Read(data)
}

func (l *lateFile) Close() error {
	if l.f == nil {
		return nil
	}
	return l.f.Close()
}

// Close closes the files.
func (r *Reader) Close() error {
	var errs []error
	for _, c := range r.close {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Last returns the place of the last event read.
func (r *Reader) Last() Position { return r.last }

// Read reads the transcript in a thread's directory, up to the last complete line or an error. A damaged transcript
// is a *Problem. Read checks no signatures; Verify does.
func Read(dir string) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		r, err := OpenReader(dir)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.Close()
		for {
			e, err := r.Next()
			if err == io.EOF || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (r *Reader) problem(kind, format string, args ...any) *Problem {
	return &Problem{r.last.Seq + 1, kind, fmt.Sprintf(format, args...)}
}

// Next returns the next event, a *Problem for anything else, and io.EOF at the end. After io.EOF it may be called
// again, because a writer may have appended more.
func (r *Reader) Next() (*Event, error) {
	b, err := r.line(0)
	if err != nil {
		return nil, r.damaged(err)
	}
	if b == nil {
		r.Torn = r.Torn || len(r.buf) > r.spent
		return nil, io.EOF
	}
	size := len(b) + 1
	event, err := parseLine(b)
	if err != nil {
		return nil, r.damaged(err)
	}
	if p := r.chain(event, size); p != nil {
		return nil, p
	}
	if event.Large != nil {
		if err := r.payload(event); err != nil {
			return nil, err
		}
	}
	if err := r.order.next(event); err != nil {
		return nil, r.problem(Edited, "%v", err)
	}
	r.spent, r.at = r.spent+size, r.at+int64(size)
	r.last, r.thread = event.Position(), event.Thread
	return event, nil
}

var errLong = fmt.Errorf("a line of more than %d bytes", MaxLine)

// line returns the next complete line that begins skip bytes after the consumed ones, or nil at the end.
func (r *Reader) line(skip int) ([]byte, error) {
	searched := skip
	for {
		rest := r.buf[r.spent:]
		i := bytes.IndexByte(rest[searched:], '\n')
		if i >= 0 && searched+i < skip+MaxLine {
			return rest[skip : searched+i], nil
		}
		if i >= 0 || len(rest) >= skip+MaxLine {
			return nil, errLong
		}
		searched = len(rest)
		if more, err := r.fill(); err != nil || !more {
			return nil, err
		}
	}
}

// fill reads more bytes of lines.
func (r *Reader) fill() (bool, error) {
	if r.spent > 0 {
		r.buf = r.buf[:copy(r.buf, r.buf[r.spent:])]
		r.spent = 0
	}
	r.buf = slices.Grow(r.buf, 4*MaxLine)
	n, err := r.lines.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	if err == io.EOF {
		err = nil
	}
	return n > 0, err
}

// nul is a sequence that a crashed machine may leave in a write.
var nul = make([]byte, 16)

// damaged decides what bytes mean that aren't a line; err is the reason. If they are the remains of a write and no
// line follows, the transcript is torn, and reading ends there.
func (r *Reader) damaged(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	if f, ok := fault.Find(err); ok && f.Code == fault.VersionMismatch {
		return f
	}
	problem := r.problem(Edited, "%v", err)
	b := r.buf[r.spent:min(len(r.buf), r.spent+MaxLine)]
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		b = b[:i]
	}
	if !bytes.Contains(b, nul) || r.continues() {
		return problem
	}
	r.Torn, r.buf, r.spent = true, nil, 0
	return io.EOF
}

// continues reports whether a line follows the damaged bytes. It consumes the rest.
func (r *Reader) continues() bool {
	for {
		rest := r.buf[r.spent:]
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			if _, err := parseLine(rest[:i]); err == nil {
				return true
			}
			r.spent += i + 1
			continue
		}
		if len(rest) >= MaxLine {
			r.spent = len(r.buf)
		}
		if more, err := r.fill(); err != nil || !more {
			return false
		}
	}
}

// chain checks that an event, whose line has size bytes, follows the last one.
func (r *Reader) chain(event *Event, size int) *Problem {
	n := r.last.Seq + 1
	switch {
	case event.Prev == r.last.Digest && event.Seq != n:
		return r.problem(Edited, "its number is %d", event.Seq)
	case event.Prev == r.last.Digest && r.thread != "" && event.Thread != r.thread:
		return r.problem(Swapped, "it belongs to the thread %s", event.Thread)
	case event.Prev == r.last.Digest:
		return nil
	case r.thread != "" && event.Thread != r.thread:
		return r.problem(Swapped, "it belongs to the thread %s", event.Thread)
	case event.Seq > n:
		return r.problem(Missing, "found line %d: lines before it are missing or moved", event.Seq)
	case event.Seq < n:
		return r.problem(Reordered, "found line %d again, or in the wrong place", event.Seq)
	case n > 1 && r.intact(event, size):
		return &Problem{n - 1, Edited, fmt.Sprintf("changed after it was written: line %d has another digest of it",
			n)}
	}
	return r.problem(Edited, "it doesn't follow the previous line")
}

// intact reports whether a line that doesn't follow is unchanged, so that the line before it is the changed one. A
// line is unchanged if the next one has its digest, or if it is a checkpoint with a matching digest.
func (r *Reader) intact(e *Event, size int) bool {
	if e.Type == TypeCheckpoint {
		l, open, err := e.signature()
		return err == nil && l.Digest == open
	}
	b, err := r.line(size)
	if err != nil || b == nil {
		return false
	}
	next, err := parseLine(b)
	return err == nil && next.Prev == e.Digest
}

// payload reads the large payload of an event.
func (r *Reader) payload(event *Event) error {
	large := event.Large
	if large.At != r.large {
		return r.problem(BadPayload, "the payload is at byte %d, expected %d", large.At, r.large)
	}
	b := make([]byte, large.Size+1)
	if _, err := io.ReadFull(r.payloads, b); err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.problem(BadPayload, "the payload of %d bytes is missing", large.Size)
	} else if err != nil {
		return err
	}
	if b[large.Size] != '\n' || cas.Sum(b[:large.Size]) != large.Digest {
		return r.problem(BadPayload, "the payload isn't %s", large.Digest)
	}
	// Its digest proves the canonical form.
	if err := event.takePayload(b[:large.Size]); err != nil {
		return r.problem(BadPayload, "%v", err)
	}
	r.large += large.Size + 1
	return nil
}
