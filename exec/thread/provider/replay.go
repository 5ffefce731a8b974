package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// Replayed is the model's name in a thread that replays another thread's answers.
const Replayed = "replay"

// A replayModel returns the answers of a recorded thread.
type replayModel struct {
	choice Choice
	raw    cas.Digest
	turns  []recorded
	next   int
}

// A recorded is a request in the record with its answer or failure.
type recorded struct {
	line    int64
	request transcript.Request
	answer  *transcript.Answer
	failure *transcript.Classified
}

// openReplay reads the record in a thread's directory.
func openReplay(dir string, c Choice, raw cas.Digest) (Model, error) {
	r := &replayModel{choice: c, raw: raw}
	if _, err := os.Stat(dir); err != nil {
		return nil, fault.New(fault.NotFound, "no transcript in %q", dir).From(err)
	}
	for e, err := range transcript.Read(dir) {
		if err != nil {
			return nil, err
		}
		switch e.Type {
		case transcript.TypeRequest:
			t := recorded{line: e.Seq}
			if err := e.Decode(&t.request); err != nil {
				return nil, err
			}
			r.turns = append(r.turns, t)
		case transcript.TypeAnswer:
			t := &r.turns[len(r.turns)-1] // the reader has checked that a request precedes it
			t.answer = new(transcript.Answer)
			if err := e.Decode(t.answer); err != nil {
				return nil, err
			}
		case transcript.TypeClassified:
			t := &r.turns[len(r.turns)-1]
			t.failure = new(transcript.Classified)
			if err := e.Decode(t.failure); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

func (r *replayModel) Name() string        { return r.choice.Model }
func (r *replayModel) String() string      { return Replayed }
func (r *replayModel) Provider() *Provider { return r.choice.Provider }
func (r *replayModel) Digest() cas.Digest  { return r.raw }

// Ask implements Model from the record. A request that differs from the recorded one ends the thread.
func (r *replayModel) Ask(_ context.Context, q *Request, digest cas.Digest, live func(string)) (a *Answer, undone bool,
	err error) {
	if r.next >= len(r.turns) {
		return nil, true, fault.New(fault.Conflict, "the record has no further answer: it ends after %s",
			fault.Count(int64(len(r.turns)), "request"))
	}
	t := r.turns[r.next]
	r.next++
	if digest != t.request.Digest {
		return nil, true, r.differs(q)
	}
	switch {
	case t.answer != nil:
		if live != nil {
			live(t.answer.Text)
		}
		a, err = Answered(t.answer)
		return a, false, err
	case t.failure != nil:
		f := Failed(t.failure, r)
		f.After = 0
		return nil, Undone(t.failure), f
	}
	return nil, true, fault.New(fault.Conflict, "the record has no answer to the request in line %d", t.line)
}

// Failed returns a recorded failure as a Failure. Hooks and the classification see the same fields as at the
// recording.
func Failed(c *transcript.Classified, m Model) *Failure {
	f := &Failure{Provider: m.Provider().Ref.ID, Status: c.Error.Status, Type: c.Class, Code: c.Said, After: c.Delay}
	f.Message = strings.TrimPrefix(c.Error.Message, f.Head())
	return f
}

// Lost returns the most tokens that a failed call may have used, or nil if the record shows that it used none.
func Lost(was *transcript.Classified, input, most int64) *transcript.Usage {
	if was != nil && was.Usage == nil {
		return nil
	}
	return &transcript.Usage{Input: input, Output: most}
}

// AddUsage adds a presumed usage to that of a thread.
func AddUsage(c transcript.Cost, u *transcript.Usage) transcript.Cost {
	if u != nil {
		c.InputTokens, c.OutputTokens = c.InputTokens+u.Input, c.OutputTokens+u.Output
	}
	return c
}

// Undone reports whether the service did nothing for a failed call.
func Undone(c *transcript.Classified) bool { return c.Cost == 0 && c.Usage == nil }

// Answered returns a recorded answer as an Answer.
func Answered(a *transcript.Answer) (*Answer, error) {
	out := &Answer{Text: a.Text, Stop: a.Stop}
	for _, c := range a.Calls {
		out.Calls = append(out.Calls, ToolCall(c))
	}
	if u := a.Usage; u != nil {
		out.Usage = Usage(*u)
	}
	if a.Opaque == nil {
		return out, nil
	}
	b, err := json.Marshal(a.Opaque)
	return out, cmp.Or(err, json.Unmarshal(b, &out.Opaque))
}

// differs returns an error with the first message or tool that differs from the recorded request. An earlier
// message can differ, because the record has only what each request added.
func (r *replayModel) differs(q *Request) error {
	var messages, tools []any
	for _, t := range r.turns[:r.next] {
		messages = append(messages[:min(int(t.request.Kept), len(messages))], t.request.Messages...)
		if t.request.Tools != nil {
			tools = t.request.Tools
		}
	}
	e := fault.New(fault.Conflict, "the thread asks the model something else than the record: line %d",
		r.turns[r.next-1].line).
		On("line", r.turns[r.next-1].line)
	old, now := first(messages, q.Messages)
	if old == now {
		old, now = first(tools, q.Tools)
	}
	if old == now {
		return e.Because("the messages and the tools are the same")
	}
	old, now = replay.Apart(old, now)
	return e.Because("recorded: "+old, "now:      "+now)
}

// first returns the first elements that differ, as canonical JSON. If none does, both are equal.
func first[T any](recorded []any, now []T) (was, is string) {
	for i := range max(len(recorded), len(now)) {
		was, is = nothing, nothing
		if i < len(recorded) {
			was = shown(recorded[i])
		}
		if i < len(now) {
			is = shown(now[i])
		}
		if was != is {
			break
		}
	}
	return was, is
}

// nothing is shown for a missing element.
const nothing = "nothing"

func shown(v any) string {
	b, err := canonical(nil, v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
