package thread

import (
	"cmp"
	"time"

	"github.com/rye-build/rye/exec/captoken"
	"github.com/rye-build/rye/exec/thread/roster"
)

// A watch knows what ends a thread from outside: its user or another process asks for it, or a token of this process
// expires.
type watch struct {
	*roster.Watch // nil while a record is only compared
	record        *record
	chain         *captoken.Chain // of the tokens of this process; nil if it has none
	now           func() time.Time
}

// safe is a point at which a thread that was asked to end does so, and one whose tokens have expired.
func (w *watch) safe() error {
	cancelled, err := w.record.Cancelled()
	if err == nil && cancelled != nil {
		return roster.RecordedRequest(cancelled)
	}
	if asked := w.Asked(); asked != nil && !w.record.Playing() {
		return asked
	}
	return cmp.Or(err, w.valid())
}

// valid returns an error if a token of this process has expired.
func (w *watch) valid() error { return w.chain.Check(w.now()) }
