package starlark

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"time"

	star "go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/rye-build/rye/exec/primitive/guest"
	"github.com/rye-build/rye/manifest/jcs"
)

// maxStack limits the stack of the interpreter, in bytes.
const maxStack = 64 << 20

// A request is what the guest is asked to do.
type request struct {
	File     string          `json:"file"`
	Function string          `json:"function"`
	Params   json.RawMessage `json:"params"`
	Steps    uint64          `json:"steps"`
	Memory   int64           `json:"memory"` // bytes
	// Without a project there are no files.
	Project string   `json:"project,omitempty"`
	Read    []string `json:"read,omitempty"`
	Write   []string `json:"write,omitempty"`
	Deny    []string `json:"deny,omitempty"`
}

// An end is how a script ended.
type end struct {
	value  any
	reason string // why there is no value
	ended  string // steps or memory, if one of them ended it
}

// bytes returns the answer of the guest.
func (a *end) bytes() []byte {
	object := map[string]any{"value": a.value}
	if a.reason != "" || a.ended != "" {
		object = map[string]any{"reason": strings.ToValidUTF8(a.reason, "\ufffd"), "ended": a.ended}
	}
	text, err := jcs.Append(nil, object)
	if err != nil {
		return (&end{reason: err.Error()}).bytes()
	}
	return text
}

// Guest is the main function of the guest: it reads a request from in, runs it, answers to out, and returns the exit status. It
// limits the memory of the whole process.
func Guest(in io.Reader, out io.Writer) int {
	w, r := guest.NewWriter(out), new(request)
	if err := guest.Read(in, r); err != nil {
		w.Frame(guest.Refused, guest.Cut(err.Error()))
		return 2
	}
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(r.Memory / 4 * 3)
	ended := make(chan struct{})
	defer close(ended)
	go watch(ended, r.Memory/8*7, func() {
		// The interpreter can't be asked: it may be inside one operation that takes all memory.
		w.Frame(guest.Value, (&end{ended: "memory"}).bytes())
		syscall.Exit(1)
	})
	if w.Frame(guest.Value, r.run(w.Stream(guest.Err)).bytes()) != nil {
		return 2
	}
	return 0
}

// watch samples the memory in use, and calls over once it exceeds most.
func watch(ended <-chan struct{}, most int64, over func()) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ended:
			return
		case <-look.C:
		}
		if metrics.Read(sample); sample[0].Value.Uint64() > uint64(most) {
			over()
			return
		}
	}
}

// options is the language as specified, with sets, and with if and for outside of functions. There is no while and no
// recursion.
var options = &syntax.FileOptions{Set: true, TopLevelControl: true}

// A program is a running script.
type program struct {
	root    *os.Root // the tool's own files
	main    string
	names   star.StringDict // predeclared
	errs    io.Writer
	most    uint64
	over    bool // it took too many steps
	modules map[string]*module
}

// A module is a loaded file; nil while it is being loaded.
type module struct {
	globals star.StringDict
	err     error
}

// run runs a request.
func (r *request) run(errs io.Writer) (a *end) {
	// A panic of the interpreter is a failure of the script.
	defer func() {
		if p := recover(); p != nil {
			a = &end{reason: fmt.Sprintf("the interpreter failed: %v", p)}
			if strings.Contains(a.reason, "out of range") || strings.Contains(a.reason, "too large") {
				a = &end{ended: "memory"} // a size beyond any memory
			}
		}
	}()
	params, err := jcs.Parse(r.Params)
	if err != nil {
		return &end{reason: err.Error()}
	}
	arg, err := given(params)
	if err != nil {
		return &end{reason: err.Error()}
	}
	root, err := os.OpenRoot(filepath.Dir(r.File))
	if err != nil {
		return &end{reason: err.Error()}
	}
	defer root.Close()
	p := &program{root: root, main: filepath.Base(r.File), errs: errs, most: r.Steps, modules: map[string]*module{}, names: predeclared()}
	if r.Project != "" {
		at := newPlace(r.Project, r.Read, r.Write, r.Deny)
		defer at.close()
		p.names["fs"] = at.module()
	}
	v, err := p.call(r.Function, arg)
	if err != nil {
		return p.failed(err)
	}
	value, err := new(converter).result(v, 1)
	if err != nil {
		return &end{reason: err.Error()}
	}
	return &end{value: value}
}

