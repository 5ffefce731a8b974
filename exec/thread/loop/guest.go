package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	star "go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/rye-build/rye/exec/primitive/starlark"
	"github.com/rye-build/rye/exec/primitive/worker"
	"github.com/rye-build/rye/manifest/jcs"
)

// maxStack limits the stack of one loop, in bytes.
const maxStack = 64 << 20

// Guest is the main function of the child: it runs the loops that it is sent, until there is no more to read.
func Guest(in io.Reader, out io.Writer) int {
	c := &child{wire: &wire{to: out}, running: map[int64]*run{}, computing: newBusy()}
	debug.SetMaxStack(maxStack)
	if err := receive(in, c.take); !errors.Is(err, io.EOF) {
		return 2
	}
	return 0
}

// A child is the process that loops run in.
type child struct {
	*wire
	watched   sync.Once
	computing *busy // loops that don't wait for an answer

	mu      sync.Mutex
	running map[int64]*run
}

// take does what a frame says.
func (c *child) take(received *frame) error {
	c.mu.Lock()
	started := c.running[received.Loop]
	if received.Start != nil {
		started = &run{child: c, id: received.Loop, answers: make(chan *frame, 1), sent: map[string][]star.Value{}}
		c.running[received.Loop] = started
	}
	c.mu.Unlock()
	switch {
	case received.Start != nil:
		c.watched.Do(func() { c.watch(received.Start.Memory) })
		started.program = received.Start.program(started)
		go started.run(received.Start.Config)
	case started == nil: // it has ended meanwhile
	case received.Cancel != "":
		started.program.Cancel(received.Cancel)
		started.answer(&frame{Error: received.Cancel})
	default:
		started.answer(received)
	}
	return nil
}

// A busy counts loops that compute. While none does, memory doesn't grow and isn't watched: a thread waits for its
// model most of its time.
type busy struct {
	n    atomic.Int64
	wake chan struct{}
}

func newBusy() *busy { return &busy{wake: make(chan struct{}, 1)} }

func (b *busy) add() {
	if b.n.Add(1) == 1 {
		select {
		case b.wake <- struct{}{}:
		default: // it will look again anyway
		}
	}
}

func (b *busy) done() { b.n.Add(-1) }

// wait waits until a loop computes.
func (b *busy) wait() bool {
	for b.n.Load() == 0 {
		<-b.wake
	}
	return true
}

// watch ends the process when its loops use too much memory: the interpreter can't be asked, for it may be inside one
// operation that takes all of it.
func (c *child) watch(memory int64) {
	debug.SetMemoryLimit(memory / 4 * 3)
	go worker.WatchMemory(c.computing.wait, memory/8*7, func() {
		c.send(&frame{End: &end{Ended: "memory"}})
		syscall.Exit(1)
	})
}

func (s *start) program(r *run) *starlark.Program {
	return &starlark.Program{
		Files: func(name string) ([]byte, error) {
			text, ok := s.Files[name]
			if !ok {
				return nil, fmt.Errorf("open %s: %w", name, errors.New("file not found"))
			}
			return []byte(text), nil
		},
		Main: s.Main, Names: starlark.Predeclared(), Print: printer{r}, Steps: s.Steps,
	}
}

// A run is one loop.
type run struct {
	*child
	id      int64
	program *starlark.Program
	answers chan *frame

	sent     map[string][]star.Value // the lists that were sent last, by the parameter
	result   any                     // of finish
	finished bool
}

// answer hands on the answer to a question. A loop asks one thing at a time: a second answer is dropped.
func (r *run) answer(f *frame) {
	select {
	case r.answers <- f:
	default:
	}
}

// run runs the loop and reports its end.
func (r *run) run(config json.RawMessage) {
	r.computing.add()
	defer r.computing.done()
	ended := new(end)
	var value any
	if ctx, err := r.ctx(config); err != nil {
		ended.Reason = err.Error()
	} else {
		value, ended.Reason, ended.Ended = r.program.Call("main", ctx)
	}
	if r.finished {
		value, ended = r.result, new(end)
	}
	if ended.Reason == "" && ended.Ended == "" {
		text, err := jcs.Append(nil, value)
		if ended.Value = text; err != nil {
			ended.Reason = err.Error()
		}
	}
	ended.Reason = strings.ToValidUTF8(string(worker.Cut(ended.Reason)), "\ufffd")
	r.mu.Lock()
	delete(r.running, r.id)
	r.mu.Unlock()
	r.send(&frame{Loop: r.id, End: ended})
}

