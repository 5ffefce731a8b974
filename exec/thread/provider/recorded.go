package provider

import (
	"time"

	"github.com/rye-build/rye/exec/thread/transcript"
)

// RecordedAnswer returns the event for an answer, without its cost.
func RecordedAnswer(a *Answer, turn, attempt int64, took time.Duration) transcript.Answer {
	event := transcript.Answer{Turn: turn, Attempt: attempt, Text: a.Text, Stop: a.Stop, Duration: took}
	for _, c := range a.Calls {
		event.Calls = append(event.Calls, transcript.ToolCall(c))
	}
	if a.Opaque != nil {
		event.Opaque = a.Opaque
	}
	if a.Usage.Reported {
		u := transcript.Usage(a.Usage)
		event.Usage = &u
	}
	return event
}
