// Package primitivetest holds every implementation of primitive.Primitive to what the interface promises, whatever it
// does its actions with. Its test hands in a Subject: the implementation, and how to make actions of it.
//
//	func TestPrimitive(t *testing.T) { primitivetest.Test(t, primitivetest.Subject{Primitive: p, Value: …}) }
//
// What is asked of an implementation:
//
//	value      what comes out is what the action says, and one of JSON's values, whatever becomes of the action
//	answer     an answer that is no is a Result that has failed, with the reason
//	stream     what is sent comes to the sink whole, in its order, from one goroutine at a time, and not after Run
//	sink       an error of the sink ends the action, and is no error of Run: something has happened
//	wrong      what can't be done is an error, and nothing happened
//	cancel     the end of the context ends what runs, before it has begun and while it runs, and nothing is left of
//	           it
//	deadline   so does the time that it has
//	output     so does more output than it may have, and the sink gets no more than that
//	together   64 actions at once, 16 with -short, are as many times one action
//	tries      what isn't granted can't be done, by what the world shows; what is granted can
//	optional   what it starts is said without doing anything, and it closes
//	leaks      when it is closed there are no more goroutines and open files than before
//
// And of every run in all of them: there is a result or an error; the action is as it was before; a result that says
// why it failed, or what ended it, has failed; and what was enforced is at least what was asked for.
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

// A Subject is an implementation, and what the suite has to know of it.
type Subject struct {
	Primitive primitive.Primitive

	// Value makes an action that succeeds, and whose value is v.
	Value func(t testing.TB, v any) *primitive.Action
	// Extract returns that v of a result's value; nil if it is all of it.
	Extract func(value any) any
	// Fails makes an action that does what it is to do, and whose answer is no for a reason.
	Fails func(t testing.TB, reason string) *primitive.Action
	// Stream makes one that sends at least n bytes, and says which; nil if the primitive never sends anything.
	Stream func(t testing.TB, n int) (a *primitive.Action, want []byte)
	// Forever makes one that doesn't end by itself, and before that sends something, if Stream isn't nil.
	Forever func(t testing.TB) Endless
	// Wrong makes actions that can't be done, by what is wrong with them.
	Wrong map[string]func(t testing.TB) *primitive.Action
	// Tries are deeds that need a grant.
	Tries map[string]Try

	patience time.Duration // how long what has to end may take
}

// An Endless is an action that doesn't end by itself.
type Endless struct {
	Action *primitive.Action
	Begun  func() bool     // reports whether it has begun
	Left   func() []string // lists what there is of it in the world: processes, connections
}

// A Try makes an action that does something to the world, which is allowed by its Sandbox if granted. done reports
// whether it was done, by looking at the world: what the action says of it counts for nothing.
type Try func(t testing.TB, granted bool) (a *primitive.Action, done func() bool)

// patience is for machines that do much else.
const patience = 5 * time.Minute

// A check is one thing that is asked. It returns what it found wrong.
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

// Test asks everything of an implementation, and closes it in the end if it is a Closer.
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

// A suite is a Subject while one thing is asked of it.
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

// A use is what a process has of what it should give back.
type use struct{ goroutines, files int }

// using counts what this process has.
func using(t testing.TB) use {
	// The first pipe of a process has it open more than the pipe.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	u := use{goroutines: runtime.NumGoroutine()}
	// Where there is no such directory nothing is counted.
	files, _ := os.ReadDir("/proc/self/fd")
	u.files = len(files)
	return u
}

// leaks closes the primitive and waits until there is no more than before.
func (s *suite) leaks(before use) error {
	if c, ok := s.Primitive.(primitive.Closer); ok {
		if err := c.Close(); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	// This is asked in a test of its own, which is a goroutine more, or not.
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

// until waits for something, and reports whether it came.
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
