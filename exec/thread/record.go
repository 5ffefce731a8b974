package thread

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A record is the transcript of a thread as its driver uses it: it answers the thread for as long as it has events,
// and takes new ones after that.
type record struct {
	*replay.Recorder
	lease     *roster.Lease // nil while a record is only compared
	turn      int64         // that events belong to
	called    int           // how many calls have a name
	unwritten error         // why an event could not be written: the thread goes on from what was
}

// append records events. They are durable with the next that have to be.
func (r *record) append(durable bool, events ...transcript.Payload) error {
	_, err := r.put(durable, events...)
	return err
}

// put records events, and returns those that the record has already.
func (r *record) put(durable bool, events ...transcript.Payload) ([]*transcript.Event, error) {
	had, err := r.Append(r.turn, durable, events...)
	if err != nil && !refuses(err) {
		r.unwritten = err
	}
	return had, err
}

// refuses reports whether an error of Append is about the events, which can't stand in a record or differ from it, and
// not about the disk.
func refuses(err error) bool {
	return errors.Is(err, replay.ErrEnds) || errors.Is(err, replay.ErrTime) ||
		slices.Contains([]fault.Code{fault.Validation, fault.Limit, fault.Conflict}, fault.CodeOf(err))
}

// name returns the name of the next call: c1, c2, …
func (r *record) name() string {
	_ = r.Skip() // it fails again with what comes next
	r.called++
	return fmt.Sprintf("c%d", r.called)
}
