package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive/worker"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

const (
	// DefaultSteps is how many steps a loop may take by default.
	DefaultSteps = 1_000_000_000
	// DefaultMemory is what the loops of one child may use together, in bytes.
	DefaultMemory = 1 << 30
	// unlimited is more than a child can reach: what bounds loops is counted for each of them.
	unlimited = math.MaxInt32 * time.Second
	// lastWord is how long a cancelled loop may take to end before its child is killed.
	lastWord = 2 * time.Second
)

// A Loop is one run of a loop.
type Loop struct {
	Files map[string]string // the Starlark files of its item, by their paths below the directory of Main
	Main  string
	// Own says that it is the library's or the user's. All own loops share a child.
	Own    bool
	Level  floor.Level // what the child must at least be confined by
	Steps  uint64      // 0: DefaultSteps
	Config any         // JSON's value
	// Ask answers the questions of the loop, one at a time, with a JSON value. An error ends the loop; it is then the
	// error of Run.
	Ask   func(context.Context, Question) (any, error)
	Print func(text string) // what the loop prints; nil: nowhere
}

// An End is how a loop ended by itself, or by a limit.
type End struct {
	Value  any    // what came out of it
	Reason string // why nothing did
	Ended  string // steps, memory or cancelled, if that ended it
}

// A Host runs loops in children of this process. It is safe for concurrent use.
type Host struct {
	Machine *sandbox.Machine
	Self    []string // an absolute path and arguments that start this binary so that it calls Guest
	Memory  int64    // 0: DefaultMemory

	mu       sync.Mutex
	closed   bool
	children map[string]*process
}

// Run runs a loop to its end. An error is that of Ask, of the context, or says that the loop couldn't be started.
func (h *Host) Run(ctx context.Context, loop *Loop) (*End, error) {
	config, err := jcs.Append(nil, loop.Config)
	if err != nil {
		return nil, err
	}
	child, err := h.child(loop)
	if err != nil {
		return nil, err
	}
	started := &running{Loop: loop, process: child, frames: make(chan *frame, 16), lists: map[string][]any{}}
	child.add(started)
	defer child.remove(started)
	err = child.send(&frame{Loop: started.id, Start: &start{
		Files: loop.Files, Main: loop.Main, Steps: cmp.Or(loop.Steps, DefaultSteps), Memory: h.memory(),
		Config: config,
	}})
	if err != nil {
		return child.broken(ctx)
	}
	return started.serve(ctx)
}

func (h *Host) memory() int64 { return cmp.Or(h.Memory, DefaultMemory) }

// Close ends all children. Loops that still run end with an error.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	all := slices.Collect(maps.Values(h.children))
	h.mu.Unlock()
	for _, p := range all {
		p.stop()
		<-p.over
	}
	return nil
}

// child returns the process for a loop, started if there is none.
func (h *Host) child(loop *Loop) (*process, error) {
	if len(h.Self) == 0 {
		return nil, &sandbox.UnavailableError{Level: loop.Level,
			Missing: []string{"a child process: missing in this program"}}
	}
	name := "own"
	if !loop.Own {
		text, err := json.Marshal(loop.Files)
		if err != nil {
			return nil, err
		}
		name = cas.Sum(text).String()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errors.New("the thread's program is ending")
	}
	if p := h.children[name]; p != nil {
		select {
		case <-p.over:
		default:
			return p, nil
		}
	}
	p, err := h.start(loop)
	if err != nil {
		return nil, err
	}
	if h.children == nil {
		h.children = map[string]*process{}
	}
	h.children[name] = p
	return p, nil
}

// A process is a child.
type process struct {
	*wire
	stop context.CancelFunc
	over chan struct{} // closed when the process has ended

	mu      sync.Mutex
	last    int64
	running map[int64]*running
	memory  bool // it has ended itself because of too much memory

	// Once over is closed:
	outcome *sandbox.Ending
	said    string // the first line of what it wrote to standard error
	err     error
}

