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
	result := &record{limits: limits.None()}
	var requested []any
	var answered *transcript.Answer
	// the model's ids of calls, and their results
	ids, done := map[string]string{}, map[string]*transcript.CallResult{}
	for event, err := range transcript.Read(dir) {
		if err != nil {
			return nil, err
		}
		payload, err := event.Says()
		if err != nil {
			return nil, err
		}
		switch payload := payload.(type) {
		case transcript.Started:
			result.started = payload
			result.limits.Take(&payload.Limits)
			result.limits.Depth = payload.Depth
		case transcript.Continued:
			if payload.Limits != nil {
				result.limits.Take(payload.Limits)
			}
		case transcript.Request:
			if int(payload.Kept) > len(requested) {
				return nil, fault.New(fault.Integrity, "the transcript of %s keeps %d messages, and has %d",
					event.Thread, payload.Kept, len(requested))
			}
			requested = append(requested[:payload.Kept:payload.Kept], payload.Messages...)
			answered = nil
			clear(done)
		case transcript.Answer:
			answered = &payload
		case transcript.CallStarted:
			ids[payload.Call] = payload.ID
		case transcript.CallResult:
			done[ids[payload.Call]] = &payload
		}
	}
	progress, err := control.SoFar(dir)
	if err != nil {
		return nil, err
	}
	result.used = progress.Used()
	result.messages = requested
	if answered == nil {
		return result, nil
	}
	answer, err := provider.Answered(answered)
	if err != nil {
		return nil, err
	}
	result.messages = append(result.messages, control.Values(answer.Message()))
	for _, c := range answered.Calls {
		message := map[string]any{"role": "tool", "call_id": c.ID}
		if known := done[c.ID]; known == nil {
			text, err := jcs.Append(nil, control.FaultOf(replay.Unknown(c.Name)))
			if err != nil {
				return nil, err
			}
			message["text"], message["failed"] = string(text), true
		} else {
			message["text"], _ = known.Output.(string)
			if known.Status != transcript.CallOK {
				message["failed"] = true
			}
		}
		result.messages = append(result.messages, message)
	}
	return result, nil
}
