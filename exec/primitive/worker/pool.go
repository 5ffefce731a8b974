package worker

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/policy/floor"
)

const (
	// maxIdle is how many idle guests a pool keeps, and idleTime how long.
	maxIdle  = 8
	idleTime = time.Minute
	// lastWord is how long a guest may take to end after its input has ended.
	lastWord = time.Second
	// unlimited is longer than any guest lives; each call has its own time limit.
	unlimited = math.MaxInt32 * time.Second
)

// A Pool makes calls in guests, and keeps a guest for the next call with the same key. A guest makes one call at a
// time. A pool ends a guest after a cancelled call or a limit, when the guest has used much of its lifetime limits,
// when a file of its sandbox was replaced, and after a minute without a call. It is safe for concurrent use.
type Pool struct {
	Host

	mu     sync.Mutex
	closed bool
	idle   []*kept        // the longest idle guest first
	all    sync.WaitGroup // guests that haven't ended
}

var errClosed = errors.New("the program is ending")

// Run makes a call, as Host.Run does. Calls with the same key share a guest, so the key must determine the whole
// sandbox except for the limits on time and output. When the call has ended, keep decides whether the guest may make
// another.
func (p *Pool) Run(ctx context.Context, call Call, key string, keep func(*End) bool) (*End, error) {
	if len(p.Self) == 0 {
		return nil, &sandbox.UnavailableError{Level: call.Sandbox.Level,
			Missing: []string{"a child process: missing in this program"}}
	}
	head, err := appendRequest(nil, call.Request)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	spec := call.Sandbox
	spec.Limits = spec.Limits.OrDefaults()
	k := call.Taken.guest()
	if k == nil {
		if k, err = p.take(key, spec, call.Dir); err != nil {
			return nil, err
		}
	}
	r := &reader{out: call.Out, errs: call.Errs, left: spec.Limits.Output, stop: func() {}}
	e, err := k.call(ctx, head, r, spec.Limits.Wall)
	if err == nil && r.clean() && k.fresh(spec.Limits) && keep(e) {
		p.give(k)
	} else {
		p.end(k, 0)
	}
	return e, err
}

// Ready starts preparing a guest if none is idle.
func (p *Pool) Ready() {
	if !p.Keeps() {
		p.Machine.Ready(false)
	}
}

// Keeps reports whether an idle guest exists.
func (p *Pool) Keeps() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) > 0
}

// A Taken is an idle guest reserved for one call: see Call.
type Taken struct {
	pool *Pool
	kept *kept // nil: used or released
}

// Take reserves an idle guest for a call with a key, whose sandbox may read these files; nil if there is none.
func (p *Pool) Take(key string, read []string) *Taken {
	files := look(read)
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.find(key, files); k != nil {
		return &Taken{p, k}
	}
	return nil
}

// Release returns an unused guest to the pool.
func (t *Taken) Release() {
	if k := t.guest(); k != nil {
		t.pool.give(k)
	}
}

// guest hands out the guest once; afterwards it returns nil.
func (t *Taken) guest() (k *kept) {
	if t != nil {
		t.pool.mu.Lock()
		defer t.pool.mu.Unlock()
		k, t.kept = t.kept, nil
	}
	return k
}

// look returns the files at some paths. It ignores missing files: starting a guest reports them.
func look(paths []string) (files []fs.FileInfo) {
	for _, at := range paths {
		info, _ := os.Lstat(at)
		files = append(files, info)
	}
	return files
}

// take returns an idle guest or starts one.
func (p *Pool) take(key string, spec sandbox.Spec, dir string) (*kept, error) {
	files := look(spec.Read)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	k := p.find(key, files)
	if k != nil {
		return k, nil
	}
	k, err := p.start(spec, dir)
	if err != nil {
		return nil, err
	}
	k.key, k.files = key, files
	return k, nil
}

// find removes an idle guest from the pool and returns it, or nil. The caller holds the mutex.
func (p *Pool) find(key string, files []fs.FileInfo) *kept {
	for i := len(p.idle) - 1; i >= 0; i-- {
		k := p.idle[i]
		if k.key != key {
			continue
		}
		p.idle = slices.Delete(p.idle, i, i+1)
		if k.timer.Stop(); k.alive() && slices.EqualFunc(k.files, files, same) {
			return k
		}
		go p.end(k, 0)
	}
	return nil
}

// same reports whether a path still has the same file. A guest keeps access to the files that existed when it began,
// wherever they are now.
func same(old, now fs.FileInfo) bool {
	return old != nil && now != nil && os.SameFile(old, now)
}

// give returns a guest to the pool.
func (p *Pool) give(k *kept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		go p.end(k, lastWord)
		return
	}
	k.timer = time.AfterFunc(idleTime, func() { p.expire(k) })
	p.idle = append(p.idle, k)
	if len(p.idle) > maxIdle {
		over := p.idle[0]
		over.timer.Stop()
		p.idle = slices.Delete(p.idle, 0, 1)
		go p.end(over, lastWord)
	}
}

