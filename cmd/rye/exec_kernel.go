package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/primitive/httpclient"
	"github.com/rye-build/rye/exec/primitive/resilient"
	"github.com/rye-build/rye/exec/primitive/starlark"
	"github.com/rye-build/rye/exec/primitive/subprocess"
	"github.com/rye-build/rye/exec/primitive/wasm"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sink"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// primitives lists the last links of chains.
func (a *app) primitives() map[string]primitive.Primitive {
	return map[string]primitive.Primitive{
		"rye/core/primitives/http_client": &httpclient.Client{Agent: "rye/" + thisVersion().Version},
		"rye/core/primitives/rye":         a.toolFunctions(),
		"rye/core/primitives/starlark":    &starlark.Starlark{Machine: a.machine(), Self: guestSelf("starlark")},
		"rye/core/primitives/subprocess":  &subprocess.Subprocess{Machine: a.machine()},
		"rye/core/primitives/wasm":        &wasm.Wasm{Machine: a.machine(), Self: guestSelf("wasm"), Cache: a.modules()},
	}
}

// kernel makes what runs calls.
func (a *app) kernel(_ context.Context, o *opened) (*exec.Kernel, error) {
	k := &exec.Kernel{Primitives: a.primitives(), Now: a.now, Own: a.owns()}
	rules := failures(o)
	for id, p := range k.Primitives {
		k.Primitives[id] = &resilient.Primitive{Inner: p, Rules: rules}
	}
	if o.trust != nil {
		k.Root = o.trust.root.side.Policy
		if o.trust.project != nil {
			k.ProjectPolicy = o.trust.project.side.Policy
		}
	}
	var err error
	if k.Log, k.Machine, k.Voucher, err = a.openAudit(k.Floor().Audit); err != nil {
		return nil, err
	}
	copies, err := a.copies()
	if err != nil {
		return nil, err
	}
	// The sandbox knows files by the names that they have without links.
	if k.Copies, err = materialise.Open(unlinked(copies)); err != nil {
		return nil, err
	}
	secrets, err := a.secrets()
	if err != nil {
		return nil, err
	}
	k.Secrets = secrets.Get
	k.Host = a.machineHost()
	if o.root.root != "" {
		k.Project = unlinked(o.root.root)
	}
	a.protect(k)
	if o.root.root != "" && k.Floor().DotEnv == floor.DotEnvProject {
		k.DotEnv, err = dotEnv(o.root.root)
	}
	return k, err
}

// failures reads, when it is first asked, what kinds of failures there are.
func failures(o *opened) func(context.Context) (*classification.Rules, error) {
	var one sync.Mutex
	var rules *classification.Rules
	return func(ctx context.Context) (*classification.Rules, error) {
		one.Lock()
		defer one.Unlock()
		if rules != nil {
			return rules, nil
		}
		merged, err := o.config(ctx, classification.Name)
		if err == nil {
			rules, err = classification.Read(merged.Value)
		}
		return rules, err
	}
}

// dotEnv reads the variables of a project; a file that isn't there has none. It is the project's own: a link that leaves the
// project would hand the tools of whoever made it what stands in another file of the user's.
func dotEnv(project string) ([]env.Variable, error) {
	root, err := os.OpenRoot(project)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(".env", os.O_RDONLY|osfile.Nonblock, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fault.Error{Code: fault.Files, Text: fmt.Sprintf("%q is no regular file", f.Name())}
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, env.MaxDotEnv+1)) // more than that is refused
	if err != nil {
		return nil, err
	}
	all, err := env.ParseDotEnv(b)
	if err != nil {
		return nil, &env.Error{Link: ".env", Field: "line", Err: err}
	}
	return all, nil
}

// protect keeps calls from what rye itself goes by: whoever writes there decides what runs.
func (a *app) protect(k *exec.Kernel) {
	if s := userSpace(a.userBase()); s.err == nil {
		k.User = filepath.Dir(s.value)
		k.Secret = append(k.Secret, s.value)
	}
	for _, s := range []setting{a.dir(statePlace), a.store(), a.dir(cachePlace)} {
		if s.err == nil && s.value != "" {
			k.Secret = append(k.Secret, s.value)
		}
	}
	for i := range k.Secret {
		k.Secret[i] = unlinked(k.Secret[i])
	}
	k.Forbidden = append(k.Forbidden, k.Secret...)
	if k.Project != "" {
		k.Forbidden = append(k.Forbidden, k.Project)
	}
}

// unlinked is where a path leads, as far as it is there.
func unlinked(path string) string {
	for dir, rest := path, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
	}
}

// owns reports which keys are this user's: the kept ones, and that of the environment.
func (a *app) owns() func(key.Fingerprint) bool {
	own := sync.OnceValue(func() map[key.Fingerprint]bool {
		own := map[key.Fingerprint]bool{}
		if dir, err := a.keysDir(); err == nil {
			if entries, err := dir.List(); err == nil {
				for _, e := range entries {
					if e.Err == nil {
						own[e.Public.Fingerprint()] = true
					}
				}
			}
		}
		if a.env(envKey) != "" {
			if p, err := a.keyAtHand(); err == nil {
				own[p.Public().Fingerprint()] = true
			}
		}
		return own
	})
	return func(f key.Fingerprint) bool { return own()[f] }
}

