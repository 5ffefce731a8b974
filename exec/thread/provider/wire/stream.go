package wire

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rye-build/rye/exec/audit/redact"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/manifest/jcs"
)

const (
	maxLine = 8 << 20 // of an event as a line of JSON: an escaped httpclient.MaxEvent
	// MaxCalls bounds the calls of an answer.
	MaxCalls = 1024
)

// A Stream is the sink of a call with a streamed answer. It reads the lines that the primitive writes for events,
// passes on the deltas, and returns the answer after the call. It is for one call.
type Stream struct {
	format  *Format
	events  events
	deltas  Deltas
	line    []byte // incomplete
	skips   bool   // the line is too long
	broken  bool   // a part of the answer is lost
	failure *Failure
	hide    *redact.Redactor // may be nil
	flush   []func() error
}

// Hide implements sink.Gatherer: a service may send its key in parts.
func (s *Stream) Hide(r *redact.Redactor) {
	s.hide = r
	over := func(to func(string)) func(string) {
		if to == nil {
			return nil
		}
		pieces := r.Stream(func(b []byte) error { to(string(b)); return nil })
		s.flush = append(s.flush, pieces.Flush)
		return func(text string) { _, _ = pieces.Write([]byte(text)) } // the function above never fails
	}
	s.deltas = Deltas{Text: over(s.deltas.Text), Reasoning: over(s.deltas.Reasoning)}
}

// redacted removes secrets from an answer.
func (s *Stream) redacted(a *Answer) {
	a.Text = s.hide.Text(a.Text)
	for i := range a.Calls {
		c := &a.Calls[i]
		c.ID, c.Name, c.Raw = s.hide.Text(c.ID), s.hide.Text(c.Name), s.hide.Text(c.Raw)
		if c.Input != nil {
			c.Input = object(s.hide.Result(c.Input))
		}
	}
	if a.Opaque != nil {
		a.Opaque.Blocks = list(s.hide.Result(a.Opaque.Blocks))
	}
}

// Emit implements primitive.Sink.
func (s *Stream) Emit(of primitive.Stream, b []byte) error {
	if of != primitive.Stdout {
		return nil
	}
	for len(b) > 0 {
		part, rest, ended := bytes.Cut(b, []byte("\n"))
		b = rest
		if s.skips = s.skips || len(s.line)+len(part) > maxLine; !s.skips {
			s.line = append(s.line, part...)
		}
		if !ended {
			break
		}
		if !s.skips {
			s.take(s.line)
		}
		s.line, s.skips = s.line[:0], false
	}
	return nil
}

// take reads a line. It ignores lines that aren't events, because the sink also gets a body that isn't a stream.
func (s *Stream) take(line []byte) {
	v, err := jcs.Parse(line)
	if err != nil {
		return
	}
	s.Event(v)
}

// Event reads one event in the primitive's form: {"data": …}.
func (s *Stream) Event(e any) {
	data, has := object(e)["data"]
	if !has {
		return
	}
	fields := object(data)
	if fields == nil {
		// Compatible services end with [DONE]. Other text is JSON that package jcs refuses, or invalid.
		raw := text(data)
		if strings.TrimSpace(raw) == "[DONE]" {
			fields = map[string]any{done: true}
		} else {
			v := decode(raw)
			if fields = object(v); v == nil && strings.HasPrefix(strings.TrimSpace(raw), "{") {
				s.broken = true
			}
		}
	}
	if fields == nil || s.failure != nil {
		return
	}
	s.failure = s.events.event(fields, s.deltas)
}

// Failure returns the error that the service reported in the stream, or nil.
func (s *Stream) Failure() *Failure { return s.failure }

// Answer returns the answer from the events. Call it once. parsed means that calls may be text.
func (s *Stream) Answer(parsed bool) (*Answer, *Failure) {
	for _, flush := range s.flush {
		_ = flush() // as above
	}
	if s.failure != nil {
		return nil, s.failure
	}
	answer, whole := s.events.answer()
	// Both are like a broken connection, and worth a retry.
	switch {
	case s.broken:
		return nil, &Failure{Type: "ConnectionError", Message: "a part of the answer is not valid JSON"}
	case !whole:
		return nil, &Failure{Type: "ConnectionError", Message: "the answer ends in the middle"}
	}
	if s.hide != nil {
		s.redacted(answer)
	}
	if no := s.format.finish(answer, parsed); no != nil {
		return nil, no
	}
	return answer, nil
}

// done is the member of the event that ends a stream of chat_completion.
const done = "\x00done"

// A gathering collects the calls of an answer while their parts arrive.
type gathering struct {
	order []*piece
	at    map[int64]*piece
}

type piece struct {
	id, name  string
	arguments strings.Builder
}

// piece returns the call at an index, a new one if needed, or nil if there are too many.
func (g *gathering) piece(index int64, id string) *piece {
	part := g.at[index]
	// Some services give every call the index 0 and distinguish calls by id.
	if part != nil && (id == "" || part.id == "" || part.id == id) {
		return part
	}
	if len(g.order) == MaxCalls {
		return nil
	}
	if g.at == nil {
		g.at = map[int64]*piece{}
	}
	part = &piece{}
	g.at[index] = part
	g.order = append(g.order, part)
	return part
}

// calls returns the calls.
func (g *gathering) calls() (all []ToolCall) {
	for _, p := range g.order {
		c := ToolCall{ID: p.id, Name: p.name}
		arguments(&c, p.arguments.String())
		all = append(all, c)
	}
	return all
}

var tooManyCalls = &Failure{Type: "AnswerError",
	Message: fmt.Sprintf("the answer has more than %d tool calls", MaxCalls)}
