package wasm

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/answer"
	"github.com/rye-build/rye/exec/primitive/worker"
	"github.com/rye-build/rye/exec/sandbox"
)

const (
	// MaxModule bounds the size of a module.
	MaxModule = 64 << 20
	// Overhead is the memory that a guest may use in addition to the module's.
	Overhead = 512 << 20

	page     = 64 << 10
	maxPages = 1 << 16
	// ownFiles is how many files a guest opens for itself.
	ownFiles = 64
)

// A Wasm is the primitive.
type Wasm struct {
	Machine *sandbox.Machine
	Self    []string // the command that starts this binary so that it calls Guest: an absolute path, then arguments
	Cache   string   // the directory of compiled modules; "" for no cache

	making materialise.Keys
	once   sync.Once
	kept   *worker.Pool

	mu      sync.Mutex
	modules map[string]module // by path
}

func (w *Wasm) host() worker.Host { return worker.Host{Machine: w.Machine, Self: w.Self} }

// pool returns the pool of guests.
func (w *Wasm) pool() *worker.Pool {
	w.once.Do(func() { w.kept = &worker.Pool{Host: w.host()} })
	return w.kept
}

// Ready implements primitive.Readier.
func (w *Wasm) Ready(bool) { w.pool().Ready() }

// Close implements primitive.Closer.
func (w *Wasm) Close() error { return w.pool().Close() }

// Keeps implements primitive.Keeper.
func (w *Wasm) Keeps() bool { return w.pool().Keeps() }

// A held is a prepared call: a kept guest has already compiled its module.
type held struct {
	spec  sandbox.Spec
	plan  *plan
	input string
	key   string
	guest *worker.Taken
}

// Take implements primitive.Keeper. The module's path contains the digest of all files of the chain, which were
// verified before the guest began. So the guest has the right module, even if the file has changed since, and doesn't
// read it again.
func (w *Wasm) Take(a *primitive.Action) (release func(), ok bool) {
	p, input, err := planOf(a)
	if err != nil {
		return nil, false // Run returns the error
	}
	w.mu.Lock()
	m, known := w.modules[p.Module]
	w.mu.Unlock()
	if !known {
		return nil, false
	}
	h := &held{spec: confine(a, p), plan: p, input: input}
	if p.Cache = used(filepath.Join(w.Cache, m.key)); p.Cache == "" {
		return nil, false
	}
	h.spec.Read = append(h.spec.Read, p.Cache)
	if h.key = shared(a, h.spec, p); h.key != "" {
		h.guest = w.pool().Take(h.key, h.spec.Read)
	}
	if h.guest == nil {
		return nil, false
	}
	a.Kept = h
	return h.guest.Release, true
}

// Run implements primitive.Primitive.
func (w *Wasm) Run(ctx context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	if h, ok := a.Kept.(*held); ok {
		inner, stop := context.WithCancel(ctx)
		defer stop()
		output := answer.New(to, stop)
		e, err := w.guest(inner, h.spec, h.plan, h.input, output, stop, h.key, h.guest)
		if err != nil {
			return nil, err
		}
		return result(output, e), nil
	}
	p, input, err := planOf(a)
	if err != nil {
		return nil, err
	}
	spec := confine(a, p)
	inner, stop := context.WithCancel(ctx)
	defer stop()
	compiled, err := w.compiled(inner, spec, p, stop)
	if err != nil {
		return nil, err
	}
	if compiled != nil && (compiled.Ended != "" || compiled.Kind != worker.Exit) {
		r := answer.New(nil, nil).Result(&compiled.Ending)
		r.Failed, r.Failure = true, cmp.Or(failure(compiled), "the module was being compiled")
		return r, nil
	}
	spec.Limits = rest(spec.Limits, compiled)
	if p.Cache != "" {
		spec.Read = append(slices.Clone(spec.Read), p.Cache)
	}
	output := answer.New(to, stop)
	key := ""
	if compiled == nil && a.Scratch != "" { // a call that compiles has less time left than its limit
		key = shared(a, spec, p)
	}
	e, err := w.guest(inner, spec, p, input, output, stop, key, nil)
	if err != nil {
		return nil, err
	}
	r := result(output, e)
	if compiled != nil {
		for _, name := range []string{"wall_ms", "cpu_ms"} {
			r.Usage[name] += compiled.Usage[name]
		}
	}
	return r, nil
}

