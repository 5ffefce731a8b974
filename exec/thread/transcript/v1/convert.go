package v1

import (
	"math"
	"time"

	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Converter converts events to payloads of package transcript, for display.
type Converter struct {
	turn  int64
	model string
	next  string // the thread that continues this one
}

// Says returns the payload for an event, or nil if the event adds nothing to others.
func (c *Converter) Says(event *Event) transcript.Payload {
	switch event.Type {
	case "cognition_in":
		c.turn++
		return transcript.Request{Turn: c.turn, Attempt: 1, Model: c.model,
			Messages: []any{map[string]any{"role": event.text("role"), "text": event.text("text")}}}
	case "cognition_out":
		c.model = event.text("model")
		return transcript.Answer{Turn: c.turn, Attempt: 1, Text: event.text("text"), Model: c.model}
	case "tool_call_start":
		return transcript.CallStarted{Call: event.text("call_id"), ID: event.text("call_id"), Turn: c.turn,
			Name: event.text("tool"), Input: event.Payload["input"]}
	case "tool_call_result":
		return result(event)
	case "checkpoint":
		return transcript.Checkpoint{Turn: int64(event.number("turn"))}
	case "context_limit_reached":
		return transcript.Limit{Code: "context", Current: event.number("tokens_used"),
			Max: event.number("tokens_limit")}
	case "thread_handoff":
		c.next = event.text("new_thread_id")
	case "thread_resumed":
		return transcript.Continued{Message: event.text("message_preview")}
	case "thread_completed":
		return transcript.Completed{Cost: cost(event)}
	case "thread_error":
		return transcript.Failed{Error: transcript.Fault{Message: event.text("error")}, Cost: cost(event)}
	case "thread_cancelled":
		return transcript.Cancelled{Reason: event.text("error"), Cost: cost(event)}
	case "thread_continued":
		return transcript.HandedOff{Next: c.next, Cost: cost(event)}
	}
	return nil
}

func result(e *Event) transcript.Payload {
	r := transcript.CallResult{Call: e.text("call_id"), Status: transcript.CallOK, Output: e.Payload["output"]}
	if text := e.text("error"); text != "" {
		r.Status, r.Error = transcript.CallFailed, &transcript.Fault{Message: text}
	}
	return r
}

// cost converts the dollars and seconds of rye 1.
func cost(e *Event) transcript.Cost {
	m, _ := e.Payload["cost"].(map[string]any)
	number := func(name string, scale float64) int64 {
		f, _ := m[name].(float64)
		return int64(math.Round(min(max(f, 0)*scale, 1<<53)))
	}
	return transcript.Cost{Turns: number("turns", 1), InputTokens: number("input_tokens", 1),
		OutputTokens: number("output_tokens", 1),
		Spend:        number("spend", 1e9), Elapsed: time.Duration(number("elapsed_seconds", 1e9))}
}
