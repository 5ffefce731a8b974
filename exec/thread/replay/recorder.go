package replay

import (
	"errors"
	"sync"
	"time"

	"github.com/rye-build/rye/exec/thread/transcript"
)

// ErrEnds ends a thread that is only compared with its record, where that ends.
var ErrEnds = errors.New("the record ends here")

// ErrTime ends a thread whose time is over, also where its record has that.
var ErrTime = errors.New("the time of the thread is over")

// A Recorder is the record of one thread. It is safe for concurrent use.
type Recorder struct {
	Now    func() time.Time
	Limits func(*transcript.Limits)   // that the record gave the thread when it went on
	Calls  func(n int)                // that hooks made when its time was over, and the record passes over
	Live   func(before time.Duration) // begins what no record has: so long the thread had run before

	mu      sync.Mutex
	player  *Player            // that answers; nil once the record has ended
	writer  *transcript.Writer // nil while a record is only compared
	pending []transcript.Payload
	began   time.Time     // when the thread went live
	before  time.Duration // that it had run by then
}

// Steady returns the time that now had, and what has passed since by the monotonic clock: setting the system's clock
// doesn't change how long a thread has run by its record.
func Steady(now func() time.Time) func() time.Time {
	began := now()
	return func() time.Time { return began.Add(now().Sub(began)) }
}

// Write makes w write the record. Close closes it.
func (r *Recorder) Write(w *transcript.Writer) { r.writer = w }

// Writes reports whether anything is written.
func (r *Recorder) Writes() bool { return r.writer != nil }

// Play has the record in a thread's directory answer, up to a line, 0 for all of it.
func (r *Recorder) Play(dir string, last int64) { r.player = Open(dir, last) }

// Report is the report about the record, as far as it was written.
func (r *Recorder) Report() *transcript.Report { return r.writer.Report() }

// Playing reports whether the record answers.
func (r *Recorder) Playing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.player != nil
}

// Begin begins to count the time of a thread that has no record.
func (r *Recorder) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.player == nil {
		r.live()
	}
}

// live leaves the record: from here on the thread's time counts.
func (r *Recorder) live() {
	if r.player != nil {
		r.before = r.player.Elapsed()
		r.player.Close()
		r.player = nil
	}
	r.began = r.Now()
	r.Live(r.before)
}

// Elapsed is how long the thread has run, in all processes.
func (r *Recorder) Elapsed() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.player != nil {
		return r.player.Elapsed()
	}
	return r.before + r.Now().Sub(r.began)
}

// Append records events of a turn, and returns those that the record has already. New ones are durable with the next
// that have to be.
func (r *Recorder) Append(turn int64, durable bool, events ...transcript.Payload) (known []*transcript.Event,
	err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.player != nil && len(events) > 0 {
		if event, _ := r.player.Peek(); Late(event) && events[0].Type() != transcript.TypeLimit {
			return nil, ErrTime
		}
		event, done, err := r.player.Match(events[0], turn, r.writer == nil)
		r.passed()
		switch {
		case err != nil:
			return nil, err
		case done && r.writer == nil:
			return nil, ErrEnds
		case done:
			r.live()
		default:
			known, events = append(known, event), events[1:]
		}
	}
	r.pending = append(r.pending, events...)
	if !durable || len(r.pending) == 0 {
		return known, nil
	}
	_, err = r.writer.Append(r.pending...)
	r.pending = nil
	return known, err
}

// passed takes the limits that the thread was given where it went on, as far as the record was played: when it ran
// they counted from there.
func (r *Recorder) passed() {
	for _, l := range r.player.Limits() {
		r.Limits(l)
	}
	if n := r.player.Skipped(); n > 0 {
		r.Calls(n)
	}
}

// Take returns the next event of the record and passes over it, nil at the end.
func (r *Recorder) Take() (*transcript.Event, error) { return r.player.Take() }

// Rest returns the difference if the record goes on where the thread has ended.
func (r *Recorder) Rest(turn int64) error { return r.player.Rest(turn) }

// Cut returns a difference if the record goes on behind a missing answer or result.
func (r *Recorder) Cut(turn int64) error { return r.player.Cut(turn) }

// Close closes the files.
func (r *Recorder) Close() error {
	if r.player != nil {
		r.player.Close()
	}
	if r.writer == nil {
		return nil
	}
	return r.writer.Close()
}
