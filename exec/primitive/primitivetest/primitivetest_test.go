package primitivetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
)

// A player is a primitive that does what its configuration says, and has at most one flaw.
type player struct {
	flaw string

	mu      sync.Mutex
	begun   map[string]bool
	running map[string]bool
	last    any
	kept    []func() // give back what was kept
}

func (p *player) has(flaw string) bool { return p.flaw == flaw }

func (p *player) Close() error { return nil }

func (p *player) Starts(config map[string]any) []string {
	if p.has("starts an unknown program") {
		return []string{"something"}
	}
	if p.has("changes the configuration when asked") && config != nil {
		config["more"] = true
	}
	return nil
}

// many is more than what other tests may still be about to end.
const many = 100

var errWrong = errors.New("this can't be done")

func (p *player) Run(ctx context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	if ctx.Err() != nil && !p.has("begins although the context has ended") {
		return nil, context.Cause(ctx)
	}
	switch {
	case p.has("refuses everything"):
		return nil, errWrong
	case p.has("sends although it never does"):
		to.Emit(primitive.Stderr, []byte("x"))
	case p.has("fails always"):
		return &primitive.Result{Level: a.Sandbox.Level, Failed: true}, nil
	}
	r := &primitive.Result{Level: a.Sandbox.Level, Usage: map[string]int64{"wall_ms": 1}}
	switch {
	case p.has("changes the configuration"):
		a.Config["more"] = true
	case p.has("changes the environment"):
		a.Env[0] = "X=2"
	case p.has("enforces less"):
		r.Level--
	case p.has("has an error and a result"):
		return r, errWrong
	case p.has("used less than nothing"):
		r.Usage["wall_ms"] = -1
	case p.has("keeps goroutines"):
		stop := make(chan struct{})
		for range many {
			go func() { <-stop }()
		}
		p.kept = append(p.kept, func() { close(stop) })
	case p.has("keeps files"):
		for range many {
			f, err := os.Open(os.DevNull)
			if err != nil {
				return nil, err
			}
			p.kept = append(p.kept, func() { f.Close() })
		}
	}
	switch a.Config["do"] {
	case "value":
		return r, p.value(r, a.Config["value"])
	case "fail":
		r.Failed, r.Failure = !p.has("fails without failing"), a.Config["reason"].(string)
		if p.has("gives no reason") {
			r.Failure = ""
		}
		return r, nil
	case "stream":
		return r, p.stream(r, a, to)
	case "forever":
		return r, p.forever(ctx, r, a, to)
	case "write":
		dir := filepath.Dir(a.Config["path"].(string))
		if p.has("does what it may not") || slices.Contains(a.Sandbox.Write, dir) && !p.has("doesn't do what it may") {
			return r, os.WriteFile(a.Config["path"].(string), nil, 0o600)
		}
		r.Failed = true
		return r, nil
	}
	switch {
	case p.has("sends something, and then nothing happened"):
		to.Emit(primitive.Stdout, []byte("x"))
	case p.has("does what can't be done"):
		return r, nil
	}
	return nil, errWrong
}

func (p *player) value(r *primitive.Result, v any) error {
	r.Value = v
	switch {
	case p.has("gives another value"):
		r.Value = "another"
	case p.has("gives a value that is none of JSON's"):
		r.Value = make(chan int)
	case p.has("mixes up actions"):
		p.mu.Lock()
		p.last = v
		p.mu.Unlock()
		time.Sleep(time.Millisecond)
		p.mu.Lock()
		r.Value = p.last
		p.mu.Unlock()
	}
	return nil
}

func text(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b
}

func (p *player) stream(r *primitive.Result, a *primitive.Action, to primitive.Sink) error {
	b := text(int(a.Config["bytes"].(int64)))
	most := a.Sandbox.Limits.Output
	if most > 0 && int64(len(b)) > most && !p.has("has no bound for output") {
		b = b[:most]
		r.Ended, r.Failed = "output", !p.has("is ended without failing")
	}
	if p.has("sends in another order") {
		slices.Reverse(b)
	}
	if p.has("sends to a stream that there isn't") {
		return to.Emit(7, b)
	}
	if p.has("sends after its end") {
		go func() {
			for !to.(*sink).over.Load() {
				time.Sleep(time.Millisecond)
			}
			to.Emit(primitive.Stdout, []byte("late"))
		}()
	}
	var two sync.WaitGroup
	part := max(1, len(b)/10)
	for piece := range slices.Chunk(b, part) {
		if p.has("sends two at once") {
			two.Go(func() { to.Emit(primitive.Stdout, piece) })
			continue
		}
		to.Emit(primitive.Stdout, piece)
	}
	two.Wait()
	return nil
}

