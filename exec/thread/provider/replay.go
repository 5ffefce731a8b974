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
	replayModel := &replayModel{choice: c, raw: raw}
	if _, err := os.Stat(dir); err != nil {
		return nil, fault.New(fault.NotFound, "no transcript in %q", dir).From(err)
	}
	for event, err := range transcript.Read(dir) {
		if err != nil {
			return nil, err
		}
		switch event.Type {
		case transcript.TypeRequest:
			t := recorded{line: event.Seq}
			if err := event.Decode(&t.request); err != nil {
				return nil, err
			}
			replayModel.turns = append(replayModel.turns, t)
		case transcript.TypeAnswer:
			t := &replayModel.turns[len(replayModel.turns)-1] // the reader has checked that a request precedes it
			t.answer = new(transcript.Answer)
			if err := event.Decode(t.answer); err != nil {
				return nil, err
			}
		case transcript.TypeClassified:
			t := &replayModel.turns[len(replayModel.turns)-1]
			t.failure = new(transcript.Classified)
			if err := event.Decode(t.failure); err != nil {
				return nil, err
			}
		}
	}
	return replayModel, nil
}

func (r *replayModel) Name() string        { return r.choice.Model }
func (r *replayModel) String() string      { return Replayed }
func (r *replayModel) Provider() *Provider { return r.choice.Provider }
func (r *replayModel) Digest() cas.Digest  { return r.raw }

// Ask implements Model from the record. A request that differs from the recorded one ends the thread.
func (r *replayModel) Ask(_ context.Context, q *Request, digest cas.Digest, live func(string)) (answer *Answer,
	undone bool,
	err error) {
	if r.next >= len(r.turns) {
		return nil, true, fault.New(fault.Conflict, "the record has no further answer: it ends after %s",
			fault.Count(int64(len(r.turns)), "request"))
	}
	recorded := r.turns[r.next]
	r.next++
	if digest != recorded.request.Digest {
		return nil, true, r.differs(q)
	}
	switch {
	case recorded.answer != nil:
		if live != nil {
			live(recorded.answer.Text)
		}
		answer, err = Answered(recorded.answer)
		return answer, false, err
	case recorded.failure != nil:
		f := Failed(recorded.failure, r)
		f.After = 0
		return nil, Undone(recorded.failure), f
	}
	return nil, true, fault.New(fault.Conflict, "the record has no answer to the request in line %d", recorded.line)
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
func Answered(answer *transcript.Answer) (*Answer, error) {
	out := &Answer{Text: answer.Text, Stop: answer.Stop}
	for _, c := range answer.Calls {
		out.Calls = append(out.Calls, ToolCall(c))
	}
	if u := answer.Usage; u != nil {
		out.Usage = Usage(*u)
	}
	if answer.Opaque == nil {
		return out, nil
	}
	b, err := json.Marshal(answer.Opaque)
	return out, cmp.Or(err, json.Unmarshal(b, &out.Opaque))
}

// differs returns an error with the first message or tool that differs from the recorded request. An earlier
// message can differ, because the record has only what each request added.
func (r *replayModel) differs(request *Request) error {
	var messages, tools []any
	for _, t := range r.turns[:r.next] {
		messages = append(messages[:min(int(t.request.Kept), len(messages))], t.request.Messages...)
		if t.request.Tools != nil {
			tools = t.request.Tools
		}
	}
	failure := fault.New(fault.Conflict, "the thread asks the model something else than the record: line %d",
		r.turns[r.next-1].line).
		On("line", r.turns[r.next-1].line)
	old, now := first(messages, request.Messages)
	if old == now {
		old, now = first(tools, request.Tools)
	}
	if old == now {
		return failure.Because("the messages and the tools are the same")
	}
	old, now = replay.Apart(old, now)
	return failure.Because("recorded: "+old, "now:      "+now)
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
