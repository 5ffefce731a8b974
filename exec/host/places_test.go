package host

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/session"
)

// TestCancelledLeaves: a call that is cancelled while it waits gives its place back: clients that give up would make
// the server refuse everyone's calls until it is started again.
func TestCancelledLeaves(t *testing.T) {
	h := New(Options{Now: time.Now})
	var ends []func()
	for range atOnce {
		end, err := h.Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 2 * waiting {
		if _, err := h.Turn(gone); !errors.Is(err, context.Canceled) {
			t.Fatalf("the cancelled call %d: %v", i, err)
		}
	}
	ends[0]()
	end, err := h.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end()
	for _, end := range ends[1:] {
		end()
	}
	if n := h.Running(); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}

// TestBrokenProjects: a project that can't be opened gives its place back: a client with eight broken roots could call
// no tool in a good one.
func TestBrokenProjects(t *testing.T) {
	broken := errors.New("broken")
	p := &projects{warn: func(error) {}}
	for i := range 2 * maxProjects {
		_, _, err := p.take(t.Context(), Project{Root: fmt.Sprint("/", i),
			Open: func(context.Context) (*session.Session, func() error, error) { return nil, nil, broken }})
		if !errors.Is(err, broken) {
			t.Fatalf("project %d: %v, %s", i, err, fault.CodeOf(err))
		}
	}
	if len(p.all) > maxProjects {
		t.Errorf("%d are kept", len(p.all))
	}
}

// TestFull: a server with too many calls says so at once: one that took every call would keep them all waiting.
func TestFull(t *testing.T) {
	h := New(Options{Now: time.Now})
	h.waiting.Store(atOnce + waiting)
	if _, err := h.Turn(t.Context()); fault.CodeOf(err) != fault.Busy || h.Running() != atOnce+waiting {
		t.Errorf("%v, %d calls", err, h.Running())
	}
}

// TestUnlisted: a session whose lists can't be made is closed, and no call gets it.
func TestUnlisted(t *testing.T) {
	broken, closed := errors.New("broken"), 0
	h := New(Options{Now: time.Now, Warn: func(error) {},
		Open: func(context.Context) (*session.Session, func() error, error) {
			return nil, func() error { closed++; return nil }, nil
		},
		Changed: func(context.Context, *session.Session) error { return broken }})
	if err := h.Open(t.Context()); !errors.Is(err, broken) || closed != 1 || h.Ready() == nil {
		t.Errorf("%v, closed %d times", err, closed)
	}
	h.Close()
}

// TestKept: what was kept is the outcome that the call had, and what can't be read is never taken for one.
func TestKept(t *testing.T) {
	of := func(result string) (any, error) {
		return Kept(&approval.KeptError{Request: &approval.Request{ID: "r"}, Result: []byte(result)})
	}
	if v, err := of(`{"value":{"a":1}}`); err != nil || fmt.Sprint(v) != "map[a:1]" {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := of(`{"error":{"code":"TIMEOUT","message":"late","details":{"ref":"x"}}}`); fault.CodeOf(err) !=
		fault.Timeout || fault.Of(err).Details["ref"] != "x" {
		t.Error(err)
	}
	if _, err := of(`{`); fault.CodeOf(err) != fault.Parsing {
		t.Error(err)
	}
	if _, err := Kept(context.Canceled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
