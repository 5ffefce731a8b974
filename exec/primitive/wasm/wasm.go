package wasm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/answer"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
)

const (
	// MaxModule is the most that a module has.
	MaxModule = 64 << 20
	// Overhead is what a child may use of memory beside the module's.
	Overhead = 512 << 20

	page     = 64 << 10
	maxPages = 1 << 16
	// ownFiles are what a child has open for itself.
	ownFiles = 64

	// maxComplaint is how much is kept of what the binary itself complains about.
	maxComplaint = 64 << 10
)

// A Wasm is the primitive.
type Wasm struct {
	Machine *sandbox.Machine
	Self    []string // an absolute path and arguments that start this binary so that it calls Guest
	Cache   string   // where compiled modules are kept; "" keeps none

	making alone
}

// Run implements primitive.Primitive.
func (w *Wasm) Run(ctx context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	p, input, err := planOf(a)
	if err != nil {
		return nil, err
	}
	if len(w.Self) == 0 {
		return nil, &sandbox.UnavailableError{Level: a.Sandbox.Level, Missing: []string{"a child process: missing in this program"}}
	}
	spec := confine(a, p)
	spent, err := w.compiled(ctx, spec, p)
	if err != nil || spent.ended() {
		return spent.result(), err
	}
	spec.Limits = spent.rest(spec.Limits)
	if p.Cache != "" {
		spec.Read = append(slices.Clone(spec.Read), p.Cache)
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	said := answer.New(to, stop)
	c, err := w.child(inner, spec, p, input, said.Stdout(), said.Stderr(), stop)
	if err != nil {
		return nil, err
	}
	r := said.Result(&c.outcome)
	if c.trap != "" && r.Ended == "" {
		r.Failed, r.Failure = true, c.trap
	}
	r.Enforced = append(r.Enforced, "wasm")
	for name, n := range spent.used() {
		r.Usage[name] += n
	}
	return r, nil
}

// planOf makes the plan of an action.
func planOf(a *primitive.Action) (p *plan, input string, err error) {
	text := func(name string) string {
		s, _ := a.Config[name].(string)
		return s
	}
	p = &plan{Module: text("module"), Pure: a.Pure, Root: text("root"), Pages: maxPages}
	if !filepath.IsAbs(p.Module) || !inside(p.Module, a.Own) {
		return nil, "", fmt.Errorf("the module %q isn't one of the tool's own files: {tool_dir}/_module.wasm would be", p.Module)
	}
	if p.Root != "" && (!filepath.IsAbs(p.Root) || filepath.Clean(p.Root) != p.Root) {
		return nil, "", fmt.Errorf("root %q is no clean absolute path", p.Root)
	}
	p.Name = filepath.Base(p.Module)
	if p.Args, err = a.Args(); err != nil {
		return nil, "", err
	}
	for i, arg := range p.Args {
		if strings.Contains(arg, "\x00") {
			return nil, "", proc.BadArgument(fmt.Sprintf("argument %d", i+1), "contains a NUL byte")
		}
	}
	vars, _ := a.Config["env"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		v, ok := vars[name].(string)
		if !ok || name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(v, "\x00") {
			return nil, "", proc.BadArgument(fmt.Sprintf("variable %.100q", name), "can't be passed")
		}
		p.Env = append(p.Env, name+"="+v)
	}
	if most := a.Sandbox.Limits.Memory; most > 0 {
		p.Pages = uint32(min(most/page, maxPages))
	} else {
		p.Pages = uint32(sandbox.DefaultLimits().Memory / page)
	}
	if p.Root != "" {
		near := func(list []string) []string {
			return slices.DeleteFunc(slices.Clone(list), func(at string) bool { return !inside(at, p.Root) && !inside(p.Root, at) })
		}
		p.Read, p.Write, p.Deny = near(a.Sandbox.Read), near(a.Sandbox.Write), near(a.Sandbox.Deny)
	}
	return p, text("input_data"), nil
}

// inside reports whether a path is a directory or in it.
func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return dir != "" && err == nil && filepath.IsLocal(rel)
}

// confine is the sandbox of a child: it has what the module was granted and nothing that only a program would need.
func confine(a *primitive.Action, p *plan) sandbox.Spec {
	s := a.Sandbox
	s.Most, s.Network = true, sandbox.Network{}
	s.Read, s.Write = append(slices.Clone(p.Read), p.Module), p.Write
	d := sandbox.DefaultLimits()
	l := &s.Limits
	l.Wall, l.Memory, l.Output = a.Wall(), int64(p.Pages)*page+Overhead, cmp.Or(max(l.Output, 0), d.Output)
	l.Processes = d.Processes // threads of our own
	if l.Files > 0 {
		l.Files += ownFiles
	}
	return s
}

