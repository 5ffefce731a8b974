package wasm

import (
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
)

// maxTrap is how much is said of a trap.
const maxTrap = 4000

// Guest is the child: it reads a plan, does it, and returns the status to exit with. What it is asked is the first of
// in, what it answers goes to out.
func Guest(in io.Reader, out io.Writer) int {
	f := &framer{to: out}
	p, err := readPlan(in)
	if err == nil {
		err = p.run(context.Background(), in, f)
	}
	kind, text := byte(kindExit), []byte{0, 0, 0, 0}
	exit, exited := errors.AsType[*sys.ExitError](err)
	trapped, began := errors.AsType[*trap](err)
	switch {
	case err == nil:
	case exited:
		text = binary.BigEndian.AppendUint32(nil, exit.ExitCode())
	case began:
		kind, text = kindTrap, []byte(cut(trapped.Error()))
	default:
		kind, text = kindRefused, []byte(cut(err.Error()))
	}
	if f.frame(kind, text) != nil {
		return 1
	}
	return 0
}

// A trap ended a module that had begun.
type trap struct{ error }

func (t *trap) Unwrap() error { return t.error }

func cut(text string) string {
	if len(text) > maxTrap {
		text = strings.ToValidUTF8(text[:maxTrap], "") + "…"
	}
	return text
}

// run does a plan.
func (p *plan) run(ctx context.Context, in io.Reader, f *framer) error {
	module, err := os.ReadFile(p.Module)
	if err != nil {
		return err
	}
	if p.Make {
		r, _, err := p.compile(ctx, module, p.Cache)
		return errors.Join(err, closed(ctx, r))
	}
	r, compiled, err := p.compile(ctx, module, p.Cache)
	if err != nil && p.Cache != "" {
		// What is kept may be another processor's, or gone meanwhile.
		closed(ctx, r)
		r, compiled, err = p.compile(ctx, module, "")
	}
	if err != nil {
		return errors.Join(err, closed(ctx, r))
	}
	defer r.Close(ctx)
	if err := fits(ctx, r, compiled); err != nil {
		return err
	}
	view := newView(p)
	defer view.close()
	config := p.config(view).WithStdin(in).WithStdout(framed{f, kindOut}).WithStderr(framed{f, kindErr})
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return err
	}
	// A module may run code of its own from here on.
	m, err := r.InstantiateModule(reserving(ctx), compiled, config)
	if err == nil {
		_, err = m.ExportedFunction("_start").Call(ctx)
	}
	if err != nil {
		return &trap{err}
	}
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

// fits says what a module wants that isn't there, before anything of it runs.
func fits(ctx context.Context, r wazero.Runtime, m wazero.CompiledModule) error {
	start := m.ExportedFunctions()["_start"]
	if start == nil || len(start.ParamTypes())+len(start.ResultTypes()) > 0 {
		return errors.New("the module is no program: it has no function _start")
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
			return fmt.Errorf("the module imports %q of %q, which isn't there: it has WASI preview 1 and nothing else", name, from)
		}
	}
	return nil
}

func same(a, b api.FunctionDefinition) bool {
	return slices.Equal(a.ParamTypes(), b.ParamTypes()) && slices.Equal(a.ResultTypes(), b.ResultTypes())
}

// config is what the module gets.
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
