package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Self is the thread in whose name a call is made.
type Self struct {
	Thread string
	Allows func(verb, kind, id string) error // by its permissions
}

type selfKey struct{}

// As returns a context for the calls of a thread.
func As(ctx context.Context, s *Self) context.Context { return context.WithValue(ctx, selfKey{}, s) }

// SelfOf returns the thread whose call it is, nil for none.
func SelfOf(ctx context.Context) *Self {
	s, _ := ctx.Value(selfKey{}).(*Self)
	return s
}

// May refuses what a thread may not do with another: with those below it everything, with others what its permissions
// for threads say, as in execute:thread:acme/*. The verb is load for reading and execute for everything else.
func (c *Controller) May(ctx context.Context, s *Self, verb, id string) error {
	below := c.Below(ctx, s.Thread, id)
	if below == nil {
		return nil
	}
	if allowed := s.Allows(verb, "thread", id); allowed != nil {
		return fault.Of(below).
			Because(fmt.Sprintf(
				"a thread may act on the threads below it; for others its directive needs %s:thread:%s", verb,
				id)).Try("rye docs operations")
	}
	return nil
}

// circular refuses a wait of a thread for itself, or for one that is above it and so may wait for it.
func (c *Controller) circular(ctx context.Context, s *Self, id string) error {
	if id != s.Thread && c.Below(ctx, id, s.Thread) != nil {
		return nil
	}
	return fault.New(fault.Conflict, "the thread %s would wait for itself", s.Thread).On("thread", id).
		Because("a thread can't wait for itself or for a thread above it").Try("rye thread tree " + fault.Quote(id)).
		Permanent()
}

// Active lists the threads that have not ended: of the project, or those below a thread.
func (c *Controller) Active(ctx context.Context, below string) ([]*Node, error) {
	rows, money, err := c.all(ctx)
	if err != nil {
		return nil, err
	}
	nodes := []*Node{}
	for _, row := range slices.Backward(rows) {
		if row.State.Ended() || row.Gone() != nil || below != "" && c.Below(ctx, below, row.ID) != nil {
			continue
		}
		nodes = append(nodes, nodeOf(row, money[row.ID]))
	}
	return nodes, nil
}

// Text returns the conversation of a thread as text, its last lines if tail isn't 0.
func (c *Controller) Text(row *roster.Thread, tail int) (string, error) {
	if err := row.Gone(); err != nil {
		return "", err
	}
	var lines []string
	say := func(head string, parts ...any) {
		var text strings.Builder
		for _, part := range parts {
			write(&text, part)
		}
		if text.Len() > 0 {
			lines = append(append(lines, head), strings.Split(strings.TrimRight(text.String(), "\n"), "\n")...)
		}
	}
	for e, err := range transcript.Read(row.Dir()) {
		if err != nil { // its driver may be writing the rest
			break
		}
		p, err := e.Says()
		if err != nil {
			return "", err
		}
		switch request := p.(type) {
		case transcript.Request:
			for _, v := range request.Messages {
				if m, _ := v.(map[string]any); m["role"] == "user" || m["role"] == "system" {
					say("[input]", m["text"])
				}
			}
		case transcript.Answer:
			say("[response]", request.Text)
		case transcript.CallStarted:
			say("[call]", request.Name, request.Ref, request.Input)
		case transcript.CallResult:
			say("[result "+request.Status+"]", request.Output)
		}
	}
	if tail > 0 {
		lines = lines[max(0, len(lines)-tail):]
	}
	return strings.Join(lines, "\n"), nil
}
