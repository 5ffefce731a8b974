package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/jcs"
)

// The limits of a transcript.
const (
	MaxLine     = 8 << 10 // LF included
	MaxInline   = 4 << 10 // a larger payload is in the file of payloads
	MaxPayload  = 16 << 20
	MaxPayloads = 1<<33 - 1 // the limit of an archive's file
	MaxLines    = 1_000_000
	maxThread   = 240
	endLines    = 64 // of MaxLines, reserved for the end of a thread
)

// timeForm is the only form of a time.
const timeForm = "2006-01-02T15:04:05.000Z"

// A Position identifies a line. A transcript that has had a line must always have it.
type Position struct {
	Seq    int64      `json:"seq"`
	Digest cas.Digest `json:"digest"`
}

// A Large is the place of a payload in the file of payloads.
type Large struct {
	At     int64
	Digest cas.Digest
	Size   int64
}

// An Event is one line.
type Event struct {
	Seq     int64
	Time    time.Time // UTC, milliseconds
	Thread  string
	Type    Type
	Prev    cas.Digest
	Digest  cas.Digest // of the line, LF excluded
	Payload []byte     // in canonical form
	Large   *Large     // nil if the payload is in the line

	value map[string]any // the payload
}

// Decode reads the payload into a struct of this package.
func (e *Event) Decode(to any) error {
	if err := json.Unmarshal(e.Payload, to); err != nil {
		return fault.New(fault.Integrity, "line %d: %s: %v", e.Seq, e.Type, err).From(err)
	}
	return nil
}

// Position returns the place of the event.
func (e *Event) Position() Position { return Position{e.Seq, e.Digest} }

// CheckThread refuses an invalid thread id.
func CheckThread(id string) error {
	bad := len(id) > maxThread
	for segment := range strings.SplitSeq(id, "/") {
		bad = bad || portable.CheckID(segment) != nil
	}
	if bad {
		return fault.New(fault.Validation, "invalid thread id %.300q", id)
	}
	return nil
}

const (
	payloadMember = `{"payload":`
	largeMember   = `{"large":`
	prevMember    = `,"prev":"`
	seqMember     = `","seq":`
	threadMember  = `,"thread":"`
	timeMember    = `","time":"`
	typeMember    = `","type":"`
	lineEnd       = `"}`
)

// appendLine appends the line, without LF.
func (e *Event) appendLine(data []byte) []byte {
	if l := e.Large; l != nil {
		data = strconv.AppendInt(append(data, largeMember+`{"at":`...), l.At, 10)
		data = l.Digest.Append(append(data, `,"digest":"`...))
		data = append(strconv.AppendInt(append(data, `","size":`...), l.Size, 10), '}')
	} else {
		data = append(append(data, payloadMember...), e.Payload...)
	}
	data = e.Prev.Append(append(data, prevMember...))
	data = strconv.AppendInt(append(data, seqMember...), e.Seq, 10)
	data = append(append(data, threadMember...), e.Thread...)
	data = e.Time.UTC().AppendFormat(append(data, timeMember...), timeForm)
	return append(append(append(data, typeMember...), e.Type...), lineEnd...)
}

var errLine = errors.New("not a line of a transcript")

// parseLine parses exactly the form that appendLine writes. For a large payload, Payload stays nil.
func parseLine(data []byte) (*Event, error) {
	rest, ok := bytes.CutSuffix(data, []byte(lineEnd))
	if !ok {
		return nil, errLine
	}
	var texts [4]string // type, time, thread and the number
	for i, member := range []string{typeMember, timeMember, threadMember} {
		at := bytes.LastIndex(rest, []byte(member))
		if at < 0 {
			return nil, errLine
		}
		rest, texts[i] = rest[:at], string(rest[at+len(member):])
	}
	at := bytes.LastIndex(rest, []byte(seqMember))
	if at < 0 {
		return nil, errLine
	}
	rest, texts[3] = rest[:at], string(rest[at+len(seqMember):])
	event := &Event{Type: Type(texts[0]), Thread: texts[2], Digest: cas.Sum(data)}
	var err, err2, err3 error
	event.Time, err = time.Parse(timeForm, texts[1])
	event.Seq, err2 = strconv.ParseInt(texts[3], 10, 64)
	if at = bytes.LastIndex(rest, []byte(prevMember)); at < 0 {
		return nil, errLine
	}
	event.Prev, err3 = cas.ParseDigest(rest[at+len(prevMember):])
	if err = errors.Join(err, err2, err3, CheckThread(event.Thread)); err != nil {
		return nil, err
	}
	if err := event.content(rest[:at]); err != nil {
		return nil, err
	}
	if event.Seq < 1 || !bytes.Equal(event.appendLine(nil), data) {
		return nil, errLine
	}
	return event, nil
}

