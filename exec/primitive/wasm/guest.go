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

	"github.com/rye-build/rye/exec/primitive/guest"
)

// Guest is the main function of the guest: it reads a plan from in, runs it, answers to out, and returns the exit status. A guest
// that is kept does so again with the next plan.
func Guest(in io.Reader, out io.Writer) int {
	ctx, w, e := context.Background(), guest.NewWriter(out), new(ready)
	defer e.close(ctx)
	for first := true; ; first = false {
		p := new(plan)
		err := guest.Read(in, p)
		if !first && errors.Is(err, io.EOF) {
			return 0
		}
		if err == nil {
			err = p.run(ctx, e, in, w)
		}
		kind, text := byte(guest.Exit), []byte{0, 0, 0, 0}
		exit, exited := errors.AsType[*sys.ExitError](err)
		trapped, began := errors.AsType[*trap](err)
		switch {
		case err == nil:
		case exited:
			text = binary.BigEndian.AppendUint32(nil, exit.ExitCode())
		case began:
			kind, text = guest.Trap, guest.Cut(trapped.Error())
		default:
			kind, text = guest.Refused, guest.Cut(err.Error())
		}
		if p.Kept && w.Used() != nil || w.Frame(kind, text) != nil {
			return 1
		}
		if !p.Kept || kind != guest.Exit {
			return 0
		}
	}
}

// A trap ended a module that had begun.
type trap struct{ error }

func (t *trap) Unwrap() error { return t.error }

// A ready is a compiled module, ready to be run again and again. Nothing of a run is left for the next one.
type ready struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
}

func (e *ready) close(ctx context.Context) { _ = closed(ctx, e.runtime) }

// run runs a plan. All plans of a guest are about the same module.
func (p *plan) run(ctx context.Context, e *ready, in io.Reader, w *guest.Writer) error {
	if e.compiled == nil {
		module, err := os.ReadFile(p.Module)
		if err != nil {
			return err
		}
		if p.Make {
			r, _, err := p.compile(ctx, module, p.Cache)
			return errors.Join(err, closed(ctx, r))
		}
		if err := e.make(ctx, p, module); err != nil {
			return err
		}
	}
	view := newView(p)
	defer view.close()
	if p.Kept {
		in = bytes.NewReader(p.Input)
	}
	config := p.config(view).WithStdin(in).WithStdout(w.Stream(guest.Out)).WithStderr(w.Stream(guest.Err))
	// From here on the module may run code.
	m, err := e.runtime.InstantiateModule(reserving(ctx), e.compiled, config)
	if err == nil {
		defer m.Close(ctx)
		_, err = m.ExportedFunction("_start").Call(ctx)
	}
	if err != nil {
		return &trap{err}
	}
	return nil
}

// make compiles the module of a plan.
func (e *ready) make(ctx context.Context, p *plan, module []byte) error {
	r, compiled, err := p.compile(ctx, module, p.Cache)
	if err != nil && p.Cache != "" {
		// The cached code may be another processor's, or was removed meanwhile.
		closed(ctx, r)
		r, compiled, err = p.compile(ctx, module, "")
	}
	if err != nil {
		return errors.Join(err, closed(ctx, r))
	}
	e.runtime = r
	if err := fits(ctx, r, compiled); err != nil {
		return err
	}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
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
func (p *plan) compile(ctx context.Context, module []byte, cache string) (wazero.Runtime, wazero.CompiledModule, error) {
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

// fits returns an error if a module needs something that is missing, before any of it runs.
func fits(ctx context.Context, r wazero.Runtime, m wazero.CompiledModule) error {
	start := m.ExportedFunctions()["_start"]
	if start == nil || len(start.ParamTypes())+len(start.ResultTypes()) > 0 {
		return errors.New("the module is not a program: it has no function _start")
	}
	if len(m.ImportedMemories()) > 0 {
		return errors.New("the module imports its memory, which is not supported")
	}
	host, err := wasi_snapshot_preview1.NewBuilder(r).Compile(ctx)
	if err != nil {
		return err
	}
	defer host.Close(ctx)
	has := host.ExportedFunctions()
	for _, f := range m.ImportedFunctions() {
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

// config returns what the module gets.
func (p *plan) config(v *view) wazero.ModuleConfig {
	c := wazero.NewModuleConfig().WithName("").WithArgs(append([]string{p.Name}, p.Args...)...).WithStartFunctions()
	for _, e := range p.Env {
		name, value, _ := strings.Cut(e, "=")
		c = c.WithEnv(name, value)
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
		c = c.WithWalltime(wall, sys.ClockResolution(time.Millisecond)).
			WithNanotime(tick, sys.ClockResolution(time.Millisecond)).WithNanosleep(func(n int64) { clock += max(n, 0) }).
			WithRandSource(mathrand.NewChaCha8([32]byte{}))
	} else {
		c = c.WithSysWalltime().WithSysNanotime().WithSysNanosleep().WithRandSource(rand.Reader)
	}
	if len(v.rules) > 0 {
		c = c.WithFSConfig(wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(v, "/"))
	}
	return c
}
