package results

import "github.com/rye-build/rye/exec/thread/transcript"

// Last is the event that the thread ends with, or stops.
func (r *Result) Last(cost transcript.Cost) transcript.Payload {
	switch r.Success = r.Status == Completed; r.Status {
	case Completed:
		return transcript.Completed{Result: r.Result, Outputs: r.Outputs, Cost: cost}
	case Continued:
		return transcript.HandedOff{Next: r.Next, Reason: "context", Cost: cost}
	case Interrupted, Waiting:
		return stopped(r.Status, r.Error)
	case Cancelled, Killed:
		return transcript.Cancelled{Reason: r.Error.Text, Killed: r.Status == Killed, Cost: cost}
	}
	return transcript.Failed{Error: *Recorded(r.Error), Cost: cost}
}
