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

	"github.com/rye-build/rye/manifest/jcs"
)

// maxStack is what the stack of the interpreter may take.
const maxStack = 64 << 20

// A request is what the child reads from standard input.
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

// An end is what it writes to standard output, once. What it prints goes to standard error.
type end struct {
	value  any
	reason string // why there is none
	ended  string // steps or memory; "" if neither has ended it
}

// bytes returns the answer as it is written.
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

// Guest is the child: it reads a request, runs it, and writes the answer. It returns the status of the process, which has
// nothing else to do: limits of its memory are set for all of it.
func Guest(in io.Reader, out, errs io.Writer) int {
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		fmt.Fprintln(errs, "the request can't be read:", err)
		return 2
	}
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(r.Memory / 4 * 3)
	ended := make(chan struct{})
	defer close(ended)
	go watch(ended, r.Memory/8*7, func() {
		// The interpreter isn't asked: it may be within one operation that takes all there is.
		out.Write((&end{ended: "memory"}).bytes())
		syscall.Exit(1)
	})
	a := r.run(errs)
	if _, err := out.Write(a.bytes()); err != nil {
		fmt.Fprintln(errs, err)
		return 2
	}
	return 0
}

// watch looks at how much memory is in use, and calls over once that is more than most.
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

// options is the language: as specified, with sets, and if and for outside of functions. There is no while, and no function
// calls itself.
var options = &syntax.FileOptions{Set: true, TopLevelControl: true}

// A program is a script that runs.
type program struct {
	root    *os.Root // the tool's own files
	main    string
	names   star.StringDict // predeclared
	errs    io.Writer
	most    uint64
	over    bool // the steps are used up
	modules map[string]*module
}

// A module is a file that was loaded; nil while it is being loaded.
type module struct {
	globals star.StringDict
	err     error
}

// run runs a request.
func (r *request) run(errs io.Writer) (a *end) {
	// What the interpreter can't survive is the script's failure, not this process's.
	defer func() {
		if p := recover(); p != nil {
			a = &end{reason: fmt.Sprintf("what reads Starlark broke: %v", p)}
			if strings.Contains(a.reason, "out of range") || strings.Contains(a.reason, "too large") {
				a = &end{ended: "memory"} // a size that no memory has
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
	value, err := new(reckoning).result(v, 1)
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
		return nil, fmt.Errorf("%q isn't among the tool's own files: %w", file, errors.Unwrap(err))
	}
	return star.ExecFileOptions(options, t, file, text, p.names)
}

// load loads a file for another. Names are relative to that one's directory.
func (p *program) load(t *star.Thread, from, name string) (star.StringDict, error) {
	file := path.Join(path.Dir(from), name)
	switch {
	case path.Ext(name) != ".star":
		return nil, fmt.Errorf("%q: what is loaded is a .star file", name)
	case path.IsAbs(name) || !filepath.IsLocal(filepath.FromSlash(file)):
		return nil, fmt.Errorf("%q is outside of the tool's own directory", name)
	}
	m, known := p.modules[file]
	if known && m == nil || file == p.main {
		return nil, fmt.Errorf("%q is being loaded already: the files load each other", name)
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

// A failure is what fail says.
type failure struct{ reason string }

func (e *failure) Error() string { return e.reason }

// repeated is what the interpreter says of a text or list that was to be longer than it makes one.
var repeated = regexp.MustCompile(`\b(excessive repeat \(\d+ \* \d+ elements\)|repeat count \d+ too large)$`)

// failed says why there is no value.
func (p *program) failed(err error) *end {
	a := &end{reason: err.Error()}
	said, chosen := errors.AsType[*failure](err)
	file, ofFile := errors.AsType[*fileError](err)
	e, evaluated := errors.AsType[*star.EvalError](err)
	switch {
	case p.over:
		a.ended, a.reason = "steps", ""
	case chosen:
		a.reason = said.reason
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
		a.reason += " (no file of the project was granted: files: in the tool says which it needs)"
	}
	return a
}

// position is where in the tool's files an error came to be, and by how many calls in them.
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
