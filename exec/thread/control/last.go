package control

import "github.com/rye-build/rye/exec/thread/transcript"

// Last is the event that the thread ends with, or stops.
func (r *Result) Last(cost transcript.Cost) transcript.Payload {
	switch r.Success = r.Status == StatusCompleted; r.Status {
	case StatusCompleted:
		return transcript.Completed{Result: r.Result, Outputs: r.Outputs, Cost: cost}
	case StatusContinued:
		return transcript.HandedOff{Next: r.Next, Reason: "context", Cost: cost}
	case StatusInterrupted, StatusWaiting:
		return stopped(r.Status, r.Error)
	case StatusCancelled, StatusKilled:
		return transcript.Cancelled{Reason: r.Error.Text, Killed: r.Status == StatusKilled, Cost: cost}
	}
	return transcript.Failed{Error: *RecordedFault(r.Error), Cost: cost}
}
