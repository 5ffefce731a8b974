package runs

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

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
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
func primitives(a *cli.App) map[string]primitive.Primitive {
	return map[string]primitive.Primitive{
		"rye/core/primitives/http_client": &httpclient.Client{Agent: "rye/" + cli.ThisVersion().Version},
		"rye/core/primitives/rye":         toolFunctions(a),
		"rye/core/primitives/starlark":    &starlark.Starlark{Machine: Machine(a), Self: cli.GuestSelf("starlark")},
		"rye/core/primitives/subprocess":  &subprocess.Subprocess{Machine: Machine(a)},
		"rye/core/primitives/wasm":        &wasm.Wasm{Machine: Machine(a), Self: cli.GuestSelf("wasm"), Cache: modules(a)},
	}
}

// kernel makes what runs calls.
func kernel(_ context.Context, a *cli.App, o *opened) (*exec.Kernel, error) {
	k := &exec.Kernel{Primitives: primitives(a), Now: a.Now, Own: owns(a)}
	rules := failures(o)
	for id, p := range k.Primitives {
		k.Primitives[id] = &resilient.Primitive{Inner: p, Rules: rules}
	}
	if o.trust != nil {
		k.Root = o.trust.Root.Side.Policy
		if o.trust.Project != nil {
			k.ProjectPolicy = o.trust.Project.Side.Policy
		}
	}
	var err error
	if k.Log, k.Machine, k.Voucher, err = audits.OpenAudit(a, k.Floor().Audit); err != nil {
		return nil, err
	}
	copies, err := places.Copies(a)
	if err != nil {
		return nil, err
	}
	// The sandbox knows files by the names that they have without links.
	if k.Copies, err = materialise.Open(osfile.Unlinked(copies)); err != nil {
		return nil, err
	}
	secrets, err := Secrets(a)
	if err != nil {
		return nil, err
	}
	k.Secrets = secrets.Get
	k.Host = places.MachineHost(a)
	if o.root.Root != "" {
		k.Project = osfile.Unlinked(o.root.Root)
	}
	protect(a, k)
	if o.root.Root != "" && k.Floor().DotEnv == floor.DotEnvProject {
		k.DotEnv, err = DotEnv(o.root.Root)
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

// DotEnv reads the variables of a project; a file that isn't there has none. It is the project's own: a link that leaves the
// project would hand the tools of whoever made it what stands in another file of the user's.
func DotEnv(project string) ([]env.Variable, error) {
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
		return nil, env.Invalid(".env", "line", value.Pos{}, err)
	}
	return all, nil
}

// protect keeps calls from what rye itself goes by: whoever writes there decides what runs.
func protect(a *cli.App, k *exec.Kernel) {
	if s := cli.UserSpace(a.UserBase()); s.Err == nil {
		k.User = filepath.Dir(s.Value)
		k.Secret = append(k.Secret, s.Value)
	}
	for _, s := range []cli.Setting{a.Dir(cli.StatePlace), a.Store(), a.Dir(cli.CachePlace)} {
		if s.Err == nil && s.Value != "" {
			k.Secret = append(k.Secret, s.Value)
		}
	}
	for i := range k.Secret {
		k.Secret[i] = osfile.Unlinked(k.Secret[i])
	}
	k.Forbidden = append(k.Forbidden, k.Secret...)
	if k.Project != "" {
		k.Forbidden = append(k.Forbidden, k.Project)
	}
}

// owns reports which keys are this user's: the kept ones, and that of the environment.
func owns(a *cli.App) func(key.Fingerprint) bool {
	own := sync.OnceValue(func() map[key.Fingerprint]bool {
		own := map[key.Fingerprint]bool{}
		if dir, err := places.KeysDir(a); err == nil {
			if entries, err := dir.List(); err == nil {
				for _, e := range entries {
					if e.Err == nil {
						own[e.Public.Fingerprint()] = true
					}
				}
			}
		}
		if a.Env(cli.EnvKey) != "" {
			if p, err := audits.KeyAtHand(a); err == nil {
				own[p.Public().Fingerprint()] = true
			}
		}
		return own
	})
	return func(f key.Fingerprint) bool { return own()[f] }
}

// modules is the cache of what modules were compiled to; "" without a place for it.
func modules(a *cli.App) string {
	s := a.Dir(cli.CachePlace)
	if s.Err != nil || s.Value == "" {
		return ""
	}
	return filepath.Join(osfile.Unlinked(s.Value), "wasm")
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
	app   *cli.App
	other sink.Sink // nil: there is none
	lines [2]bytes.Buffer
	gone  bool  // the reader of the output is gone
	lost  error // why else something couldn't be written
}

func openSink(a *cli.App) *passing { return &passing{app: a} }

// mostLine is how long a line may become before it is shown.
const mostLine = 1 << 16

// Emit implements primitive.Sink.
func (p *passing) Emit(s primitive.Stream, b []byte) error {
	t := p.app.Term
	to := t.Stderr
	if s == primitive.Stdout {
		if p.other != nil {
			return p.other.Emit(s, b)
		}
		if t.Json {
			return nil
		}
		to = t.Stdout
	}
	if !to.Tty {
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
func (p *passing) show(s primitive.Stream, to cli.Stream) error {
	line := p.lines[s&1].String()
	p.lines[s&1].Reset()
	text, ended := strings.CutSuffix(line, "\n")
	text = strings.TrimSuffix(text, "\r")
	var out strings.Builder
	for i, cell := range strings.Split(text, "\t") {
		if i > 0 {
			out.WriteByte('\t')
		}
		out.WriteString(cli.Escape(cell, p.app.Term.Ascii))
	}
	if ended {
		out.WriteByte('\n')
	}
	return p.write(s, to, []byte(out.String()))
}

func (p *passing) write(s primitive.Stream, to cli.Stream, b []byte) error {
	p.app.Term.Mu.Lock()
	defer p.app.Term.Mu.Unlock()
	if old := p.app.Term.Erase(); old != "" {
		io.WriteString(p.app.Term.Stderr, old)
		p.app.Term.Line = ""
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
	for s, to := range map[primitive.Stream]cli.Stream{primitive.Stdout: p.app.Term.Stdout, primitive.Stderr: p.app.Term.Stderr} {
		if p.lines[s&1].Len() > 0 {
			p.show(s, to)
		}
	}
}

// weaker says what holds less than it could where the user's own item runs.
func weaker(a *cli.App, p *exec.Plan, r *exec.Result) {
	if r.Level < floor.Landlock {
		a.Term.Warn("%s ran without a sandbox for files and system calls, which this machine doesn't have: rye doctor", p.Chain[0].Item.Ref)
	}
	for _, q := range p.Programs {
		if !q.Pinned {
			a.Term.Detail("unpinned: %s %s (%s)", q.Name, q.Path, q.Digest.Short())
		}
	}
	a.Term.Detail("%s: %s", r.ID, strings.Join(r.Enforced, ", "))
	for _, line := range r.Applied {
		a.Term.Detail("%s", line)
	}
}

// toolFunctions returns what tools may have rye do: what the command table says.
func toolFunctions(a *cli.App) function.Functions {
	for _, c := range a.Commands {
		if c.Functions != nil {
			return c.Functions(a)
		}
	}
	return nil
}

// Machine confines what runs. Its second stage is this program, entered through an argument of its own.
func Machine(a *cli.App) *sandbox.Machine {
	self, err := os.Executable()
	if err != nil {
		return sandbox.New(sandbox.Options{}) // says that there is none
	}
	o := sandbox.Options{Self: []string{self, cli.StageArg}}
	// A rye that was built to tell what of it is reached asks for this, and complains without.
	if dir := a.Env("GOCOVERDIR"); dir != "" {
		o.Env = []string{"GOCOVERDIR=" + dir}
	}
	return sandbox.New(o)
}
