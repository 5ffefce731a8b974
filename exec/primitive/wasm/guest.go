package wasm

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/rye-build/rye/exec/primitive/worker"
)

// Guest is the main function of the guest: it reads a plan from in, runs it, answers to out, and returns the exit
// status. A kept guest repeats that with the next plan.
func Guest(in io.Reader, out io.Writer) int {
	ctx, writer, ready := context.Background(), worker.NewWriter(out), new(ready)
	defer ready.close(ctx)
	for calls := 1; ; calls++ {
		plan := new(plan)
		err := worker.Read(in, plan)
		if calls > 1 && errors.Is(err, io.EOF) {
			return 0
		}
		if err == nil {
			err = plan.run(ctx, ready, in, writer)
		}
		kind, text := byte(worker.Exit), []byte{0, 0, 0, 0}
		exit, exited := errors.AsType[*sys.ExitError](err)
		trapped, began := errors.AsType[*trap](err)
		switch {
		case err == nil:
		case exited:
			text = binary.BigEndian.AppendUint32(nil, exit.ExitCode())
		case began:
			kind, text = worker.Trap, worker.Cut(trapped.Error())
		default:
			kind, text = worker.Refused, worker.Cut(err.Error())
		}
		write := writer.Frame
		if plan.Kept {
			write = writer.Last
		}
		if write(kind, text) != nil {
			return 1
		}
		if !plan.Kept || kind != worker.Exit {
			return 0
		}
		ready.last.close(ctx)
		if ready.last = nil; calls > 1 { // a tool that was called twice will probably be called again
			ready.next = ready.instance(ctx, plan, writer)
		}
	}
}

// A trap is the error that ended a running module.
type trap struct{ error }

func (t *trap) Unwrap() error { return t.error }

// A ready is a compiled module that can run many times. Each run has an instance of its own, so nothing of it remains
// for the next run. An instance may be made before its plan arrives, because copying a module's data into memory
// takes as long as many runs.
type ready struct {
	runtime    wazero.Runtime
	memory     memory
	compiled   wazero.CompiledModule
	starts     bool      // instantiating runs code of the module
	next, last *instance // nil: none
}

// An instance is a module with its memory, and the plan that it runs.
type instance struct {
	module api.Module
	plan   *plan
	view   *view
	in     io.Reader
}

// Read reads from the input of the plan.
func (i *instance) Read(b []byte) (int, error) { return i.in.Read(b) }

func (i *instance) close(ctx context.Context) {
	if i != nil {
		i.module.Close(ctx)
		i.view.close()
	}
}

// instance makes an instance for a later plan like p, which then opens its own files. It returns nil on failure.
func (e *ready) instance(ctx context.Context, p *plan, w *worker.Writer) *instance {
	i := &instance{plan: p, view: newView(p)}
	i.view.close()
	if e.starts || e.instantiate(ctx, i, w) != nil {
		return nil
	}
	return i
}

// take returns the instance that was made for such a plan in advance, or nil.
func (e *ready) take(ctx context.Context, p *plan) *instance {
	i := e.next
	if e.next = nil; i == nil {
		return nil
	}
	// everything else is the same in all plans of a guest
	if !slices.Equal(i.plan.Args, p.Args) || !slices.Equal(i.plan.Env, p.Env) {
		i.module.Close(ctx)
		return nil
	}
	i.view.rules = newView(p).rules
	return i
}

// instantiate creates the module of an instance, with its memory.
func (e *ready) instantiate(ctx context.Context, i *instance, w *worker.Writer) (err error) {
	config := i.plan.config(i.view).WithStdin(i).WithStdout(w.Stream(worker.Out)).WithStderr(w.Stream(worker.Err))
	i.module, err = e.runtime.InstantiateModule(e.memory.reserving(ctx), e.compiled, config)
	return err
}

func (e *ready) close(ctx context.Context) { _ = closed(ctx, e.runtime) }

// run runs a plan. All plans of a guest have the same module.
func (p *plan) run(ctx context.Context, ready *ready, in io.Reader, writer *worker.Writer) error {
	if ready.compiled == nil {
		module, err := os.ReadFile(p.Module)
		if err != nil {
			return err
		}
		module = joined(module)
		if p.Make {
			r, _, err := p.compile(ctx, module, p.Cache)
			return errors.Join(err, closed(ctx, r))
		}
		if err := ready.make(ctx, p, module); err != nil {
			return err
		}
		ready.starts = starts(module)
	}
	if p.Kept {
		in = bytes.NewReader(p.Input)
	}
	i := ready.take(ctx, p)
	var err error
	// From here on the module's code may run.
	if i != nil {
		i.in = in
	} else {
		i = &instance{plan: p, view: newView(p), in: in}
		if err = ready.instantiate(ctx, i, writer); err != nil {
			i.view.close()
			return &trap{err}
		}
	}
	ready.last = i // closed after the answer is sent
	if _, err = i.module.ExportedFunction("_start").Call(ctx); err != nil {
		return &trap{err}
	}
	return nil
}

