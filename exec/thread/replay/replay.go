// Package replay plays the record of a thread back: the answers of its model and the results of its calls.
//
// # How an event goes through here
//
// Recorder.Append compares an event with the next one of the record (Match) while it plays, and writes it after that.
// Before an effect the thread asks the record first: Limit, Short and Answer for a model call, NextResult and Result
// for a call, Cancelled at each safe point. Peek passes over stops and new drivers; where the record ends, live starts
// the clock, and events are written.
//
// A thread that is resumed, or replayed, runs its loop again from the start. What the loop asks for is answered from
// the record, event by event, until that ends, and each event that the thread would write is compared with the
// recorded one (Match). So the thread is then where it was.
//
// Where a record says that a thread stopped and went on (waiting, driver, continued), that its process died (driver
// without waiting), or that its time was over (limit before that), nothing happens again: Peek passes over it, and
// adds up the limits that were given then.
//
// # Recording
//
// A Recorder writes the record of a thread, and plays what it already has: before an effect, and for everything that
// comes from outside, the thread asks it first.
//
//	r := &replay.Recorder{Now: …, Limits: …, Live: …}
//	r.Write(writer)          what is new goes there; without it the thread is only compared with its record
//	r.Play(dir, last)        the record answers; without it the thread is a new one
//	r.Begin()                before anything else
//	had, err := r.Append(…)  what is recorded already is compared and returned, the rest is written
//
// # Recordings
//
// A recording is the transcript of a thread in a small form that lies beside a directive as a test.
//
// # Format
//
// A recording is a file of lines, each the event of a transcript (package transcript) in canonical form without what
// differs from run to run:
//
//	{"payload":{"depth":10,"directive":{"ref":"directive:acme/deploy"},"format":"rye transcript/2","given":{"site":"a"},…},"type":"thread_started"}
//	{"payload":{"attempt":1,"digest":"blake3:…","kept":0,"messages":[…],"model":"claude","turn":1,…},"type":"request"}
//
// Left out are driver, the members prev, seq, thread and time of lines, and of payloads:
//
//	thread_started    lock, principal, set, parent and continues; policy is empty
//	checkpoint        sig
//	any               digest of an item; duration, elapsed and until; call and receipt of the audit log; by and
//	                  principal
//	call_started      child and key
//	thread_continued  next is "next"
//
// A reader takes any JSON that means the same, so a recording may be edited. The events must be in the order of a
// transcript, and fit its schema.
//
// The recordings of directive:acme/deploy are .ai/directives/acme/_recordings/deploy/NAME.jsonl. A segment that begins
// with "_" is never an item.
package replay

import (
	"iter"
	"sync"
	"time"

	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Player is the record of one thread. It is safe for concurrent use.
type Player struct {
	mu      sync.Mutex
	next    func() (*transcript.Event, error, bool)
	stop    func()
	last    int64 // the line after which it ends; 0 for the whole record
	ahead   []*transcript.Event
	ended   bool
	err     error // why nothing more can be read
	resumed int
	skipped int                  // calls, not taken yet
	limits  []*transcript.Limits // not taken yet

	began, at time.Time // of the part of one driver, as far as it was played
	before    time.Duration
}

// Open opens the record in a thread's directory up to a line, 0 for all. The caller closes it.
func Open(dir string, last int64) *Player {
	t := &Player{last: last}
	t.next, t.stop = iter.Pull2(transcript.Read(dir))
	return t
}

// Close closes the files.
func (p *Player) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	p.ended = true
}

// fill reads ahead until so many events are there, as far as there are.
func (p *Player) fill(n int) error {
	for len(p.ahead) < n && !p.ended && p.err == nil {
		var e *transcript.Event
		var more bool
		if e, p.err, more = p.next(); !more || p.err != nil {
			p.ended = true
			break
		}
		p.ahead = append(p.ahead, e)
		p.ended = e.Seq == p.last
	}
	if len(p.ahead) >= n {
		return nil
	}
	return p.err
}

// look returns what the n-th event ahead says, counted from 0, nil at the end.
func (p *Player) look(n int) (transcript.Payload, error) {
	if err := p.fill(n + 1); err != nil || n >= len(p.ahead) {
		return nil, err
	}
	return p.ahead[n].Says()
}

// take removes the first event.
func (p *Player) take() *transcript.Event {
	e := p.ahead[0]
	p.ahead = p.ahead[1:]
	if e.Type == transcript.TypeDriver {
		p.before += p.part()
		p.began = e.Time
	} else if p.began.IsZero() {
		p.began = e.Time
	}
	p.at = e.Time
	return e
}