// ctx returns what main is called with.
func (r *run) ctx(config json.RawMessage) (star.Value, error) {
	v, err := jcs.Parse(config)
	if err != nil {
		return nil, err
	}
	members := star.StringDict{}
	if members["config"], err = starlark.FromJSON(v); err != nil {
		return nil, err
	}
	for name, params := range questions {
		members[name] = star.NewBuiltin(name, func(_ *star.Thread, b *star.Builtin, args star.Tuple,
			named []star.Tuple) (star.Value, error) {
			return r.call(b.Name(), params, args, named)
		})
	}
	return starlarkstruct.FromStringDict(star.String("ctx"), members), nil
}

// questions are the functions of ctx, with the names of their parameters.
var questions = map[string][]string{
	"first": nil, "tools": nil, "model": {"messages", "tools"}, "calls": {"calls"}, "hook": {"event", "data"},
	"usage":   nil,
	"handoff": {"messages"}, "checkpoint": nil, "finish": {"result"},
}

// lists are the parameters that are mostly as they were the last time, and more: what was sent isn't sent again.
var lists = map[string]bool{"messages": true, "tools": true}

// errFinished ends a loop that has called finish.
var errFinished = errors.New("finished")

// call makes a call of a function of ctx.
func (r *run) call(name string, params []string, given star.Tuple, named []star.Tuple) (star.Value, error) {
	values := make([]star.Value, len(params))
	pairs := make([]any, 0, 2*len(params))
	for i, p := range params {
		pairs = append(pairs, p, &values[i])
	}
	if err := star.UnpackArgs(name, given, named, pairs...); err != nil {
		return nil, err
	}
	args := make(map[string]any, len(params))
	for i, p := range params {
		var err error
		if lists[p] {
			args[p], err = r.added(p, values[i])
		} else {
			args[p], err = starlark.ToJSON(values[i])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, p, err)
		}
	}
	if name == "finish" {
		r.result, r.finished = args["result"], true
		return nil, errFinished
	}
	return r.ask(name, args)
}

// added returns what messages or tools are, compared with those that were sent last. They are frozen: the same value
// is the same message.
func (r *run) added(name string, v star.Value) (any, error) {
	list, ok := v.(*star.List)
	if !ok {
		return nil, fmt.Errorf("got %s, want list", v.Type())
	}
	old, same := r.sent[name], true
	keep := 0
	add := []any{}
	all := make([]star.Value, list.Len())
	for i := range all {
		all[i] = list.Index(i)
		if _, ok := all[i].(*star.Dict); !ok {
			return nil, fmt.Errorf("%s %d: got %s, want dict", one(name), i, all[i].Type())
		}
		if same = same && i < len(old) && all[i] == old[i]; same {
			keep++
			continue
		}
		m, err := starlark.ToJSON(all[i])
		if err != nil {
			return nil, fmt.Errorf("%s %d: %w", one(name), i, err)
		}
		all[i].Freeze()
		add = append(add, m)
	}
	r.sent[name] = all
	return map[string]any{"keep": keep, "add": add}, nil
}

// one is what an entry of a list is called.
func one(list string) string { return strings.TrimSuffix(list, "s") }

// ask asks the thread's process and waits for the answer.
func (r *run) ask(name string, args map[string]any) (star.Value, error) {
	text, err := jcs.Append(nil, args)
	if err != nil {
		return nil, err
	}
	if err := r.send(&frame{Loop: r.id, Ask: name, Args: text}); err != nil {
		return nil, err
	}
	r.computing.done()
	f := <-r.answers
	r.computing.add()
	if f.Error != "" {
		return nil, errors.New(f.Error)
	}
	v, err := jcs.Parse(f.Answer)
	if err != nil {
		return nil, err
	}
	return starlark.FromJSON(v)
}

// A printer sends what a loop prints.
type printer struct{ *run }

func (p printer) Write(b []byte) (int, error) {
	return len(b),
		p.send(&frame{Loop: p.id, Print: strings.ToValidUTF8(strings.TrimSuffix(string(worker.Cut(string(b))), "\n"),
			"\ufffd")})
}
