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
func (w *Wasm) Take(action *primitive.Action) (release func(), ok bool) {
	plan, input, err := planOf(action)
	if err != nil {
		return nil, false // Run returns the error
	}
	w.mu.Lock()
	m, known := w.modules[plan.Module]
	w.mu.Unlock()
	if !known {
		return nil, false
	}
	held := &held{spec: confine(action, plan), plan: plan, input: input}
	if plan.Cache = used(filepath.Join(w.Cache, m.key)); plan.Cache == "" {
		return nil, false
	}
	held.spec.Read = append(held.spec.Read, plan.Cache)
	if held.key = shared(action, held.spec, plan); held.key != "" {
		held.guest = w.pool().Take(held.key, held.spec.Read)
	}
	if held.guest == nil {
		return nil, false
	}
	action.Kept = held
	return held.guest.Release, true
}

// Run implements primitive.Primitive.
func (w *Wasm) Run(ctx context.Context, action *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	if h, ok := action.Kept.(*held); ok {
		inner, stop := context.WithCancel(ctx)
		defer stop()
		output := answer.New(to, stop)
		e, err := w.guest(inner, h.spec, h.plan, h.input, output, stop, h.key, h.guest)
		if err != nil {
			return nil, err
		}
		return result(output, e), nil
	}
	plan, input, err := planOf(action)
	if err != nil {
		return nil, err
	}
	spec := confine(action, plan)
	inner, stop := context.WithCancel(ctx)
	defer stop()
	compiled, err := w.compiled(inner, spec, plan, stop)
	if err != nil {
		return nil, err
	}
	if compiled != nil && (compiled.Ended != "" || compiled.Kind != worker.Exit) {
		r := answer.New(nil, nil).Result(&compiled.Ending)
		r.Failed, r.Failure = true, cmp.Or(failure(compiled), "the module was being compiled")
		return r, nil
	}
	spec.Limits = rest(spec.Limits, compiled)
	if plan.Cache != "" {
		spec.Read = append(slices.Clone(spec.Read), plan.Cache)
	}
	output := answer.New(to, stop)
	key := ""
	if compiled == nil && action.Scratch != "" { // a call that compiles has less time left than its limit
		key = shared(action, spec, plan)
	}
	e, err := w.guest(inner, spec, plan, input, output, stop, key, nil)
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
func shared(action *primitive.Action, spec sandbox.Spec, plan *plan) string {
	if plan.Cache == "" || len(spec.Write) > 0 {
		return ""
	}
	for _, dir := range spec.Read {
		if slices.ContainsFunc(spec.Deny, func(at string) bool { return inside(at, dir) }) {
			return ""
		}
	}
	spec.Limits.Wall, spec.Limits.Output = 0, 0 // each call has its own
	key, err := json.Marshal(struct {
		Sandbox             sandbox.Spec
		Module, Cache, Root string
		Read, Deny          []string
		Pages               uint32
		Share, Tool, Own    string
		Links               []string
		Pure, Stranger      bool
	}{spec, plan.Module, plan.Cache, plan.Root, plan.Read, plan.Deny, plan.Pages, action.Share, action.Tool,
		action.Own, action.Links, action.Pure, action.Stranger})
	if err != nil {
		return ""
	}
	return string(key)
}

// guest runs a plan in a guest, and returns an End with the module's exit status. With a key the guest may be a kept
// one, which is kept again if the module ended by itself.
func (w *Wasm) guest(ctx context.Context, s sandbox.Spec, plan *plan, input string, output *answer.Answer, stop func(),
	key string, taken *worker.Taken) (end *worker.End, err error) {
	c := worker.Call{Sandbox: s, Request: plan, Input: input, Out: output.Stdout(), Errs: output.Stderr(), Stop: stop,
		Taken: taken}
	if key != "" {
		plan.Kept, plan.Input, c.Input = true, []byte(input), ""
		end, err = w.pool().Run(ctx, c, key, func(e *worker.End) bool {
			return e.Kind == worker.Exit &&
				e.Ended == ""
		})
	} else {
		host := w.host()
		end, err = host.Run(ctx, c)
	}
	if err != nil {
		return nil, fmt.Errorf("can't run %q: %w", filepath.Base(plan.Module), err)
	}
	switch {
	case end.Kind == worker.Exit:
		end.Exit.Code, end.Exit.Signal = int(binary.BigEndian.Uint32(end.Text)), ""
	case end.Kind == worker.Trap, end.Broken != "":
		end.Exit.Code = -1
	}
	return end, nil
}

// failure returns why a module trapped or its guest broke; "" if it exited or a limit ended it.
func failure(e *worker.End) string {
	if e.Kind == worker.Trap {
		return string(e.Text)
	}
	return e.Broken
}

// rest returns the limits that are left after compiling.
func rest(limits sandbox.Limits, compiled *worker.End) sandbox.Limits {
	if compiled == nil {
		return limits
	}
	left := func(limit time.Duration, used int64) time.Duration {
		if limit <= 0 {
			return limit
		}
		return max(limit-time.Duration(used)*time.Millisecond, time.Millisecond)
	}
	limits.Wall, limits.CPU = left(limits.Wall, compiled.Usage["wall_ms"]), left(limits.CPU, compiled.Usage["cpu_ms"])
	return limits
}

// readModule copies a module to a hash.
func readModule(path string, to io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("the module %q is not a regular file", filepath.Base(path))
	case info.Size() > MaxModule:
		return fmt.Errorf("the module %q has %d bytes; at most %d are allowed", filepath.Base(path), info.Size(),
			MaxModule)
	}
	_, err = io.Copy(to, file)
	return err
}