// result returns the result of a module's run.
func result(output *answer.Answer, e *worker.End) *primitive.Result {
	r := output.Result(&e.Ending)
	if why := failure(e); why != "" && r.Ended == "" {
		r.Failed, r.Failure = true, why
	}
	r.Enforced = append(r.Enforced, "wasm")
	return r
}

// shared returns the key of a guest that several calls may share, or "" for a call that needs a guest of its own.
// That is a call that may write, since the limit on written bytes applies to the whole life of a guest, and a call
// with a denied path inside a readable one.
func shared(a *primitive.Action, s sandbox.Spec, p *plan) string {
	if p.Cache == "" || len(s.Write) > 0 {
		return ""
	}
	for _, dir := range s.Read {
		if slices.ContainsFunc(s.Deny, func(at string) bool { return inside(at, dir) }) {
			return ""
		}
	}
	s.Limits.Wall, s.Limits.Output = 0, 0 // each call has its own
	key, err := json.Marshal(struct {
		Sandbox             sandbox.Spec
		Module, Cache, Root string
		Read, Deny          []string
		Pages               uint32
		Share, Tool, Own    string
		Links               []string
		Pure, Stranger      bool
	}{s, p.Module, p.Cache, p.Root, p.Read, p.Deny, p.Pages, a.Share, a.Tool, a.Own, a.Links, a.Pure, a.Stranger})
	if err != nil {
		return ""
	}
	return string(key)
}

// guest runs a plan in a guest, and returns an End with the module's exit status. With a key the guest may be a kept
// one, which is kept again if the module ended by itself.
func (w *Wasm) guest(ctx context.Context, s sandbox.Spec, p *plan, input string, output *answer.Answer, stop func(),
	key string, taken *worker.Taken) (e *worker.End, err error) {
	c := worker.Call{Sandbox: s, Request: p, Input: input, Out: output.Stdout(), Errs: output.Stderr(), Stop: stop,
		Taken: taken}
	if key != "" {
		p.Kept, p.Input, c.Input = true, []byte(input), ""
		e, err = w.pool().Run(ctx, c, key, func(e *worker.End) bool { return e.Kind == worker.Exit && e.Ended == "" })
	} else {
		host := w.host()
		e, err = host.Run(ctx, c)
	}
	if err != nil {
		return nil, fmt.Errorf("can't run %q: %w", filepath.Base(p.Module), err)
	}
	switch {
	case e.Kind == worker.Exit:
		e.Exit.Code, e.Exit.Signal = int(binary.BigEndian.Uint32(e.Text)), ""
	case e.Kind == worker.Trap, e.Broken != "":
		e.Exit.Code = -1
	}
	return e, nil
}

// failure returns why a module trapped or its guest broke; "" if it exited or a limit ended it.
func failure(e *worker.End) string {
	if e.Kind == worker.Trap {
		return string(e.Text)
	}
	return e.Broken
}

// rest returns the limits that are left after compiling.
func rest(l sandbox.Limits, compiled *worker.End) sandbox.Limits {
	if compiled == nil {
		return l
	}
	left := func(limit time.Duration, used int64) time.Duration {
		if limit <= 0 {
			return limit
		}
		return max(limit-time.Duration(used)*time.Millisecond, time.Millisecond)
	}
	l.Wall, l.CPU = left(l.Wall, compiled.Usage["wall_ms"]), left(l.CPU, compiled.Usage["cpu_ms"])
	return l
}

// readModule copies a module to a hash.
func readModule(path string, to io.Writer) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("the module %q is not a regular file", filepath.Base(path))
	case info.Size() > MaxModule:
		return fmt.Errorf("the module %q has %d bytes; at most %d are allowed", filepath.Base(path), info.Size(),
			MaxModule)
	}
	_, err = io.Copy(to, f)
	return err
}
