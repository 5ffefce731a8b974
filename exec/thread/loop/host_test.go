package loop

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// A child that breaks the rules of the conversation ends its loop.
func TestHostile(t *testing.T) {
	r := &running{Loop: &Loop{}, lists: map[string][]any{}}
	for _, f := range []*frame{
		{Ask: "model", Args: []byte("nonsense")}, {Ask: "model", Args: []byte("[]")},
		{Ask: "else", Args: []byte(`{"a":1}`)},
		{Ask: "model", Args: []byte(`{"messages":{"keep":3,"add":[]}}`)},
		{Ask: "model", Args: []byte(`{"messages":{"keep":0}}`)},
		{Ask: "model", Args: []byte(`{"messages":{"keep":0,"add":[]},"tools":7}`)},
		{Ask: "handoff", Args: []byte(`{}`)}, {Ask: "calls", Args: []byte(`{"calls":"x"}`)},
		{Ask: "later", Args: []byte(`{}`)}, {Ask: "finish", Args: []byte(`{"result":1}`)},
	} {
		if b, err := r.answer(t.Context(), f); err == nil {
			t.Errorf("%s %s: %s", f.Ask, f.Args, b)
		}
	}
	if _, err := (&end{Value: []byte("{")}).end(); err == nil {
		t.Error("a broken value is taken")
	}
	p := &process{running: map[int64]*running{1: {frames: make(chan *frame)}}}
	if p.take(&frame{Loop: 1, Ask: "first"}) == nil || p.take(&frame{Loop: 2}) != nil {
		t.Error("who asks without waiting is heard")
	}
	w := &wire{to: io.Discard}
	if w.send(&frame{Print: strings.Repeat("x", MaxFrame)}) == nil || w.send(&frame{Answer: []byte("{")}) == nil {
		t.Error("a frame that can't be is sent")
	}
}

// TestBusy: memory is watched while a loop computes, and as often as one does again.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, waited := newBusy(), 0
		go func() {
			for waited < 5 && b.wait() {
				waited++
			}
		}()
		for i, step := range []struct {
			do   func()
			want int
		}{{func() {}, 0}, {b.add, 5}, {b.done, 5}} {
			step.do()
			if synctest.Wait(); waited != step.want {
				t.Errorf("step %d: %d", i, waited)
			}
		}
		over := make(chan bool)
		go func() { over <- b.wait() }()
		b.add() // twice before anything waits: none is lost
		b.done()
		b.add()
		<-over
	})
}

// broken writes nothing.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// The ends of a loop whose child is gone or says nothing any more.
func TestGone(t *testing.T) {
	why := errors.New("enough")
	for name, change := range map[string]func(*process, *running){
		"a closed pipe": func(p *process, _ *running) { p.to = broken{} },
		"its end": func(_ *process, r *running) {
			r.frames <- &frame{Ask: "late"}
			r.frames <- &frame{End: &end{}}
		},
		"an ended child":     func(p *process, _ *running) { close(p.over); p.stop = func() {} },
		"a child that waits": func(*process, *running) {},
	} {
		p := &process{wire: &wire{to: io.Discard}, over: make(chan struct{})}
		p.stop = func() { close(p.over) }
		r := &running{process: p, frames: make(chan *frame, 2)}
		change(p, r)
		if _, err := r.cancel(t.Context(), why); !errors.Is(err, why) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := &process{wire: &wire{}, over: make(chan struct{}), stop: func() {}, err: why}
	close(p.over)
	if _, err := p.broken(t.Context()); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := p.broken(ended); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}