// expire ends a guest that was idle for too long.
func (p *Pool) expire(k *kept) {
	p.mu.Lock()
	i := slices.Index(p.idle, k)
	if i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	p.mu.Unlock()
	if i >= 0 {
		p.end(k, lastWord)
	}
}

// Close ends the idle guests, and returns when all other guests have ended too.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, k := range p.idle {
		k.timer.Stop()
		go p.end(k, lastWord)
	}
	p.idle = nil
	p.mu.Unlock()
	p.all.Wait()
	return nil
}

// end ends a guest, and returns when nothing of it is left.
func (p *Pool) end(k *kept, grace time.Duration) {
	k.to.Close()
	if grace > 0 {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-k.over:
		case <-timer.C:
		}
	}
	k.stop()
	<-k.over
	p.all.Done()
}

// A kept is a guest that outlives its calls.
type kept struct {
	key       string
	files     []fs.FileInfo // the readable files of its sandbox, when it began
	to        *os.File      // its standard input
	stop      context.CancelFunc
	complaint *proc.Head
	answered  chan struct{} // receives when the guest has ended a call
	over      chan struct{} // closed when nothing of it is left
	timer     *time.Timer   // while it is idle
	calls     int
	cpu, rss  int64 // usage so far: milliseconds, bytes

	mu       sync.Mutex
	reader   *reader // of the current call
	level    floor.Level
	enforced []string

	// Once over is closed:
	outcome *sandbox.Ending
	err     error
}

// start starts a guest. The caller holds the mutex.
func (p *Pool) start(spec sandbox.Spec, dir string) (*kept, error) {
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	k := &kept{to: to, stop: stop, complaint: &proc.Head{Room: maxComplaint}, answered: make(chan struct{}, 1),
		over: make(chan struct{})}
	spec.Most, spec.Network = true, sandbox.Network{}
	spec.Limits.Wall, spec.Limits.Output = unlimited, math.MaxInt64/2
	spec.Trying = k.trying
	p.all.Add(1)
	go func() {
		k.outcome, k.err = p.Machine.Run(ctx, spec, proc.Command{
			Path: p.Self[0], Args: p.Self[1:], Env: p.Env, Dir: dir, Stdin: in, Stdout: k, Stderr: k.complaint,
		})
		in.Close()
		stop()
		close(k.over)
	}()
	return k, nil
}

// trying records the means of enforcement.
func (k *kept) trying(level floor.Level, enforced []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.level, k.enforced = level, enforced
}

func (k *kept) alive() bool {
	select {
	case <-k.over:
		return false
	default:
		return true
	}
}

// fresh reports whether a guest has nearly all of its limits left. The limits apply to its whole life, not to one
// call.
func (k *kept) fresh(l sandbox.Limits) bool {
	return k.cpu <= l.CPU.Milliseconds()/100 && k.rss <= l.Memory/4
}

// Write receives the output of the guest.
func (k *kept) Write(data []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.reader
	if r == nil { // output outside of a call
		k.stop()
		return len(data), nil
	}
	r.Write(data)
	if r.kind != 0 || r.err != nil {
		select {
		case k.answered <- struct{}{}:
		default:
		}
	}
	return len(data), nil
}

// finish reports whether the guest has ended the call, and if so detaches its reader.
func (k *kept) finish(r *reader) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.kind == 0 && r.err == nil {
		return false
	}
	k.reader = nil
	return true
}

func (k *kept) listen(r *reader) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reader = r
}

// call makes a call in the guest.
func (k *kept) call(ctx context.Context, head []byte, reader *reader, wall time.Duration) (*End, error) {
	began, first := time.Now(), k.calls == 0
	k.calls++
	k.listen(reader)
	wrote := make(chan struct{})
	go func() {
		k.to.Write(head) // if it fails, the guest has ended
		close(wrote)
	}()
	timer := time.NewTimer(wall)
	defer timer.Stop()
	ended := ""
	select {
	case <-k.answered:
	case <-k.over:
	case <-timer.C:
		ended = "timeout"
	case <-ctx.Done():
		ended = "cancelled"
	}
	if ended != "" || !k.finish(reader) {
		k.stop()
		<-k.over
	}
	late := time.AfterFunc(lastWord, k.stop) // for a guest that has answered without reading its input
	<-wrote
	late.Stop()
	k.listen(nil)
	ending := &sandbox.Ending{Ended: ended, Usage: map[string]int64{}}
	if !k.alive() {
		if k.outcome == nil && first {
			return nil, k.err
		}
		if k.outcome != nil {
			*ending = *k.outcome
			if ended != "" || ending.Ended == "cancelled" {
				ending.Ended = ended // this call stopped the guest
			}
		}
	}
	k.mu.Lock()
	ending.Level, ending.Enforced = k.level, k.enforced
	k.mu.Unlock()
	if reader.used || !first {
		ending.Usage = map[string]int64{"written": 0, "cpu_ms": max(0, reader.cpu-k.cpu), "max_rss": reader.rss}
	}
	ending.Usage["wall_ms"] = time.Since(began).Milliseconds()
	k.cpu, k.rss = reader.cpu, reader.rss
	return reader.end(ending, k.complaint.String())
}