// content parses the first member of a line: the payload or its place.
func (e *Event) content(b []byte) error {
	if payload, ok := bytes.CutPrefix(b, []byte(payloadMember)); ok {
		if len(payload) > MaxInline {
			return errLine
		}
		return e.setPayload(payload)
	}
	text, ok := bytes.CutPrefix(b, []byte(largeMember))
	if !ok {
		return errLine
	}
	v, err := jcs.Parse(text)
	if err != nil {
		return err
	}
	m, _ := v.(map[string]any)
	at, okAt := m["at"].(float64)
	size, okSize := m["size"].(float64)
	digest, _ := m["digest"].(string)
	sum, err := cas.ParseDigest(digest)
	known := slices.Contains(SchemaTypes(), string(e.Type)) // otherwise reading the payload would find the error
	if !known || !okAt || !okSize || err != nil || at < 0 || at > MaxPayloads || size <= MaxInline ||
		size > MaxPayload {
		return errLine
	}
	e.Large = &Large{int64(at), sum, int64(size)}
	return nil
}

// setPayload sets a payload, which must be in canonical form.
func (e *Event) setPayload(b []byte) error {
	if err := e.takePayload(bytes.Clone(b)); err != nil {
		return err
	}
	again, err := jcs.Append(make([]byte, 0, len(b)), e.value)
	if err != nil || !bytes.Equal(again, b) {
		return errors.New("the payload is not in canonical form")
	}
	return nil
}

// takePayload sets a payload, which must fit the schema of its type.
func (e *Event) takePayload(data []byte) error {
	v, err := jcs.Parse(data)
	if err != nil {
		return err
	}
	m, _ := v.(map[string]any)
	if f, ok := m["format"].(string); ok && e.Type == TypeStarted && f != Format {
		return fault.New(fault.VersionMismatch, "the transcript has the format %.100q, this rye reads %q", f, Format)
	}
	if err := CheckSchema(string(e.Type), v); err != nil {
		return err
	}
	if e.Payload, e.value = data, m; e.Type == TypeDriver {
		return e.Decode(new(Driver)) // a schema can't check keys
	}
	return nil
}

// encode returns an event with a payload, without its place.
func encode(payload Payload) (*Event, error) {
	data, err := json.Marshal(payload)
	if err != nil {
		return nil, fault.New(fault.Validation, "%s: %v", payload.Type(), err).From(err)
	}
	val, err := jcs.Parse(data)
	if err == nil {
		data, err = jcs.Append(data[:0:0], val)
	}
	if err != nil {
		return nil, fault.New(fault.Validation, "%s: %v", payload.Type(), err).From(err)
	}
	if len(data) > MaxPayload {
		return nil, fault.New(fault.Limit, "%s: a payload of %d bytes, more than the limit of %d", payload.Type(),
			len(data),
			MaxPayload)
	}
	m, ok := val.(map[string]any)
	if !ok {
		return nil, fault.New(fault.Validation, "%s: the payload is not an object", payload.Type())
	}
	return &Event{Type: payload.Type(), Payload: data, value: m}, CheckSchema(string(payload.Type()), val)
}

// A Problem is the first place where a transcript differs from its original.
type Problem struct {
	Line   int64  `json:"line"` // from 1
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// The kinds of problems.
const (
	Edited     = "edited"     // a line was changed
	Missing    = "missing"    // lines before this one are missing
	Reordered  = "reordered"  // lines were moved or repeated
	Swapped    = "swapped"    // a line or all lines are of another thread
	BadPayload = "payload"    // a large payload was changed or is missing
	Forged     = "forged"     // a signature is invalid
	Untrusted  = "untrusted"  // a checkpoint's key isn't trusted
	Unsigned   = "unsigned"   // no checkpoint
	Unfinished = "unfinished" // no signed end
	Replaced   = "replaced"   // a line that existed before was replaced or removed
)

func (p *Problem) Error() string { return fmt.Sprintf("line %d: %s", p.Line, p.Reason) }

// Fault returns the problem as an error with a code.
func (p *Problem) Fault() *fault.Error {
	code := fault.Integrity
	switch p.Kind {
	case Forged:
		code = fault.SignatureInvalid
	case Untrusted:
		code = fault.UntrustedKey
	case Unsigned:
		code = fault.Unsigned
	}
	return fault.New(code, "%s", p).On("reason", "transcript").On("kind", p.Kind).On("line", p.Line).From(p)
}

func decodeAs[P Payload](e *Event) (Payload, error) {
	var p P
	err := e.Decode(&p)
	return p, err
}

// Says returns the payload as the struct of its type.
func (e *Event) Says() (Payload, error) {
	as := map[Type]func(*Event) (Payload, error){
		TypeStarted: decodeAs[Started], TypeDriver: decodeAs[Driver], TypeRequest: decodeAs[Request],
		TypeAnswer: decodeAs[Answer], TypeClassified: decodeAs[Classified], TypeCallStarted: decodeAs[CallStarted],
		TypeCallResult: decodeAs[CallResult], TypeArtifact: decodeAs[Artifact], TypeHook: decodeAs[Hook],
		TypeLimit: decodeAs[Limit], TypeWaiting: decodeAs[Waiting], TypeContinued: decodeAs[Continued],
		TypeCheckpoint: decodeAs[Checkpoint], TypeCompleted: decodeAs[Completed], TypeFailed: decodeAs[Failed],
		TypeCancelled: decodeAs[Cancelled], TypeHandedOff: decodeAs[HandedOff],
		TypeNodeStarted: decodeAs[NodeStarted], TypeNodeResult: decodeAs[NodeResult], TypeState: decodeAs[State],
		TypeReturned: decodeAs[Returned],
	}[e.Type]
	return as(e)
}
