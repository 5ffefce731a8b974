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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	star "go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/rye-build/rye/exec/primitive/worker"
	"github.com/rye-build/rye/manifest/jcs"
)

// maxStack limits the stack of the interpreter, in bytes.
const maxStack = 64 << 20

// A request tells the guest which function to run, and how.
type request struct {
	File     string          `json:"file"`
	Function string          `json:"function"`
	Params   json.RawMessage `json:"params"`
	Steps    uint64          `json:"steps"`
	Memory   int64           `json:"memory"` // bytes
	// Without a project the script has no files.
	Project string   `json:"project,omitempty"`
	Read    []string `json:"read,omitempty"`
	Write   []string `json:"write,omitempty"`
	Deny    []string `json:"deny,omitempty"`
}

// An end is how a script ended.
type end struct {
	value  any
	reason string // why the value is missing
	ended  string // the limit that ended it: steps or memory; "" for none
}

// bytes returns the guest's answer.
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

// Guest is the main function of the guest: it reads requests from in and answers them to out until in ends. It
// returns the exit status. It limits the memory of the whole process.
func Guest(in io.Reader, out io.Writer) int {
	debug.SetMaxStack(maxStack)
	w := worker.NewWriter(out)
	for first := true; ; first = false {
		r := new(request)
		if err := worker.Read(in, r); !first && errors.Is(err, io.EOF) {
			return 0
		} else if err != nil {
			w.Frame(worker.Refused, worker.Cut(err.Error()))
			return 2
		}
		if r.serve(w) != nil {
			return 2
		}
	}
}

// serve answers a request. Every request has modules and a thread of its own, so nothing of it remains for the next
// one.
func (r *request) serve(writer *worker.Writer) error {
	debug.SetMemoryLimit(r.Memory / 4 * 3)
	var ended atomic.Bool // set by the answer or by the watch, whichever is first
	go worker.WatchMemory(func() bool { return !ended.Load() }, r.Memory/8*7, func() {
		if ended.Swap(true) {
			return
		}
		// The interpreter can't stop itself: it may be inside a single operation that takes all memory.
		writer.Frame(worker.Value, (&end{ended: "memory"}).bytes())
		syscall.Exit(1)
	})
	answer := r.run(writer.Stream(worker.Err)).bytes()
	if ended.Swap(true) {
		select {} // the watch is ending the process; a second answer would belong to the next call
	}
	return writer.Last(worker.Value, answer)
}

// options is the language as specified, with sets, and with if and for outside of functions. It has no while and no
// recursion.
var options = &syntax.FileOptions{Set: true, TopLevelControl: true}

// A Program is a script, with the files that it may load. It is called once.
type Program struct {
	// Files reads a file of the tool.
	Files func(name string) ([]byte, error)
	Main  string          // the file with the function
	Names star.StringDict // every file's names in addition to the language's
	Print io.Writer
	Steps uint64 // limit on the steps

	main    star.Thread
	over    bool // the script exceeded the limit on steps
	modules map[string]*module
}

// A module is a loaded file; nil while it is being loaded.
type module struct {
	globals star.StringDict
	err     error
}

// run runs a request.
func (r *request) run(errs io.Writer) (result *end) {
	params, err := jcs.Parse(r.Params)
	if err != nil {
		return &end{reason: err.Error()}
	}
	arg, err := FromJSON(params)
	if err != nil {
		return &end{reason: err.Error()}
	}
	root, err := os.OpenRoot(filepath.Dir(r.File))
	if err != nil {
		return &end{reason: err.Error()}
	}
	defer root.Close()
	p := &Program{Files: root.ReadFile, Main: filepath.Base(r.File), Print: errs, Steps: r.Steps, Names: Predeclared()}
	if r.Project != "" {
		at := newPlace(r.Project, r.Read, r.Write, r.Deny)
		defer at.close()
		p.Names["fs"] = at.module()
	}
	result = new(end)
	result.value, result.reason, result.ended = p.Call(r.Function, arg)
	return result
}

