package live

import (
	"fmt"
	"strconv"
	"time"

	"github.com/rye-build/rye/exec/thread/transcript"
)

// An activity is what a thread does now, by its events.
type activity struct {
	attempt int64             // at the model call that is made; 0 for none
	until   time.Time         // when the next attempt begins
	calls   map[string]string // id → name of the calls that run, without those of children
}

// text returns the activity for the line with the turns.
func (a *activity) text(now time.Time) string {
	if left := a.until.Sub(now); left > 0 {
		return "trying again in " + strconv.Itoa(int(left.Seconds())+1) + "s"
	}
	switch {
	case a.attempt > 1:
		return fmt.Sprintf("waiting for the model (attempt %d)", a.attempt)
	case a.attempt == 1:
		return "waiting for the model"
	case len(a.calls) > 1:
		return fmt.Sprintf("%d calls running", len(a.calls))
	}
	for _, name := range a.calls {
		return name + " running"
	}
	return ""
}

// activity returns what a thread does. The caller holds the lock.
func (v *View) activity(thread string) *activity {
	if v.doing[thread] == nil {
		v.doing[thread] = &activity{calls: map[string]string{}}
	}
	return v.doing[thread]
}

// follow updates what the thread of an event does.
func (v *View) follow(event *transcript.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	doing := v.activity(event.Thread)
	switch event.Type {
	case transcript.TypeRequest:
		var request struct{ Attempt int64 }
		if event.Decode(&request) == nil {
			doing.attempt = request.Attempt
		}
	case transcript.TypeAnswer, transcript.TypeClassified:
		doing.attempt = 0
	case transcript.TypeCallStarted:
		var call struct{ Call, Name, Child string }
		if event.Decode(&call) == nil && call.Child == "" {
			doing.calls[call.Call] = call.Name
		}
	case transcript.TypeCallResult:
		var result struct{ Call string }
		if event.Decode(&result) == nil {
			delete(doing.calls, result.Call)
		}
	}
}