// start starts a child.
func (h *Host) start(loop *Loop) (*process, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	child := &process{wire: &wire{to: out}, stop: cancel, over: make(chan struct{}), running: map[int64]*running{}}
	spec := sandbox.Spec{Level: loop.Level, Most: true, Limits: sandbox.Limits{
		Wall: unlimited, CPU: unlimited, Memory: h.memory(), Output: math.MaxInt64 / 2,
	}}
	frames, answers, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	go func() {
		receive(frames, child.take)
		frames.Close()
		cancel() // what sends no frames any more, or none that can be read, has ended
	}()
	go func() {
		complaint := &proc.Head{Room: 64 << 10}
		child.outcome, child.err = h.Machine.Run(ctx, spec, proc.Command{
			Path: h.Self[0], Args: h.Self[1:], Env: []string{"GOMAXPROCS=2"}, Dir: "/",
			Stdin: in, Stdout: answers, Stderr: complaint,
		})
		child.mu.Lock()
		child.memory = child.memory || worker.OutOfMemory(complaint.String())
		child.said, _, _ = strings.Cut(strings.TrimSpace(strings.ToValidUTF8(complaint.String(), "\ufffd")), "\n")
		child.mu.Unlock()
		in.Close()
		answers.Close()
		out.Close()
		close(child.over)
	}()
	return child, nil
}

func (p *process) add(r *running) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	r.id = p.last
	p.running[r.id] = r
}

func (p *process) remove(r *running) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, r.id)
}

// take hands a frame on to its loop.
func (p *process) take(received *frame) error {
	p.mu.Lock()
	loop := p.running[received.Loop]
	if received.Loop == 0 && received.End != nil && received.End.Ended == "memory" {
		p.memory = true
	}
	p.mu.Unlock()
	switch {
	case loop == nil: // it is gone
	case received.Print != "":
		if loop.Print != nil {
			loop.Print(received.Print)
		}
	default:
		select {
		case loop.frames <- received:
		default:
			return fmt.Errorf("loop %d asks without waiting for answers", received.Loop)
		}
	}
	return nil
}

// broken is how a loop ended whose child did.
func (p *process) broken(ctx context.Context) (*End, error) {
	p.stop()
	<-p.over
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case p.memory || p.outcome != nil && p.outcome.Ended == "memory":
		return &End{Ended: "memory"}, nil
	case p.err != nil:
		return nil, p.err
	}
	reason := "the process of the loop ended unexpectedly"
	if p.said != "" {
		reason += ": " + fault.Clip(p.said, 200)
	}
	return &End{Reason: reason}, nil
}

// A running is a loop that runs.
type running struct {
	*Loop
	process *process
	id      int64
	frames  chan *frame
	lists   map[string][]any // that the loop sent last, by the parameter
}

// serve answers the loop until it ends.
func (r *running) serve(ctx context.Context) (*End, error) {
	for {
		var received *frame
		select {
		case received = <-r.frames:
		case <-r.process.over:
			select {
			case received = <-r.frames: // its end came before that of its process
			default:
				return r.process.broken(ctx)
			}
		case <-ctx.Done():
			return r.cancel(ctx, context.Cause(ctx))
		}
		if received.End != nil {
			return received.End.end()
		}
		answer, err := r.answer(ctx, received)
		if err = cmp.Or(err, context.Cause(ctx)); err != nil {
			return r.cancel(ctx, err)
		}
		if err := r.process.send(&frame{Loop: r.id, Answer: answer}); err != nil {
			return r.process.broken(ctx)
		}
	}
}

// answer has a question answered.
func (r *running) answer(ctx context.Context, f *frame) ([]byte, error) {
	q, err := r.question(f)
	if err != nil {
		return nil, err
	}
	a, err := r.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	return jcs.Append(nil, a)
}

// cancel ends the loop. If it doesn't end at once, its child is killed.
func (r *running) cancel(ctx context.Context, cause error) (*End, error) {
	timer := time.NewTimer(lastWord)
	defer timer.Stop()
	if r.process.send(&frame{Loop: r.id, Cancel: cause.Error()}) == nil {
		for {
			select {
			case f := <-r.frames:
				if f.End == nil {
					continue
				}
				return nil, cause
			case <-r.process.over:
				return nil, cause
			case <-timer.C:
			}
			break
		}
	}
	r.process.stop()
	<-r.process.over
	return nil, cause
}

// end reads how a loop ended.
func (e *end) end() (*End, error) {
	out := &End{Reason: e.Reason, Ended: e.Ended}
	if len(e.Value) > 0 {
		v, err := jcs.Parse(e.Value)
		if err != nil {
			return nil, err
		}
		out.Value = v
	}
	return out, nil
}
