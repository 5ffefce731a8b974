package control

import (
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// An Origin is how a thread was begun, by its record.
type Origin struct {
	Thread  string
	Started transcript.Started
	Limits  limits.Set // that it was begun with
	Last    limits.Set // that it was given last
}

// OriginOf reads the record in a thread's directory.
func OriginOf(dir string) (*Origin, error) {
	origin := new(Origin)
	for event, err := range transcript.Read(dir) {
		if err != nil {
			return nil, err
		}
		switch event.Type {
		case transcript.TypeStarted:
			origin.Thread = event.Thread
			if err := event.Decode(&origin.Started); err != nil {
				return nil, err
			}
			origin.Limits = limits.None()
			origin.Limits.Take(&origin.Started.Limits)
			origin.Limits.Depth = origin.Started.Depth
			origin.Last = origin.Limits
		case transcript.TypeContinued:
			var c transcript.Continued
			if err := event.Decode(&c); err != nil {
				return nil, err
			}
			if c.Limits != nil {
				origin.Last.Take(c.Limits)
			}
		}
	}
	if origin.Started.Given == nil {
		return nil, fault.New(fault.Validation, "the transcript of %s doesn't have the inputs of the thread",
			origin.Thread)
	}
	return origin, nil
}