func (p *player) forever(ctx context.Context, r *primitive.Result, a *primitive.Action, to primitive.Sink) error {
	id := a.Config["id"].(string)
	p.mu.Lock()
	p.begun[id], p.running[id] = true, true
	p.mu.Unlock()
	if !p.has("leaves something") {
		defer func() {
			p.mu.Lock()
			delete(p.running, id)
			p.mu.Unlock()
		}()
	}
	r.Failed = true
	if err := to.Emit(primitive.Stdout, []byte("x")); err != nil {
		r.Ended, r.Failure = "cancelled", err.Error()
		switch {
		case p.has("makes the sink's error its own"):
			return err
		case p.has("tells the sink more"):
			to.Emit(primitive.Stdout, []byte("x"))
		}
		if !p.has("doesn't mind the sink") {
			return nil
		}
	}
	var late <-chan time.Time
	if w := a.Sandbox.Limits.Wall; w > 0 && !p.has("has all the time in the world") {
		late = time.After(w)
	}
	done := ctx.Done()
	if p.has("can't be cancelled") {
		done = nil
	}
	select {
	case <-done:
		if r.Ended = "cancelled"; p.has("calls it something else") {
			r.Ended = "boredom"
		}
		if p.has("makes an error of the end") {
			return ctx.Err()
		}
	case <-late:
		r.Ended = "timeout"
	case <-time.After(4 * time.Second): // for flaws: the test is over by then
		r.Ended = "timeout"
	}
	return nil
}

// fixed has no error where there is a result.
type fixed struct{ *player }

func (f fixed) Run(ctx context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	if to == nil {
		to = new(sink)
	}
	r, err := f.player.Run(ctx, a, to)
	if err != nil && !f.has("has an error and a result") {
		r = nil
	}
	return r, err
}

func subject(flaw string) Subject {
	p := &player{flaw: flaw, begun: map[string]bool{}, running: map[string]bool{}}
	action := func(config map[string]any) *primitive.Action {
		return &primitive.Action{Config: config, Env: []string{"X=1"}, Sandbox: sandbox.Spec{Level: 2}}
	}
	return Subject{
		Primitive: fixed{p},
		Value: func(_ testing.TB, v any) *primitive.Action {
			return action(map[string]any{"do": "value", "value": v})
		},
		Fails: func(_ testing.TB, reason string) *primitive.Action {
			return action(map[string]any{"do": "fail", "reason": reason})
		},
		Stream: func(_ testing.TB, n int) (*primitive.Action, []byte) {
			return action(map[string]any{"do": "stream", "bytes": int64(n)}), text(n)
		},
		Forever: func(t testing.TB) Endless {
			id := fmt.Sprint(time.Now().UnixNano())
			in := func(m map[string]bool) bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return m[id]
			}
			return Endless{
				Action: action(map[string]any{"do": "forever", "id": id}),
				Begun:  func() bool { return in(p.begun) },
				Left: func() []string {
					if in(p.running) {
						return []string{id}
					}
					return nil
				},
			}
		},
		Wrong: map[string]func(testing.TB) *primitive.Action{
			"nothing to do": func(testing.TB) *primitive.Action { return action(map[string]any{}) },
		},
		Tries: map[string]Try{"write a file": func(t testing.TB, granted bool) (*primitive.Action, func() bool) {
			path := filepath.Join(t.TempDir(), "x")
			a := action(map[string]any{"do": "write", "path": path})
			if granted {
				a.Sandbox.Write = []string{filepath.Dir(path)}
			}
			return a, func() bool {
				_, err := os.Stat(path)
				os.Remove(path)
				return err == nil
			}
		}},
	}
}

func TestSound(t *testing.T) { Test(t, subject("")) }

