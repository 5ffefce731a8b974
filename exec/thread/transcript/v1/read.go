package v1

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"time"

	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
)

// Format is the name of the format in reports.
const Format = "rye transcript/1"

// MaxLine bounds a line, including LF, in bytes.
const MaxLine = 16 << 20

// An Event is one line.
type Event struct {
	Line    int64 // from 1
	Time    time.Time
	Thread  string
	Type    string
	Payload map[string]any // JSON values
}

// Is reports whether a file's first line is that of a rye 1 transcript.
func Is(line []byte) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(line, &m) == nil && m["event_type"] != nil && m["prev"] == nil
}

// A Reader reads the events of a transcript. It checks no signatures.
type Reader struct {
	Torn bool // the last line is incomplete

	br     *bufio.Reader
	line   int64
	offset int64 // of the last line read
	end    int64 // after that line
	before hash.Hash
	last   []byte // the last line read, not yet in before
	thread string
}

// NewReader returns a Reader.
func NewReader(r io.Reader) *Reader {
	return &Reader{br: bufio.NewReaderSize(r, 64<<10), before: sha256.New()}
}

func (r *Reader) problem(kind, format string, args ...any) error {
	return &transcript.Problem{Line: r.line, Kind: kind, Reason: fmt.Sprintf(format, args...)}
}

// Next returns the next event, io.EOF at the end, and a *transcript.Problem for an invalid line.
func (r *Reader) Next() (*Event, error) {
	r.before.Write(r.last)
	r.offset = r.end
	r.line++
	b, err := r.whole()
	if err == io.EOF {
		r.Torn, r.last = len(b) > 0, nil
		return nil, io.EOF
	}
	if err != nil {
		return nil, err
	}
	r.last, r.end = b, r.end+int64(len(b))
	event, err := parse(bytes.TrimRight(b, "\r\n"))
	if err != nil {
		return nil, r.problem(transcript.Edited, "%v", err)
	}
	if r.thread == "" {
		r.thread = event.Thread
	}
	if event.Thread != r.thread {
		return nil, r.problem(transcript.Swapped, "it belongs to the thread %s", event.Thread)
	}
	event.Line = r.line
	return event, nil
}

// whole reads a line with its LF.
func (r *Reader) whole() ([]byte, error) {
	var b []byte
	for {
		part, err := r.br.ReadSlice('\n')
		b = append(b, part...)
		if len(b) > MaxLine {
			return nil, r.problem(transcript.Edited, "a line of more than %d bytes", MaxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return b, err
		}
	}
}

var errLine = errors.New("not a line of a transcript")

// parse parses a line.
func parse(b []byte) (*Event, error) {
	v, err := jcs.Parse(b)
	if err != nil {
		return nil, err
	}
	m, _ := v.(map[string]any)
	at, okTime := m["timestamp"].(float64)
	event := &Event{}
	var ok, okType, okPayload bool
	event.Thread, ok = m["thread_id"].(string)
	event.Type, okType = m["event_type"].(string)
	event.Payload, okPayload = m["payload"].(map[string]any)
	if !ok || !okType || !okPayload || !okTime || at < 0 || at > 1<<40 || event.Type == "" ||
		transcript.CheckThread(event.Thread) != nil {
		return nil, errLine
	}
	seconds, part := math.Modf(at)
	event.Time = time.Unix(int64(seconds), int64(part*1e9)).UTC()
	return event, nil
}

// text returns the text of a member, or "".
func (e *Event) text(name string) string {
	s, _ := e.Payload[name].(string)
	return s
}

func (e *Event) number(name string) float64 {
	f, _ := e.Payload[name].(float64)
	return f
}
