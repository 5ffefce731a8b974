package provider

import (
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// ErrLost is the failure of a request whose answer isn't in the record: its process ended, or the disk was full.
var ErrLost = &Failure{Code: string(fault.Unavailable), Message: "the answer was not recorded"}

// Classify returns the class of a failed model call, and adds it to the event. was is the recorded classification,
// which has priority, or nil.
func Classify(rules *classification.Rules, failure *Failure, was *transcript.Classified,
	event transcript.Classified) (classification.Class, transcript.Classified) {
	class := rules.Of(failure.Doc())
	event.Category, event.ID, event.Retryable, event.Class, event.Said = string(class.Category), class.ID,
		class.Retryable, failure.Type, failure.Code
	event.Error = transcript.Fault{Code: string(fault.CodeOf(failure)), Message: failure.Error(),
		Status: failure.Status}
	switch {
	case was != nil:
		event.Category, event.ID, event.Retryable, event.Error = was.Category, was.ID, was.Retryable, was.Error
		class.Category, class.ID, class.Retryable = classification.Category(was.Category), was.ID, was.Retryable
	case failure == ErrLost:
		event.Category, event.ID, event.Retryable, event.Said, event.Error = "transient", replay.LostID, true, "",
			transcript.Fault{Code: failure.Code, Message: failure.Message}
	}
	if event.ID == replay.LostID {
		event.Action = "retry"
	}
	return class, event
}