// An end is what became of a child.
type end struct {
	outcome sandbox.Outcome
	trap    string
}

// child starts a child and hears it out. An error says that nothing has happened.
func (w *Wasm) child(ctx context.Context, s sandbox.Spec, p *plan, input string, out, errs io.Writer, stop func()) (*end, error) {
	head, err := p.append(nil)
	if err != nil {
		return nil, err
	}
	h := &hearer{out: out, errs: errs, left: s.Limits.Output, stop: stop}
	// Frames of a byte are six: what counts is what is in them.
	s.Limits.Output = 8*s.Limits.Output + 1<<20
	complaint := new(complaints)
	began := time.Now()
	o, err := w.Machine.Run(ctx, s, proc.Command{
		Path: w.Self[0], Args: w.Self[1:], Stdin: io.MultiReader(bytes.NewReader(head), strings.NewReader(input)), Stdout: h, Stderr: complaint,
	})
	if err != nil {
		return nil, err
	}
	e := &end{outcome: *o}
	if e.outcome.Usage == nil {
		e.outcome.Usage = map[string]int64{"wall_ms": time.Since(began).Milliseconds()}
	}
	e.outcome.Usage["stdout_bytes"], e.outcome.Usage["stderr_bytes"] = h.counts[0], h.counts[1]
	switch {
	case errors.Is(h.err, errOutput):
		e.outcome.Ended = "output"
	case h.ended == kindRefused && o.Ended == "":
		return nil, fmt.Errorf("%q can't be run: %s", filepath.Base(p.Module), h.complain)
	case h.ended == kindExit:
		e.outcome.Exit.Code, e.outcome.Exit.Signal = int(h.exit), ""
		e.outcome.Ended = "" // the module had ended
	case h.ended == kindTrap:
		e.outcome.Exit.Code, e.trap = -1, h.complain
	case errors.Is(h.err, errFrame):
		e.outcome.Ended, e.outcome.Exit.Code, e.trap = "", -1, h.err.Error()
	case o.Ended != "":
	default:
		e.outcome.Exit.Code, e.trap = -1, "the child that ran it ended without a word: "+complaint.String()
		if strings.Contains(complaint.String(), "out of memory") {
			e.outcome.Ended = "memory"
		}
	}
	return e, nil
}

// A complaints keeps the beginning of what is written to it.
type complaints struct{ b []byte }

func (h *complaints) Write(b []byte) (int, error) {
	h.b = append(h.b, b[:min(len(b), maxComplaint-len(h.b))]...)
	return len(b), nil
}

// String is what a person needs of it: what follows are stacks.
func (h *complaints) String() string {
	text, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(string(h.b), "\ufffd")), "\n\n")
	return text
}

// ended reports whether a child that only compiled came to no good end.
func (e *end) ended() bool { return e != nil && (e.outcome.Ended != "" || e.trap != "") }

// result is that of an action that ended before the module ran; nil for none.
func (e *end) result() *primitive.Result {
	if !e.ended() {
		return nil
	}
	r := answer.New(nil, nil).Result(&e.outcome)
	r.Failed, r.Failure = true, cmp.Or(e.trap, "its module was being compiled")
	return r
}

// used is what a child has used of what is counted in sum.
func (e *end) used() map[string]int64 {
	if e == nil {
		return nil
	}
	return map[string]int64{"wall_ms": e.outcome.Usage["wall_ms"], "cpu_ms": e.outcome.Usage["cpu_ms"]}
}

// rest is what is left of limits.
func (e *end) rest(l sandbox.Limits) sandbox.Limits {
	used := e.used()
	left := func(limit time.Duration, name string) time.Duration {
		if limit <= 0 || used[name] == 0 {
			return limit
		}
		return max(limit-time.Duration(used[name])*time.Millisecond, time.Millisecond)
	}
	l.Wall, l.CPU = left(l.Wall, "wall_ms"), left(l.CPU, "cpu_ms")
	return l
}

// readModule reads a module for its digest.
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
		return fmt.Errorf("the module %q is no regular file", filepath.Base(path))
	case info.Size() > MaxModule:
		return fmt.Errorf("the module %q has %d bytes; %d is the most", filepath.Base(path), info.Size(), MaxModule)
	}
	_, err = io.Copy(to, f)
	return err
}