// make compiles the module of a plan.
func (e *ready) make(ctx context.Context, p *plan, module []byte) error {
	runtime, compiled, err := p.compile(ctx, module, p.Cache)
	if err != nil && p.Cache != "" {
		// The cached code may be for another processor, or may have been removed meanwhile.
		closed(ctx, runtime)
		runtime, compiled, err = p.compile(ctx, module, "")
	}
	if err != nil {
		return errors.Join(err, closed(ctx, runtime))
	}
	e.runtime = runtime
	if err := fits(ctx, runtime, compiled); err != nil {
		return err
	}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, runtime); err != nil {
		return err
	}
	e.compiled = compiled
	return nil
}

func closed(ctx context.Context, r wazero.Runtime) error {
	if r == nil {
		return nil
	}
	return r.Close(ctx)
}

// compile compiles a module.
func (p *plan) compile(ctx context.Context, module []byte, cache string) (wazero.Runtime, wazero.CompiledModule,
	error) {
	c := wazero.NewRuntimeConfig().WithMemoryLimitPages(p.Pages).WithDebugInfoEnabled(false)
	if cache != "" {
		kept, err := wazero.NewCompilationCacheWithDir(cache)
		if err != nil {
			return nil, nil, err
		}
		c = c.WithCompilationCache(kept)
	}
	r := wazero.NewRuntimeWithConfig(ctx, c)
	compiled, err := r.CompileModule(experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0)), module)
	return r, compiled, err
}

// fits returns an error if a module needs an unsupported feature. None of its code has run yet.
func fits(ctx context.Context, r wazero.Runtime, compiledModule wazero.CompiledModule) error {
	start := compiledModule.ExportedFunctions()["_start"]
	if start == nil || len(start.ParamTypes())+len(start.ResultTypes()) > 0 {
		return errors.New("the module is not a program: it has no function _start")
	}
	if len(compiledModule.ImportedMemories()) > 0 {
		return errors.New("the module imports its memory, which is not supported")
	}
	host, err := wasi_snapshot_preview1.NewBuilder(r).Compile(ctx)
	if err != nil {
		return err
	}
	defer host.Close(ctx)
	has := host.ExportedFunctions()
	for _, f := range compiledModule.ImportedFunctions() {
		from, name, _ := f.Import()
		h := has[name]
		if from != wasi_snapshot_preview1.ModuleName || h == nil || !same(f, h) {
			return fmt.Errorf("the module imports %q from %q: only WASI preview 1 is available", name, from)
		}
	}
	return nil
}

func same(a, b api.FunctionDefinition) bool {
	return slices.Equal(a.ParamTypes(), b.ParamTypes()) && slices.Equal(a.ResultTypes(), b.ResultTypes())
}

// config returns the module's arguments, variables, files, clock and randomness.
func (p *plan) config(view *view) wazero.ModuleConfig {
	moduleConfig := wazero.NewModuleConfig().WithName("").WithArgs(append([]string{p.Name},
		p.Args...)...).WithStartFunctions()
	for _, e := range p.Env {
		name, value, _ := strings.Cut(e, "=")
		moduleConfig = moduleConfig.WithEnv(name, value)
	}
	if p.Pure {
		clock := int64(-time.Millisecond)
		tick := func() int64 {
			clock += int64(time.Millisecond)
			return clock
		}
		wall := func() (int64, int32) {
			t := tick()
			return t / 1e9, int32(t % 1e9)
		}
		moduleConfig = moduleConfig.WithWalltime(wall, sys.ClockResolution(time.Millisecond)).
			WithNanotime(tick, sys.ClockResolution(time.Millisecond)).WithNanosleep(func(n int64) {
			clock += max(n, 0)
		}).
			WithRandSource(mathrand.NewChaCha8([32]byte{}))
	} else {
		moduleConfig = moduleConfig.WithSysWalltime().WithSysNanotime().WithSysNanosleep().WithRandSource(rand.Reader)
	}
	if len(view.rules) > 0 {
		moduleConfig = moduleConfig.WithFSConfig(wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(view, "/"))
	}
	return moduleConfig
}