// A primitive that sends nothing is asked less.
func TestQuiet(t *testing.T) {
	s := subject("")
	s.Stream = nil
	Test(t, s)
}

// Every flaw is found, and by the check that is there for it.
func TestFlaws(t *testing.T) {
	for flaw, by := range map[string]string{
		"changes the configuration":                  "value",
		"changes the environment":                    "value",
		"enforces less":                              "value",
		"has an error and a result":                  "value",
		"used less than nothing":                     "value",
		"gives another value":                        "value",
		"gives a value that is none of JSON's":       "value",
		"fails without failing":                      "answer",
		"gives no reason":                            "answer",
		"sends in another order":                     "stream",
		"sends to a stream that there isn't":         "stream",
		"sends two at once":                          "stream",
		"doesn't mind the sink":                      "sink",
		"makes the sink's error its own":             "sink",
		"tells the sink more":                        "sink",
		"leaves something":                           "sink",
		"sends something, and then nothing happened": "wrong",
		"does what can't be done":                    "wrong",
		"begins although the context has ended":      "cancel",
		"can't be cancelled":                         "cancel",
		"calls it something else":                    "cancel",
		"makes an error of the end":                  "cancel",
		"has all the time in the world":              "deadline",
		"has no bound for output":                    "output",
		"is ended without failing":                   "output",
		"mixes up actions":                           "together",
		"does what it may not":                       "tries",
		"doesn't do what it may":                     "tries",
		"starts an unknown program":                  "optional",
		"changes the configuration when asked":       "optional",
	} {
		t.Run(strings.ReplaceAll(flaw, " ", "_"), func(t *testing.T) {
			s := subject(flaw)
			s.patience = 2 * time.Second
			for _, c := range checks {
				if c.name != by {
					continue
				}
				if err := c.run(newSuite(t, s)); err == nil {
					t.Errorf("%s doesn't find that it %s", by, flaw)
				} else {
					t.Log(err)
				}
			}
		})
	}
}

// What is wrong with every run is found by every check that runs something.
func TestEverywhere(t *testing.T) {
	for flaw, unless := range map[string][]string{
		"changes the configuration": {"optional"}, "refuses everything": {"optional", "wrong"},
		"fails always": {"optional", "answer"},
	} {
		for _, c := range checks {
			s := subject(flaw)
			s.patience = 2 * time.Second
			if err := c.run(newSuite(t, s)); (err == nil) && !slices.Contains(unless, c.name) {
				t.Errorf("%s doesn't find that it %s", c.name, flaw)
			}
		}
	}
	s := newSuite(t, subject("sends although it never does"))
	s.Stream = nil
	if s.stream() == nil {
		t.Error("its output was not noticed")
	}
}

// TestLate: output after the end of a run is noticed.
func TestLate(t *testing.T) {
	s := newSuite(t, subject("sends after its end"))
	to := new(sink)
	a, _ := s.Stream(t, 10)
	if _, err := s.do(t.Context(), a, to); err != nil {
		t.Fatal(err)
	}
	if !s.until(func() bool { return to.wrong.Load() != nil }) {
		t.Error("it was not noticed")
	}
}

func TestLeaks(t *testing.T) {
	for _, flaw := range []string{"keeps goroutines", "keeps files"} {
		before := using(t)
		s := newSuite(t, subject(flaw))
		s.patience = 100 * time.Millisecond
		if _, err := s.Primitive.Run(t.Context(), s.Value(t, 1.5), new(sink)); err != nil {
			t.Fatal(err)
		}
		err := s.leaks(before)
		if err == nil {
			t.Errorf("it was not noticed that it %s", flaw)
		}
		for _, giveBack := range s.Primitive.(fixed).kept {
			giveBack()
		}
		s.patience = patience
		if !s.until(func() bool {
			u := using(t)
			return u.goroutines <= before.goroutines && u.files <= before.files
		}) {
			t.Error("what the test has kept is still there")
		}
	}
}

func TestDiffer(t *testing.T) {
	if differ([]byte("abc"), []byte("abd")) != 2 || differ([]byte("ab"), []byte("abd")) != 2 ||
		!bytes.Equal(text(3), []byte{0, 1, 2}) {
		t.Error("texts differ elsewhere")
	}
}