// call loads the program and calls a function of it.
func (p *program) call(function string, arg star.Value) (star.Value, error) {
	t := p.thread(p.main)
	t.SetMaxExecutionSteps(p.most)
	globals, err := p.exec(t, p.main)
	if err != nil {
		return nil, err
	}
	f, ok := globals[function].(star.Callable)
	if !ok {
		return nil, fmt.Errorf("%s has no function %s", p.main, function)
	}
	return star.Call(t, f, star.Tuple{arg}, nil)
}

// thread makes a thread for a file.
func (p *program) thread(file string) *star.Thread {
	return &star.Thread{
		Name:  file,
		Print: func(_ *star.Thread, text string) { fmt.Fprintln(p.errs, text) },
		Load:  func(t *star.Thread, name string) (star.StringDict, error) { return p.load(t, file, name) },
		OnMaxSteps: func(t *star.Thread) {
			p.over = true
			t.Cancel("too many steps")
		},
	}
}

// exec runs a file's statements.
func (p *program) exec(t *star.Thread, file string) (star.StringDict, error) {
	text, err := p.root.ReadFile(filepath.FromSlash(file))
	if err != nil {
		return nil, fmt.Errorf("%q is not one of the tool's own files: %w", file, errors.Unwrap(err))
	}
	return star.ExecFileOptions(options, t, file, text, p.names)
}

// load loads a file for another one, by a name relative to its directory.
func (p *program) load(t *star.Thread, from, name string) (star.StringDict, error) {
	file := path.Join(path.Dir(from), name)
	switch {
	case path.Ext(name) != ".star":
		return nil, fmt.Errorf("%q: expected the name of a .star file", name)
	case path.IsAbs(name) || !filepath.IsLocal(filepath.FromSlash(file)):
		return nil, fmt.Errorf("%q is outside the tool's own directory", name)
	}
	m, known := p.modules[file]
	if known && m == nil || file == p.main {
		return nil, fmt.Errorf("%q is already being loaded: the files load each other", name)
	}
	if !known {
		p.modules[file] = nil
		sub := p.thread(file)
		sub.SetMaxExecutionSteps(p.most - min(t.ExecutionSteps(), p.most-1))
		m = new(module)
		m.globals, m.err = p.exec(sub, file)
		t.Steps += sub.ExecutionSteps()
		p.modules[file] = m
	}
	return m.globals, m.err
}

// A failure is the error of fail().
type failure struct{ reason string }

func (e *failure) Error() string { return e.reason }

// repeated matches the interpreter's errors about a string or list that would be too long.
var repeated = regexp.MustCompile(`\b(excessive repeat \(\d+ \* \d+ elements\)|repeat count \d+ too large)$`)

// failed returns the end of a script that failed.
func (p *program) failed(err error) *end {
	a := &end{reason: err.Error()}
	own, chosen := errors.AsType[*failure](err)
	file, ofFile := errors.AsType[*fileError](err)
	e, evaluated := errors.AsType[*star.EvalError](err)
	switch {
	case p.over:
		a.ended, a.reason = "steps", ""
	case chosen:
		a.reason = own.reason
	case ofFile:
		a.reason = file.Error() // the path is more often the caller's than the script's
	case repeated.MatchString(a.reason):
		a.ended, a.reason = "memory", ""
	case evaluated:
		at, depth := position(e)
		if depth > 1 {
			fmt.Fprintln(p.errs, e.Backtrace())
		}
		a.reason = at + e.Msg
	case strings.Contains(a.reason, "undefined: fs"):
		a.reason += " (no file of the project was granted: the tool lists those it needs under files:)"
	}
	return a
}

// position returns where in the tool's files an error arose, and how many of its calls are in them.
func position(e *star.EvalError) (at string, depth int) {
	for i := range e.CallStack {
		if p := e.CallStack.At(i).Pos; p.Line > 0 {
			if depth++; depth == 1 {
				at = p.String() + ": "
			}
		}
	}
	return at, depth
}