// goesOn passes over the places where the thread stopped and went on.
func (p *Player) goesOn() error {
	for {
		n, err := p.stopped()
		if n == 0 || err != nil {
			return err
		}
		for range n {
			if p.take().Type == transcript.TypeCallStarted {
				p.skipped++
			}
		}
		p.resumed++
		payload, err := p.look(0)
		if err != nil {
			return err
		}
		if c, is := payload.(transcript.Continued); is {
			p.take()
			if c.Limits != nil {
				p.limits = append(p.limits, c.Limits)
			}
		}
	}
}

// stopped returns how many of the next events say that the thread stopped, up to the driver with which it went on; 0
// if they don't. The end of the thread's time may come anywhere, and is passed over with what its hooks did.
func (p *Player) stopped() (n int, err error) {
	late, waits := false, false
	for ; ; n++ {
		if err := p.fill(n + 1); err != nil || n == len(p.ahead) {
			return 0, err
		}
		switch e := p.ahead[n]; e.Type {
		case transcript.TypeDriver:
			return n + 1, nil
		case transcript.TypeLimit:
			if late = Late(e); !late || n > 0 {
				return 0, nil
			}
		case transcript.TypeHook, transcript.TypeCallStarted, transcript.TypeCallResult, transcript.TypeArtifact:
			if !late || waits {
				return 0, nil
			}
		case transcript.TypeWaiting:
			if waits || n > 0 && !late {
				return 0, nil
			}
			waits = true
		case transcript.TypeCheckpoint:
			if !waits {
				return 0, nil
			}
		default:
			return 0, nil
		}
	}
}

// Time is the code of the limit of a thread's time.
const Time = "duration_seconds_exceeded"

// Late reports whether an event says that the thread's time is over.
func Late(e *transcript.Event) bool {
	var l transcript.Limit
	return e != nil && e.Type == transcript.TypeLimit && e.Decode(&l) == nil && l.Code == Time
}

// Peek returns the next event, nil at the end.
func (p *Player) Peek() (*transcript.Event, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peek()
}

func (p *Player) peek() (*transcript.Event, error) {
	if err := p.goesOn(); err != nil || len(p.ahead) == 0 {
		return nil, err
	}
	return p.ahead[0], nil
}

// Take returns the next event and removes it, nil at the end.
func (p *Player) Take() (*transcript.Event, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, err := p.peek()
	if e != nil {
		p.take()
	}
	return e, err
}

// Limits returns the limits that the thread was given since the last time it was asked.
func (p *Player) Limits() []*transcript.Limits {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.limits
	p.limits = nil
	return l
}

// Skipped counts the calls that were passed over since the last time it was asked.
func (p *Player) Skipped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.skipped
	p.skipped = 0
	return n
}

// Resumed counts how often the thread went on, as far as it was played.
func (p *Player) Resumed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resumed
}

// Elapsed is how long the thread had run, as far as it was played, without the time that it stood still.
func (p *Player) Elapsed() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.before + p.part()
}

// part is how long the last part has run. Clocks that are set back take nothing away.
func (p *Player) part() time.Duration { return max(p.at.Sub(p.began), 0) }

// Result returns what came of a call that has begun, and the artifact with it, if there is one. The result is nil if
// the record has none.
func (p *Player) Result(call string) (*transcript.CallResult, *transcript.Artifact, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var artifact *transcript.Artifact
	for i := 0; ; i++ {
		payload, err := p.look(i)
		if payload == nil || err != nil {
			return nil, nil, err
		}
		switch payload := payload.(type) {
		case transcript.Artifact:
			if payload.Call == call {
				artifact = &payload
			}
		case transcript.CallResult:
			if payload.Call == call {
				return &payload, artifact, nil
			}
		case transcript.Request: // of the next turn
			return nil, nil, nil
		}
	}
}

// An Answered is what came of a request: nothing if the process ended before.
type Answered struct {
	Answer *transcript.Answer     // nil if it failed, or if nothing came of it
	Failed *transcript.Classified // nil unless it failed
}

// LostID is what a classified error has in place of the id of a pattern for a request whose answer was lost with the
// process.
const LostID = "answer_lost"

// Answer returns what came of the request that was matched last. It isn't taken: calls of hooks may stand before it.
func (p *Player) Answer() (answer Answered, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 0; ; i++ {
		payload, err := p.look(i)
		if payload == nil || err != nil {
			return answer, err
		}
		switch payload := payload.(type) {
		case transcript.Answer:
			answer.Answer = &payload
			return answer, nil
		case transcript.Classified:
			answer.Failed = &payload
			return answer, nil
		case transcript.Request:
			return answer, nil
		}
	}
}
