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
	maxLine = 8 << 20 // of an event as a line of JSON: httpclient.MaxEvent, escaped
	// MaxCalls is how many calls an answer may have.
	MaxCalls = 1024
)

// A Stream is the sink of a call whose answer is streamed. It reads the lines that the primitive makes of the events,
// gives the deltas as they come, and has the answer when the call is over. It serves one call.
type Stream struct {
	format  *Format
	events  events
	deltas  Deltas
	line    []byte // incomplete
	skips   bool   // the line is too long, and is skipped
	broken  bool   // a piece of the answer is lost
	failure *Failure
	hide    *redact.Redactor // nil for none
	flush   []func() error
}

// Hide implements sink.Gatherer: a service that says its key may say it in pieces.
func (s *Stream) Hide(r *redact.Redactor) {
	s.hide = r
	over := func(to func(string)) func(string) {
		if to == nil {
			return nil
		}
		pieces := r.Stream(func(b []byte) error { to(string(b)); return nil })
		s.flush = append(s.flush, pieces.Flush)
		return func(text string) { _, _ = pieces.Write([]byte(text)) } // the emitting function has no errors
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

// take reads a line. What is no event is nothing: a body that isn't a stream also comes to the sink.
func (s *Stream) take(line []byte) {
	v, err := jcs.Parse(line)
	if err != nil {
		return
	}
	s.Event(v)
}

// Event reads one event in the words of the primitive: {"data": …}.
func (s *Stream) Event(e any) {
	data, has := object(e)["data"]
	if !has {
		return
	}
	m := object(data)
	if m == nil {
		// [DONE] is how the compatible services end, and other text is JSON that package jcs refuses, or nonsense.
		raw := text(data)
		if strings.TrimSpace(raw) == "[DONE]" {
			m = map[string]any{done: true}
		} else {
			v := decode(raw)
			if m = object(v); v == nil && strings.HasPrefix(strings.TrimSpace(raw), "{") {
				s.broken = true
			}
		}
	}
	if m == nil || s.failure != nil {
		return
	}
	s.failure = s.events.event(m, s.deltas)
}

// Failure returns the error that the service told in the stream; nil if it told none.
func (s *Stream) Failure() *Failure { return s.failure }

// Answer returns what the events say, once. parsed says that calls may be text.
func (s *Stream) Answer(parsed bool) (*Answer, *Failure) {
	for _, flush := range s.flush {
		_ = flush() // as above
	}
	if s.failure != nil {
		return nil, s.failure
	}
	a, whole := s.events.answer()
	// Both are as good as a connection that broke, and as worth another try.
	switch {
	case s.broken:
		return nil, &Failure{Type: "ConnectionError", Message: "a part of the answer is not valid JSON"}
	case !whole:
		return nil, &Failure{Type: "ConnectionError", Message: "the answer ends in the middle"}
	}
	if s.hide != nil {
		s.redacted(a)
	}
	if no := s.format.finish(a, parsed); no != nil {
		return nil, no
	}
	return a, nil
}

// done stands in the event that ends a stream of chat_completion.
const done = "\x00done"

// A gathering collects the calls of an answer as their pieces come.
type gathering struct {
	order []*piece
	at    map[int64]*piece
}

type piece struct {
	id, name  string
	arguments strings.Builder
}

// piece returns the call at an index, made if it is new; nil if there are too many.
func (g *gathering) piece(index int64, id string) *piece {
	p := g.at[index]
	// Some services give every call the index 0, and tell them apart by their ids.
	if p != nil && (id == "" || p.id == "" || p.id == id) {
		return p
	}
	if len(g.order) == MaxCalls {
		return nil
	}
	if g.at == nil {
		g.at = map[int64]*piece{}
	}
	p = &piece{}
	g.at[index] = p
	g.order = append(g.order, p)
	return p
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
