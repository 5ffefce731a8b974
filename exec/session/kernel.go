package session

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/oauth"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/primitive/httpclient"
	"github.com/rye-build/rye/exec/primitive/mcp"
	"github.com/rye-build/rye/exec/primitive/retry"
	"github.com/rye-build/rye/exec/primitive/starlark"
	"github.com/rye-build/rye/exec/primitive/subprocess"
	"github.com/rye-build/rye/exec/primitive/wasm"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/secret"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key"
)

// newKernel makes what runs the calls of the session.
func (s *Session) newKernel() (*exec.Kernel, error) {
	workspace := s.w
	machine := Machine(s.o.Self, s.o.Host.Vars)
	kernel := &exec.Kernel{Primitives: s.primitives(machine), Now: s.w.Now, Own: s.o.Keys.owns(), Host: s.o.Host,
		Offline: s.w.Offline, Confines: machine.Confines}
	for id, p := range kernel.Primitives {
		kernel.Primitives[id] = &retry.Primitive{Inner: p, Rules: s.Rules}
	}
	if err := cmp.Or(workspace.State.Err, workspace.Cache.Err); err != nil {
		return nil, err
	}
	kernel.Host.Known = env.NewKnown()
	var err error
	if kernel.Log, kernel.Machine, kernel.Voucher, err = AuditIn(workspace.State.Path).Open(s.o.Keys,
		"rye "+s.version(),
		s.w.Now); err != nil {
		return nil, err
	}
	// The sandbox knows files by the names that they have without links.
	if kernel.Copies, err = materialise.Open(osfile.Unlinked(CopiesIn(workspace.Cache).Path)); err != nil {
		return nil, err
	}
	kernel.Data = osfile.Unlinked(PluginDataIn(workspace.State).Path)
	kernel.Secrets = s.secrets().Get
	if workspace.Root.Root != "" {
		kernel.Project = osfile.Unlinked(workspace.Root.Root)
		kernel.DotEnv = func() ([]env.Variable, error) { return dotEnv(workspace.Root.Root) }
	}
	protect(&workspace.Paths, kernel)
	return kernel, nil
}

func (s *Session) secrets() *oauth.Secrets {
	return &oauth.Secrets{Offline: s.w.Offline, Store: &secret.Store{
		Dir: s.w.State.Below("auth").Path, Keyring: s.o.Keyring, Env: s.variable, Now: s.w.Now, Wait: osfile.LockWait,
	}}
}

func (s *Session) variable(name string) string { return s.o.Host.Vars[name] }

// primitives lists the last links of chains.
func (s *Session) primitives(machine *sandbox.Machine) map[string]primitive.Primitive {
	modules := ""
	if s.w.Cache.Err == nil {
		modules = filepath.Join(osfile.Unlinked(s.w.Cache.Path), "wasm")
	}
	version := s.version()
	var functions function.Functions
	if s.o.Functions != nil {
		functions = s.o.Functions(s)
	}
	web := &httpclient.Client{Agent: "rye/" + version}
	return map[string]primitive.Primitive{
		"rye/core/primitives/http_client": web,
		"rye/core/primitives/mcp":         &mcp.Client{Machine: machine, HTTP: web, Version: version},
		"rye/core/primitives/rye":         functions,
		"rye/core/primitives/starlark":    &starlark.Starlark{Machine: machine, Self: guest(s.o.Self, "starlark")},
		"rye/core/primitives/subprocess":  &subprocess.Subprocess{Machine: machine},
		"rye/core/primitives/wasm":        &wasm.Wasm{Machine: machine, Self: guest(s.o.Self, "wasm"), Cache: modules},
	}
}

func (s *Session) version() string {
	if s.o.Version == "" {
		return "devel"
	}
	return s.o.Version
}

// Machine returns the machine that confines programs. self is the path of a program whose main function calls Inside:
// it is started again as the second stage of the sandbox. Without it nothing can be confined.
func Machine(self string, vars map[string]string) *sandbox.Machine {
	if self == "" {
		return sandbox.New(sandbox.Options{})
	}
	o := sandbox.Options{Self: []string{self, stageWord}}
	// A program that was built to measure its coverage complains without this.
	if dir := vars["GOCOVERDIR"]; dir != "" {
		o.Self, o.Env = append(o.Self, "late"), []string{"GOCOVERDIR=" + dir}
	}
	return sandbox.New(o)
}

