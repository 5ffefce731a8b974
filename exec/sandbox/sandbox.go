package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A Network is the part of the network that a program may reach. The zero Network is none.
type Network struct {
	All   bool
	Hosts []string // as in package floor: "api.example.com", "*.example.com:443"; without a port: 80 and 443
}

// Limits bound a program and everything that it starts, together. 0 means the default: no resource is unlimited.
type Limits struct {
	Wall, CPU time.Duration
	Memory    int64 // bytes
	Written   int64 // bytes on disk
	Output    int64 // bytes of standard output and error
	Processes int   // processes and threads at one time
	Files     int   // open at one time, for each process
}

// DefaultLimits returns the limits of a Spec that sets none.
func DefaultLimits() Limits {
	return Limits{
		Wall: 10 * time.Minute, CPU: 10 * time.Minute,
		Memory: 2 << 30, Written: 2 << 30, Output: 16 << 20,
		Processes: 512, Files: 1024,
	}
}

// OrDefaults replaces each limit that isn't positive by its default.
func (l Limits) OrDefaults() Limits {
	d := DefaultLimits()
	return Limits{
		Wall: cmp.Or(max(l.Wall, 0), d.Wall), CPU: cmp.Or(max(l.CPU, 0), d.CPU),
		Memory: cmp.Or(max(l.Memory, 0), d.Memory), Written: cmp.Or(max(l.Written, 0), d.Written),
		Output:    cmp.Or(max(l.Output, 0), d.Output),
		Processes: cmp.Or(max(l.Processes, 0), d.Processes), Files: cmp.Or(max(l.Files, 0), d.Files),
	}
}

// A Spec is the sandbox of one run.
type Spec struct {
	Level floor.Level // to enforce; Unset is None
	Most  bool        // enforce also what else this machine can; the Ending says what
	Read  []string    // absolute files and directories that may be read and executed
	Write []string    // that may be read, executed and written
	Data  []string    // that may be read and written, and not executed
	Deny  []string    // that may not be used, though another list has a directory above them
	// Keep lists files and directories that may be read and never changed, though their directory is in Write. If one
	// is missing, the program can't create it.
	Keep []string
	// Stays is for a program that serves many calls. Where a path of Keep is missing, a program's new files come into
	// the real directory when it ends, which would be too late: it can't create any beside that path.
	Stays   bool
	Network Network
	Limits  Limits
	// Trying is called before each attempt to start the program, with the means of that attempt. Once the program has
	// written output, the last call describes the run. Optional.
	Trying func(level floor.Level, enforced []string) `json:"-"`
}

// A Machine runs programs in sandboxes. It is safe for concurrent use.
type Machine struct {
	self   []string
	env    []string
	offers func() Offers
	// lacks remembers why namespaces last failed, for each kind of network: none, all, hosts.
	lacks   [3]atomic.Pointer[UnavailableError]
	reserve reserve
}

// Options configure a Machine.
type Options struct {
	Self []string // the command that starts this binary and calls Stage: an absolute path, then arguments
	Env  []string // additional variables for it, as NAME=VALUE; only special builds need any
}

// New returns a Machine.
func New(o Options) *Machine {
	m := &Machine{self: o.Self, env: o.Env}
	m.offers = sync.OnceValue(m.probe)
	return m
}

// Offers returns the means that this machine can enforce. The first call tries them.
func (m *Machine) Offers() Offers { return m.offers() }

// Confines reports whether the machine can limit a program to its files and keep it off the network. It is cheaper
// than Offers.
func (m *Machine) Confines() bool { return len(m.self) > 0 && confines() }

// Offers lists the means that a machine can enforce.
type Offers struct {
	Best  floor.Level // the highest level that works
	Hosts bool        // whether the network can be limited to a list of hosts
	Parts []Part
}

// A Part is one means of enforcement.
type Part struct {
	Name    string // such as "landlock", "network namespace"
	Works   bool
	Version string // such as "7", "v1"
	Why     string // the reason if it doesn't work
}

