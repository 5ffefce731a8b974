package replay

import (
	"slices"

	"github.com/rye-build/rye/exec/thread/transcript"
)

// Spend is the code of the limit that depends on more than the record: on what other threads have left of a budget.
const Spend = "spend_exceeded"

// next returns the next event of the record, nil if it has ended.
func (r *Recorder) next() (*transcript.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.player == nil {
		return nil, nil
	}
	e, err := r.player.Peek()
	r.passed()
	return e, err
}

// Skip passes over the places where the thread stopped and went on.
func (r *Recorder) Skip() error {
	_, err := r.next()
	return err
}

// Cancelled returns the end of the record if that is next and says that the thread was asked to end here, else nil.
func (r *Recorder) Cancelled() (*transcript.Cancelled, error) {
	e, err := r.next()
	if err != nil || e == nil || e.Type != transcript.TypeCancelled {
		return nil, err
	}
	c := new(transcript.Cancelled)
	return c, e.Decode(c)
}

// ends is the error of a thread that is only compared, where its record has nothing more: ErrTime if its time was over
// there.
func (r *Recorder) ends() error {
	if e, _ := r.player.Peek(); Late(e) {
		return ErrTime
	}
	return ErrEnds
}

// Limit returns the limit that is reached. The record knows about the time for as long as it has events; reached knows
// the other limits.
func (r *Recorder) Limit(reached func() *transcript.Limit) (*transcript.Limit, error) {
	e, err := r.next()
	now := reached() // by the limits that the record gives the thread here
	if err != nil || e == nil {
		return now, err
	}
	if e.Type == transcript.TypeLimit {
		was := new(transcript.Limit)
		if err := e.Decode(was); err != nil || was.Code == Time {
			return was, err
		}
	}
	if now != nil && now.Code == Time {
		return nil, nil
	}
	return now, nil
}

// Short reports whether money was missing for the next model call. It isn't known once the record has ended.
func (r *Recorder) Short() (short, known bool, err error) {
	event, err := r.next()
	switch {
	case err != nil:
		return false, false, err
	case event == nil && !r.Writes():
		return false, false, ErrEnds
	case event == nil:
		return false, false, nil
	}
	var limit transcript.Limit
	return event.Type == transcript.TypeLimit && event.Decode(&limit) == nil && limit.Code == Spend, true, nil
}

// Answer returns the answer or the failure of the request that was recorded last: neither if the process ended before.
func (r *Recorder) Answer() (a Answered, err error) {
	a, err = r.player.Answer()
	if err == nil && a == (Answered{}) && !r.Writes() {
		err = r.ends()
	}
	return a, err
}

// Result returns the result of a call that the record has, and the artifact with it: nil if the process ended before.
// The call is made again then, so the thread's time runs from here on if the record has ended.
func (r *Recorder) Result(call string) (was *transcript.CallResult, artifact *transcript.Artifact, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.player == nil {
		return nil, nil, nil
	}
	was, artifact, err = r.player.Result(call)
	switch {
	case err != nil || was != nil:
		return was, artifact, err
	case !r.Writes():
		return nil, nil, r.ends()
	}
	e, err := r.player.Peek()
	if r.passed(); e == nil && err == nil {
		r.live()
	}
	return nil, nil, err
}

// NextResult returns the call whose result is next in the record, "" if another event is.
func (r *Recorder) NextResult() (call string, err error) {
	e, err := r.next()
	if err != nil || e == nil || e.Type != transcript.TypeArtifact && e.Type != transcript.TypeCallResult {
		return "", err
	}
	var of struct {
		Call string `json:"call"`
	}
	err = e.Decode(&of)
	return of.Call, err
}

// Lost passes over what hooks have done about a failed model call, where the process ended before the failure was
// recorded: it isn't known any more. It returns how many calls they began, and results of those that have none.
func (r *Recorder) Lost(unknown *transcript.Fault) (began int, open []transcript.Payload, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.player != nil {
		e, err := r.player.Peek()
		if e == nil || err != nil {
			return began, open, err
		}
		p, err := e.Says()
		if err != nil {
			return began, open, err
		}
		switch p := p.(type) {
		case transcript.CallStarted:
			began, open = began+1, append(open, transcript.CallResult{Call: p.Call, Status: transcript.CallUnknown,
				Error: unknown})
		case transcript.CallResult:
			open = slices.DeleteFunc(open, func(o transcript.Payload) bool {
				return o.(transcript.CallResult).Call == p.Call
			})
		case transcript.Artifact, transcript.Hook:
		default:
			return began, open, nil
		}
		if _, err := r.player.Take(); err != nil {
			return began, open, err
		}
	}
	return began, open, nil
}

// resumed counts how often the thread went on, as far as the record was played.
func (r *Recorder) resumed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.player == nil {
		return 0
	}
	return r.player.Resumed()
}

// WentOn reports whether the thread was stopped here, and went on.
func (r *Recorder) WentOn() (bool, error) {
	before := r.resumed()
	_, err := r.next()
	return r.resumed() > before, err
}