// AuditDirs are the directories of logs and receipts.
type AuditDirs struct {
	Log      string      // the journals
	Machine  string      // the machine's key, and the voucher for it
	Receipts receipt.Dir // of calls that other calls made
}

// AuditIn returns the directories in a user's state.
func AuditIn(state string) AuditDirs {
	at := func(name string) string { return filepath.Join(state, name) }
	return AuditDirs{Log: at("audit"), Machine: at("machine"), Receipts: receipt.Dir(at("receipts"))}
}

// Open opens the log for calls made by a program such as "rye 2.0.0". It also returns the machine's key, which is made
// when it is first needed, and the voucher for it, nil if the user's key can't be used without asking.
func (d AuditDirs) Open(user Keys, program string, now func() time.Time) (*audit.Log, key.Private, []byte, error) {
	own, err := receipt.MachineKey(d.Machine)
	if err != nil {
		return nil, key.Private{}, nil, err
	}
	voucher := receipt.Voucher(d.Machine, own.Public())
	if voucher == nil { // calls run without it, and "rye audit vouch" reports the reason
		if u, err := user.Signing(); err == nil {
			if b, err := receipt.Enroll(d.Machine, own.Public(), "", u, now()); err == nil {
				voucher = b
			}
		}
	}
	log, err := audit.Open(audit.Options{Dir: d.Log, Key: own, Voucher: voucher, Program: program, Now: now,
		Wait: osfile.LockWait})
	return log, own, voucher, err
}

// Rules returns how failures are classified, read when it is first asked.
func (s *Session) Rules(ctx context.Context) (*classification.Rules, error) {
	s.mu.Lock()
	rules := s.rules
	s.mu.Unlock()
	if rules != nil {
		return rules, nil
	}
	merged, err := s.Config(ctx, classification.Name)
	if err != nil {
		return nil, err
	}
	if rules, err = classification.Read(merged.Value); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = rules
	return rules, nil
}

// protect keeps calls from the files that decide what runs.
func protect(p *workspace.Paths, kernel *exec.Kernel) {
	if p.User.Err == nil {
		kernel.User = p.User.Path
	}
	for _, place := range []workspace.Place{p.UserSpace(), p.State, p.Store, p.Cache} {
		if place.Err == nil && place.Path != "" {
			kernel.Secret = append(kernel.Secret, osfile.Unlinked(place.Path))
		}
	}
	kernel.Forbidden = append(kernel.Forbidden, kernel.Secret...)
	if kernel.Project != "" {
		kernel.Forbidden = append(kernel.Forbidden, kernel.Project)
	}
}

// PluginDataIn is the directory of what plugins have written, which survives their updates.
func PluginDataIn(state workspace.Place) workspace.Place { return state.Below("plugins") }

// CopiesIn is the cache of the files that tools run from.
func CopiesIn(cache workspace.Place) workspace.Place { return cache.Below("exec") }

// Limits of the copies that tools run from, and how often they are looked for.
const (
	maxCopies  = 4 << 30
	maxCopyAge = 30 * 24 * time.Hour
	cleanEvery = 24 * time.Hour
)

// clean removes copies that no tool has used for long, about once a day. Its errors are ignored: the calls succeeded.
func (s *Session) clean(c *materialise.Cache) {
	now := s.w.Now()
	stamp := CopiesIn(s.w.Cache).Path + ".cleaned"
	if fi, err := os.Lstat(stamp); err == nil && now.Sub(fi.ModTime()).Abs() < cleanEvery {
		return
	}
	// Of many sessions that end at once, the first cleans.
	if os.WriteFile(stamp, nil, 0o600) != nil || os.Chtimes(stamp, now, now) != nil {
		return
	}
	r, err := c.Clean(context.Background(), now, materialise.Limits{Bytes: maxCopies, Age: maxCopyAge})
	if err != nil {
		s.w.Detail("copies that tools have run from can't be removed", err)
	} else if r.Removed > 0 {
		s.w.Detail("removed "+fault.Count(int64(r.Removed), "unused copy"), nil)
	}
}
