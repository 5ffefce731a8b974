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
	o := new(Origin)
	for event, err := range transcript.Read(dir) {
		if err != nil {
			return nil, err
		}
		switch event.Type {
		case transcript.TypeStarted:
			o.Thread = event.Thread
			if err := event.Decode(&o.Started); err != nil {
				return nil, err
			}
			o.Limits = limits.None()
			o.Limits.Take(&o.Started.Limits)
			o.Limits.Depth = o.Started.Depth
			o.Last = o.Limits
		case transcript.TypeContinued:
			var c transcript.Continued
			if err := event.Decode(&c); err != nil {
				return nil, err
			}
			if c.Limits != nil {
				o.Last.Take(c.Limits)
			}
		}
	}
	if o.Started.Given == nil {
		return nil, fault.New(fault.Validation, "the transcript of %s doesn't have the inputs of the thread", o.Thread)
	}
	return o, nil
}
