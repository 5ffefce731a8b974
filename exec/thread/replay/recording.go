package replay

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
)

// RecordingExt is the extension of a recording's file.
const RecordingExt = ".jsonl"

// RecordingDir returns where the recordings of a directive are, below the directory of directives.
func RecordingDir(directive string) string {
	return path.Join(path.Dir(directive), "_recordings", path.Base(directive))
}

// An RecordedEvent is a line of a recording.
type RecordedEvent struct {
	Type    transcript.Type
	Payload map[string]any // JSON's values
}

// varying are the members of payloads that differ from run to run.
var varying = map[transcript.Type][]string{
	transcript.TypeStarted:     {"agents", "lock", "principal", "set", "parent", "continues"},
	transcript.TypeAnswer:      {"duration"},
	transcript.TypeCallStarted: {"digest", "child", "key"},
	transcript.TypeCallResult:  {"duration", "exec", "receipt"},
	transcript.TypeWaiting:     {"until"},
	transcript.TypeCheckpoint:  {"sig"},
	transcript.TypeContinued:   {"principal"},
	transcript.TypeCancelled:   {"by"},
}

// NewRecordedEvent returns what a recording has of an event; nil for one that it doesn't have.
func NewRecordedEvent(event *transcript.Event) (*RecordedEvent, error) {
	if event.Type == transcript.TypeDriver {
		return nil, nil
	}
	v, err := jcs.Parse(event.Payload)
	if err != nil {
		return nil, err
	}
	payload, _ := v.(map[string]any)
	for _, name := range varying[event.Type] {
		delete(payload, name)
	}
	for _, name := range []string{"directive", "loop", "provider"} {
		if item, ok := payload[name].(map[string]any); ok {
			delete(item, "digest")
		}
	}
	if cost, ok := payload["cost"].(map[string]any); ok {
		delete(cost, "elapsed")
	}
	switch event.Type {
	case transcript.TypeStarted:
		payload["policy"] = []any{}
	case transcript.TypeHandedOff:
		payload["next"] = "next"
	}
	return &RecordedEvent{event.Type, payload}, nil
}

// RecordingOf returns what a recording has of the transcript in a thread's directory.
func RecordingOf(dir string) ([]*RecordedEvent, error) {
	var all []*RecordedEvent
	for e, err := range transcript.Read(dir) {
		if err != nil {
			return nil, err
		}
		kept, err := NewRecordedEvent(e)
		if err != nil {
			return nil, err
		}
		if kept != nil {
			all = append(all, kept)
		}
	}
	return all, nil
}

// Append appends the line of an event, with LF.
func (r *RecordedEvent) Append(b []byte) ([]byte, error) {
	b, err := jcs.Append(b, map[string]any{"type": string(r.Type), "payload": r.Payload})
	return append(b, '\n'), err
}

// WriteRecording writes a recording.
func WriteRecording(w io.Writer, events []*RecordedEvent) error {
	for _, e := range events {
		b, err := e.Append(nil)
		if err == nil {
			_, err = w.Write(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// IsRecording reports whether a file that begins with this line is a recording.
func IsRecording(line []byte) bool {
	e, err := parse(line)
	return err == nil && e.Type == transcript.TypeStarted
}

const maxLine = transcript.MaxPayload + 1<<10

// ReadRecording reads a recording. An error names the line.
func ReadRecording(r io.Reader) ([]*RecordedEvent, error) {
	var all []*RecordedEvent
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		event, err := parse(lines.Bytes())
		if err == nil && (n == 1) != (event.Type == transcript.TypeStarted) {
			err = errors.New("thread_started must be the first event, and no other")
		}
		if err == nil && n > transcript.MaxLines/2 {
			err = errors.New("too many events")
		}
		if err != nil {
			return nil, invalid(n, err)
		}
		all = append(all, event)
	}
	if err := lines.Err(); err != nil {
		return nil, invalid(len(all)+1, err)
	}
	if len(all) == 0 {
		return nil, fault.New(fault.Parsing, "the recording is empty")
	}
	return all, nil
}

func invalid(line int, err error) error {
	return fault.New(fault.Parsing, "line %d of the recording: %v", line, err).On("line", line).From(err)
}

// parse reads a line.
func parse(b []byte) (*RecordedEvent, error) {
	v, err := jcs.Parse(bytes.TrimSpace(b))
	if err != nil {
		return nil, err
	}
	fields, _ := v.(map[string]any)
	name, okType := fields["type"].(string)
	payload, okPayload := fields["payload"].(map[string]any)
	if !okType || !okPayload || len(fields) != 2 {
		return nil, errors.New("not an object of type and payload")
	}
	event := &RecordedEvent{transcript.Type(name), payload}
	switch event.Type {
	case transcript.TypeDriver:
		return nil, fmt.Errorf("a recording has no %s", event.Type)
	case transcript.TypeCheckpoint: // without its signature
		if turn, ok := payload["turn"].(float64); !ok || turn < 0 || turn != math.Trunc(turn) ||
			turn > transcript.MaxLines || len(payload) != 1 {
			return nil, errors.New("checkpoint: expected a turn and nothing else")
		}
		return event, nil
	}
	return event, transcript.CheckSchema(name, payload)
}

// says returns the payload as package transcript writes it.
func (r *RecordedEvent) says() (transcript.Payload, error) {
	b, err := jcs.Append(nil, r.Payload)
	if err != nil {
		return nil, err
	}
	return (&transcript.Event{Type: r.Type, Payload: b}).Says()
}

// moment is the time of every event that is restored.
var moment = time.Unix(1_795_000_000, 0)

// RestoreRecording writes the events of a recording as the transcript of a new directory, signed by a key that is
// thrown away: it can be read as any other, and proves nothing.
func RestoreRecording(dir string, events []*RecordedEvent) (err error) {
	first, err := events[0].says()
	if err != nil {
		return err
	}
	started, ok := first.(transcript.Started)
	if !ok {
		return fault.New(fault.Parsing, "the recording doesn't begin with thread_started")
	}
	own, err := key.Generate(rand.Reader)
	if err != nil {
		return err
	}
	writer, err := transcript.Create(dir, "recording", started, transcript.Driver{Epoch: 1},
		transcript.Options{Key: own, Now: func() time.Time { return moment }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	line := 2
	for batch := range slices.Chunk(events[1:], maxBatch) {
		all := make([]transcript.Payload, len(batch))
		for i, e := range batch {
			if all[i], err = e.says(); err != nil {
				return invalid(line+i, err)
			}
		}
		if _, err := writer.Append(all...); err != nil {
			return invalid(line, err)
		}
		line += len(batch)
	}
	if events[len(events)-1].Type != transcript.TypeCheckpoint {
		_, err = writer.Append(transcript.Checkpoint{})
	}
	return err
}

// maxBatch bounds how many events are written at once: each batch is synced.
const maxBatch = 1000
