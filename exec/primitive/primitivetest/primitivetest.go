// Package primitivetest is the test suite for implementations of primitive.Primitive. A test passes a Subject: the
// implementation, and functions that make actions for it.
//
//	func TestPrimitive(t *testing.T) { primitivetest.Test(t, primitivetest.Subject{Primitive: p, Value: …}) }
//
// The suite checks:
//
//	value      the result has the value that the action asks for, as JSON values
//	answer     a failed answer is a Result that has failed, with the reason
//	stream     output reaches the sink complete, in order, from one goroutine at a time, and not after Run
//	sink       an error of the sink ends the action, and Run returns a Result: something has happened
//	wrong      an impossible action is an error, and nothing happened
//	cancel     the end of the context ends an action, before it begins and while it runs, and nothing is left of it
//	deadline   so does the time limit
//	output     so does the output limit, and the sink gets no more than that
//	together   64 actions at once, 16 with -short, behave as one action each
//	tries      an action can't have effects without a grant, and can with one
//	optional   Starts reports programs without side effects
//	leaks      after Close there are no more goroutines and open files than before
//
// In every run of every check: Run returns a result or an error; it doesn't change the action; a result with a reason
// or a limit has failed; and the enforced level is at least the required one.
package primitivetest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/primitive"
)

// A Subject is an implementation, and functions that make actions for it.
type Subject struct {
	Primitive primitive.Primitive

	// Value makes an action that succeeds, and whose value is v.
	Value func(t testing.TB, v any) *primitive.Action
	// Extract returns v from a result's value; nil if the value is v itself.
	Extract func(value any) any
	// Fails makes an action that runs, and whose answer is a failure with a reason.
	Fails func(t testing.TB, reason string) *primitive.Action
	// Stream makes an action that sends at least n bytes, and returns these; nil if the primitive never sends any.
	Stream func(t testing.TB, n int) (a *primitive.Action, want []byte)
	// Forever makes an action that never ends by itself. If Stream isn't nil, it first sends something.
	Forever func(t testing.TB) Endless
	// Wrong makes impossible actions, by their defect.
	Wrong map[string]func(t testing.TB) *primitive.Action
	// Tries make actions that need a grant.
	Tries map[string]Try

	patience time.Duration // how long to wait for an end
}

// An Endless is an action that never ends by itself.
type Endless struct {
	Action *primitive.Action
	Begun  func() bool     // reports whether it has begun
	Left   func() []string // lists its remaining processes and connections
}

// A Try makes an action with an effect that its Sandbox allows if granted. done looks for the effect, whatever the
// action reports.
type Try func(t testing.TB, granted bool) (a *primitive.Action, done func() bool)

// patience is the wait on a busy machine.
const patience = 5 * time.Minute

// A check is one test of the suite. It returns the defects that it found.
type check struct {
	name string
	run  func(*suite) error
}

var checks = []check{
	{"value", (*suite).value}, {"answer", (*suite).answer}, {"stream", (*suite).stream}, {"sink", (*suite).sink},
	{"wrong", (*suite).wrong},
	{"cancel", (*suite).cancel}, {"deadline", (*suite).deadline}, {"output", (*suite).output},
	{"together", (*suite).together},
	{"tries", (*suite).tries}, {"optional", (*suite).optional},
}

// Test runs all checks on an implementation, and then closes it if it is a Closer.
func Test(t *testing.T, s Subject) {
	before := using(t)
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			if err := c.run(newSuite(t, s)); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("leaks", func(t *testing.T) {
		if err := newSuite(t, s).leaks(before); err != nil {
			t.Error(err)
		}
	})
}

// A suite is a Subject during one check.
type suite struct {
	testing.TB
	Subject
	ctx context.Context
}

func newSuite(t testing.TB, s Subject) *suite {
	if s.Extract == nil {
		s.Extract = func(v any) any { return v }
	}
	if s.patience == 0 {
		s.patience = patience
	}
	return &suite{TB: t, Subject: s, ctx: t.Context()}
}

// A use counts resources that a process must release.
type use struct{ goroutines, files int }

// using counts the resources of this process.
func using(t testing.TB) use {
	// The first pipe of a process opens more files than the pipe itself.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	u := use{goroutines: runtime.NumGoroutine()}
	// Systems without this directory count no files.
	files, _ := os.ReadDir("/proc/self/fd")
	u.files = len(files)
	return u
}

// leaks closes the primitive and waits until it uses no more resources than before.
func (s *suite) leaks(before use) error {
	if c, ok := s.Primitive.(primitive.Closer); ok {
		if err := c.Close(); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	// This check may run in an additional goroutine of its own.
	before.goroutines++
	var now use
	enough := func() bool {
		now = using(s)
		return now.goroutines <= before.goroutines && now.files <= before.files
	}
	if s.until(enough) {
		return nil
	}
	stacks := make([]byte, 64<<10)
	return fmt.Errorf("there were %+v, and are %+v\n%s", before, now, stacks[:runtime.Stack(stacks, true)])
}

// until waits for a condition, and reports whether it came true.
func (s *suite) until(come func() bool) bool {
	for end := time.Now().Add(s.patience); ; time.Sleep(time.Millisecond) {
		if come() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// gone waits until nothing is left of an action.
func (s *suite) gone(e Endless) error {
	// A killed process may be listed for a moment, until its new parent reaps it.
	if s.until(func() bool { return len(e.Left()) == 0 }) {
		return nil
	}
	return fmt.Errorf("%q is left", slices.Clip(e.Left()))
}