// Call loads the program and calls a function of it. It returns the function's result as a JSON value, or the reason
// for a missing value and the limit that ended the program: "steps", "memory", or "" if it failed by itself.
func (p *Program) Call(function string, args ...star.Value) (value any, reason, ended string) {
	// A panic of the interpreter counts as a failure of the script.
	defer func() {
		if r := recover(); r != nil {
			value, reason = nil, fmt.Sprintf("the interpreter failed: %v", r)
			if strings.Contains(reason, "out of range") || strings.Contains(reason, "too large") {
				reason, ended = "", "memory" // the script asked for a size beyond any memory
			}
		}
	}()
	p.modules = map[string]*module{}
	p.prepare(&p.main, p.Main, p.Steps)
	v, err := p.call(function, args)
	if err != nil {
		reason, ended = p.failed(err)
		return nil, reason, ended
	}
	if value, err = ToJSON(v); err != nil {
		return nil, err.Error(), ""
	}
	return value, "", ""
}

// Cancel ends a running call at the interpreter's next step.
func (p *Program) Cancel(reason string) { p.main.Cancel(reason) }

func (p *Program) call(function string, args star.Tuple) (star.Value, error) {
	globals, err := p.exec(&p.main, p.Main)
	if err != nil {
		return nil, err
	}
	f, ok := globals[function].(star.Callable)
	if !ok {
		return nil, fmt.Errorf("%s has no function %s", p.Main, function)
	}
	return star.Call(&p.main, f, args, nil)
}

// prepare sets up the thread of a file.
func (p *Program) prepare(t *star.Thread, file string, steps uint64) {
	t.Name = file
	t.Print = func(_ *star.Thread, text string) { fmt.Fprintln(p.Print, text) }
	t.Load = func(t *star.Thread, name string) (star.StringDict, error) { return p.load(t, file, name) }
	t.OnMaxSteps = func(t *star.Thread) {
		p.over = true
		t.Cancel("too many steps")
	}
	t.SetMaxExecutionSteps(steps)
}

// exec runs a file's statements.
func (p *Program) exec(t *star.Thread, file string) (star.StringDict, error) {
	text, err := p.Files(filepath.FromSlash(file))
	if err != nil {
		return nil, fmt.Errorf("%q is not one of the tool's own files: %w", file, errors.Unwrap(err))
	}
	return star.ExecFileOptions(options, t, file, text, p.Names)
}

// load loads a file for another one, by a name relative to its directory.
func (p *Program) load(thread *star.Thread, from, name string) (star.StringDict, error) {
	file := path.Join(path.Dir(from), name)
	switch {
	case path.Ext(name) != ".star":
		return nil, fmt.Errorf("%q: expected the name of a .star file", name)
	case path.IsAbs(name) || !filepath.IsLocal(filepath.FromSlash(file)):
		return nil, fmt.Errorf("%q is outside the tool's own directory", name)
	}
	loaded, known := p.modules[file]
	if known && loaded == nil || file == p.Main {
		return nil, fmt.Errorf("%q is already being loaded: the files load each other", name)
	}
	if !known {
		p.modules[file] = nil
		sub := new(star.Thread)
		p.prepare(sub, file, p.Steps-min(thread.ExecutionSteps(), p.Steps-1))
		loaded = new(module)
		loaded.globals, loaded.err = p.exec(sub, file)
		thread.Steps += sub.ExecutionSteps()
		p.modules[file] = loaded
	}
	return loaded.globals, loaded.err
}

// A failure is the error of fail().
type failure struct{ reason string }

func (e *failure) Error() string { return e.reason }

// repeated matches the interpreter's errors about a string or list that would be too long.
var repeated = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(excessive repeat \(\d+ \* \d+ elements\)|repeat count \d+ too large)$`)
})

// failed returns why a script failed, and the limit that ended it.
func (p *Program) failed(err error) (reason, ended string) {
	reason = err.Error()
	own, chosen := errors.AsType[*failure](err)
	file, ofFile := errors.AsType[*fileError](err)
	evalError, evaluated := errors.AsType[*star.EvalError](err)
	switch {
	case p.over:
		return "", "steps"
	case chosen:
		return own.reason, ""
	case ofFile:
		return file.Error(), "" // without the place: the path is more often the caller's mistake than the script's
	case repeated().MatchString(reason):
		return "", "memory"
	case evaluated:
		at, depth := position(evalError)
		if depth > 1 {
			fmt.Fprintln(p.Print, evalError.Backtrace())
		}
		return at + evalError.Msg, ""
	case strings.Contains(reason, "undefined: fs"):
		reason += " (no file of the project was granted: the tool lists those it needs under files:)"
	}
	return reason, ""
}

// position returns the place of an error in the tool's files, and how many of its stack frames are in them.
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