// copies is the cache of what chains run from.
func (a *app) copies() (string, error) {
	s := a.dir(cachePlace)
	return filepath.Join(s.value, "exec"), s.err
}

// modules is the cache of what modules were compiled to; "" without a place for it.
func (a *app) modules() string {
	s := a.dir(cachePlace)
	if s.err != nil || s.value == "" {
		return ""
	}
	return filepath.Join(unlinked(s.value), "wasm")
}

// principal is who calls, for the record.
func principal() string {
	u, err := user.Current()
	if err != nil || record.CheckText("principal", u.Username) != nil {
		return ""
	}
	return u.Username
}

// A passing hands on what a tool writes while it runs: to a file or a pipe as it is, to a terminal a line at a time and
// without what a terminal obeys. With --json standard output isn't the tool's, and with another sink it goes there.
type passing struct {
	app   *app
	other sink.Sink // nil: there is none
	lines [2]bytes.Buffer
	gone  bool  // nobody reads what is written any more
	lost  error // why else something couldn't be written
}

func (a *app) sink() *passing { return &passing{app: a} }

// most is how long a line may become before it is shown.
const mostLine = 1 << 16

// Emit implements primitive.Sink.
func (p *passing) Emit(s primitive.Stream, b []byte) error {
	t := p.app.term
	to := t.stderr
	if s == primitive.Stdout {
		if p.other != nil {
			return p.other.Emit(s, b)
		}
		if t.json {
			return nil
		}
		to = t.stdout
	}
	if !to.tty {
		return p.write(s, to, b)
	}
	line := &p.lines[s&1]
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 && line.Len()+len(b) < mostLine {
			line.Write(b)
			return nil
		}
		end := i + 1
		if i < 0 {
			end = len(b)
		}
		line.Write(b[:end])
		if err := p.show(s, to); err != nil {
			return err
		}
		if b = b[end:]; len(b) == 0 {
			return nil
		}
	}
}

// show writes the line that is there.
func (p *passing) show(s primitive.Stream, to stream) error {
	line := p.lines[s&1].String()
	p.lines[s&1].Reset()
	text, ended := strings.CutSuffix(line, "\n")
	text = strings.TrimSuffix(text, "\r")
	var out strings.Builder
	for i, cell := range strings.Split(text, "\t") {
		if i > 0 {
			out.WriteByte('\t')
		}
		out.WriteString(escape(cell, p.app.term.ascii))
	}
	if ended {
		out.WriteByte('\n')
	}
	return p.write(s, to, []byte(out.String()))
}

func (p *passing) write(s primitive.Stream, to stream, b []byte) error {
	p.app.term.mu.Lock()
	defer p.app.term.mu.Unlock()
	if old := p.app.term.erase(); old != "" {
		io.WriteString(p.app.term.stderr, old)
		p.app.term.line = ""
	}
	_, err := to.Write(b)
	switch {
	case errors.Is(err, syscall.EPIPE):
		p.gone = true
	case err != nil:
		p.lost = fmt.Errorf("writing to standard %s: %w", [2]string{"output", "error"}[s&1], err)
	}
	return err
}

// flush shows what has no end of line.
func (p *passing) flush() {
	for s, to := range map[primitive.Stream]stream{primitive.Stdout: p.app.term.stdout, primitive.Stderr: p.app.term.stderr} {
		if p.lines[s&1].Len() > 0 {
			p.show(s, to)
		}
	}
}

// weaker says what holds less than it could where the user's own item runs.
func (a *app) weaker(p *exec.Plan, r *exec.Result) {
	if r.Level < floor.Landlock {
		a.term.warn("%s ran without a sandbox for files and system calls, which this machine doesn't have: rye doctor", p.Chain[0].Item.Ref)
	}
	for _, q := range p.Programs {
		if !q.Pinned {
			a.term.detail("unpinned: %s %s (%s)", q.Name, q.Path, q.Digest.Short())
		}
	}
	a.term.detail("%s: %s", r.ID, strings.Join(r.Enforced, ", "))
	for _, line := range r.Applied {
		a.term.detail("%s", line)
	}
}

// toolFunctions returns what tools may have rye do: what the command table says.
func (a *app) toolFunctions() function.Functions {
	for _, c := range a.commands {
		if c.functions != nil {
			return c.functions(a)
		}
	}
	return nil
}

// stageArg enters the second stage of a sandbox: between rye and the program that it confines. Nobody types it.
const stageArg = "__stage"

// machine confines what runs. Its second stage is this program, entered through an argument of its own.
func (a *app) machine() *sandbox.Machine {
	self, err := os.Executable()
	if err != nil {
		return sandbox.New(sandbox.Options{}) // says that there is none
	}
	o := sandbox.Options{Self: []string{self, stageArg}}
	// A rye that was built to tell what of it is reached asks for this, and complains without.
	if dir := a.env("GOCOVERDIR"); dir != "" {
		o.Env = []string{"GOCOVERDIR=" + dir}
	}
	return sandbox.New(o)
}
