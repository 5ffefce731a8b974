package resume

import (
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
)

// A record is a thread as its transcript has it.
type record struct {
	started  transcript.Started
	limits   limits.Set // that it was given last
	used     transcript.Cost
	messages []any // that were said, the last answer and the results of its calls too
}

// read reads a transcript.
func read(dir string) (*record, error) {
	r := &record{limits: limits.None()}
	var requested []any
	var answered *transcript.Answer
	// the model's ids of calls, and their results
	ids, done := map[string]string{}, map[string]*transcript.CallResult{}
	for e, err := range transcript.Read(dir) {
		if err != nil {
			return nil, err
		}
		p, err := e.Says()
		if err != nil {
			return nil, err
		}
		switch p := p.(type) {
		case transcript.Started:
			r.started = p
			r.limits.Take(&p.Limits)
			r.limits.Depth = p.Depth
		case transcript.Continued:
			if p.Limits != nil {
				r.limits.Take(p.Limits)
			}
		case transcript.Request:
			if int(p.Kept) > len(requested) {
				return nil, fault.New(fault.Integrity, "the transcript of %s keeps %d messages, and has %d", e.Thread,
					p.Kept, len(requested))
			}
			requested = append(requested[:p.Kept:p.Kept], p.Messages...)
			answered = nil
			clear(done)
		case transcript.Answer:
			answered = &p
		case transcript.CallStarted:
			ids[p.Call] = p.ID
		case transcript.CallResult:
			done[ids[p.Call]] = &p
		}
	}
	progress, err := control.SoFar(dir)
	if err != nil {
		return nil, err
	}
	r.used = progress.Used()
	r.messages = requested
	if answered == nil {
		return r, nil
	}
	said, err := provider.Answered(answered)
	if err != nil {
		return nil, err
	}
	r.messages = append(r.messages, control.Values(said.Message()))
	for _, c := range answered.Calls {
		m := map[string]any{"role": "tool", "call_id": c.ID}
		if of := done[c.ID]; of == nil {
			text, err := jcs.Append(nil, control.FaultOf(replay.Unknown(c.Name)))
			if err != nil {
				return nil, err
			}
			m["text"], m["failed"] = string(text), true
		} else {
			m["text"], _ = of.Output.(string)
			if of.Status != transcript.CallOK {
				m["failed"] = true
			}
		}
		r.messages = append(r.messages, m)
	}
	return r, nil
}
