package host

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
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