// An Ending is how a confined program ended, and what of the sandbox was enforced.
type Ending struct {
	Exit     proc.Exit
	Level    floor.Level
	Enforced []string // such as "landlock/7", "seccomp", "netns", "cgroup:memory"
	// the limit that ended the program: timeout, cancelled, memory, cpu, processes, output, written; or ""
	Ended  string
	Denied []string         // hosts that the proxy denied, such as "example.com:443"
	Asides []string         // each says where a file is that others made or wrote too, in the directory of a Keep
	Closed string           // why nothing could be created in the directory of a missing Keep; "" if it could
	Usage  map[string]int64 // cpu_ms, max_rss, wall_ms, written, stdout_bytes, stderr_bytes
}

// An UnavailableError means that this machine can't enforce a level.
type UnavailableError struct {
	Level   floor.Level
	Missing []string // each with the reason, such as "landlock: not built into this kernel"
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("this machine can't enforce the sandbox level %s: %s", e.Level, strings.Join(e.Missing, "; "))
}

// Fault implements the interface that package fault looks for.
func (e *UnavailableError) Fault() *fault.Error {
	return fault.New(fault.Sandbox, "%s", e.Error()).On("need", e.Level.String()).Try("rye doctor").From(e).
		Because("a policy may require less for other signers' items: exec: {strangers: limits} in your policy.yaml")
}

// Run runs a program in a sandbox, and returns when it and everything that it started have ended. Ending by a limit or
// by the context is no error but an Ending.
func (m *Machine) Run(ctx context.Context, spec Spec, command proc.Command) (*Ending, error) {
	spec.Level = max(spec.Level, floor.None)
	spec.Limits = spec.Limits.OrDefaults()
	if len(m.self) == 0 {
		return nil, &UnavailableError{Level: spec.Level, Missing: []string{"second stage: missing in this program"}}
	}
	if err := command.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	return m.run(ctx, spec, command)
}

// trying says what a try will enforce.
func (s *Spec) trying(o *Ending) {
	if s.Trying != nil {
		s.Trying(o.Level, slices.Clone(o.Enforced))
	}
}

// A supervisor limits the time and the output of a run, and remembers the first reason for ending it.
type supervisor struct {
	stdout, stderr *stream
	stop           func() // ends the run
	release        func() // stops the clock

	once  sync.Once
	ended string
}

// supervise starts the clock of a run, and counts the command's output.
func (s *Spec) supervise(ctx context.Context, c *proc.Command, stop func()) *supervisor {
	v := &supervisor{stop: stop}
	o := &output{left: s.Limits.Output, tooMuch: func() { v.end("output") }}
	v.stdout, v.stderr = &stream{output: o, to: c.Stdout}, &stream{output: o, to: c.Stderr}
	c.Stdout, c.Stderr = v.stdout, v.stderr
	timer := time.AfterFunc(s.Limits.Wall, func() { v.end("timeout") })
	if s.Level < floor.Limits {
		timer.Stop()
	}
	cancelled := context.AfterFunc(ctx, func() { v.end("cancelled") })
	v.release = func() { timer.Stop(); cancelled() }
	return v
}

func (v *supervisor) end(why string) {
	v.once.Do(func() { v.ended = why })
	v.stop()
}

// reason returns why the supervisor ended the run. Later reasons are ignored.
func (v *supervisor) reason() string {
	v.once.Do(func() {})
	return v.ended
}

// usage returns the resources that a run used, as far as its exit and its output show them.
func (v *supervisor) usage(e proc.Exit) map[string]int64 {
	return map[string]int64{
		"cpu_ms": e.CPU.Milliseconds(), "wall_ms": e.Wall.Milliseconds(), "max_rss": e.MaxRSS,
		"stdout_bytes": v.stdout.count, "stderr_bytes": v.stderr.count,
	}
}

// An output is the limit that stdout and stderr of a program share.
type output struct {
	mu      sync.Mutex
	left    int64
	tooMuch func()
}

// A stream passes on one output of a program, up to the limit.
type stream struct {
	*output
	to    io.Writer
	count int64
}

func (s *stream) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count += int64(len(data))
	pass := data[:min(int64(len(data)), s.left)]
	s.left -= int64(len(pass))
	if len(pass) < len(data) {
		s.tooMuch()
	}
	if len(pass) > 0 && s.to != nil {
		if _, err := s.to.Write(pass); err != nil {
			return 0, err
		}
	}
	return len(data), nil
}
