package wasm

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/answer"
	"github.com/rye-build/rye/exec/primitive/guest"
	"github.com/rye-build/rye/exec/sandbox"
)

const (
	// MaxModule is the largest module.
	MaxModule = 64 << 20
	// Overhead is the memory that a guest may use beside the module's.
	Overhead = 512 << 20

	page     = 64 << 10
	maxPages = 1 << 16
	// ownFiles is how many files a guest opens for itself.
	ownFiles = 64
)

// A Wasm is the primitive.
type Wasm struct {
	Machine *sandbox.Machine
	Self    []string // an absolute path and arguments that start this binary so that it calls Guest
	Cache   string   // the directory of compiled modules; "" keeps none

	making materialise.Keys
}

// Run implements primitive.Primitive.
func (w *Wasm) Run(ctx context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
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
	if compiled != nil && (compiled.Ended != "" || compiled.Kind != guest.Exit) {
		r := answer.New(nil, nil).Result(&compiled.Outcome)
		r.Failed, r.Failure = true, cmp.Or(failure(compiled), "the module was being compiled")
		return r, nil
	}
	spec.Limits = rest(spec.Limits, compiled)
	if p.Cache != "" {
		spec.Read = append(slices.Clone(spec.Read), p.Cache)
	}
	output := answer.New(to, stop)
	e, err := w.guest(inner, spec, p, input, output, stop)
	if err != nil {
		return nil, err
	}
	r := output.Result(&e.Outcome)
	if why := failure(e); why != "" && r.Ended == "" {
		r.Failed, r.Failure = true, why
	}
	r.Enforced = append(r.Enforced, "wasm")
	if compiled != nil {
		for _, name := range []string{"wall_ms", "cpu_ms"} {
			r.Usage[name] += compiled.Usage[name]
		}
	}
	return r, nil
}

// guest runs a plan in a guest, with the exit status of the module in its End.
func (w *Wasm) guest(ctx context.Context, s sandbox.Spec, p *plan, input string, output *answer.Answer, stop func()) (*guest.End, error) {
	host := guest.Host{Machine: w.Machine, Self: w.Self}
	e, err := host.Run(ctx, guest.Call{Sandbox: s, Request: p, Input: input, Out: output.Stdout(), Errs: output.Stderr(), Stop: stop})
	if err != nil {
		return nil, fmt.Errorf("can't run %q: %w", filepath.Base(p.Module), err)
	}
	switch {
	case e.Kind == guest.Exit:
		e.Exit.Code, e.Exit.Signal = int(binary.BigEndian.Uint32(e.Text)), ""
	case e.Kind == guest.Trap, e.Broken != "":
		e.Exit.Code = -1
	}
	return e, nil
}

// failure returns why a module didn't end by itself; "" if it did, or if a limit ended it.
func failure(e *guest.End) string {
	if e.Kind == guest.Trap {
		return string(e.Text)
	}
	return e.Broken
}

// rest returns the time that is left after compiling.
func rest(l sandbox.Limits, compiled *guest.End) sandbox.Limits {
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
		return fmt.Errorf("the module %q has %d bytes; at most %d are allowed", filepath.Base(path), info.Size(), MaxModule)
	}
	_, err = io.Copy(to, f)
	return err
}
