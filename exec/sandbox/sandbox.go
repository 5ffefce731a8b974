package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A Network is what a program may reach. The zero Network is nothing.
type Network struct {
	All   bool
	Hosts []string // as in package floor: "api.example.com", "*.example.com:443"; without a port: 80 and 443
}

// Limits bound what a program and all that it starts use together. What is 0 is as in DefaultLimits: nothing is
// without a bound.
type Limits struct {
	Wall, CPU time.Duration
	Memory    int64 // bytes
	Written   int64 // bytes on disk
	Output    int64 // bytes of standard output and error
	Processes int   // and threads, at any one time
	Files     int   // open at any one time, for each process
}

// DefaultLimits stand where nothing else is said.
func DefaultLimits() Limits {
	return Limits{
		Wall: 10 * time.Minute, CPU: 10 * time.Minute,
		Memory: 2 << 30, Written: 2 << 30, Output: 16 << 20,
		Processes: 512, Files: 1024,
	}
}

// OrDefaults returns the limits that hold: the default for each that is 0.
func (l Limits) OrDefaults() Limits {
	d := DefaultLimits()
	return Limits{
		Wall: cmp.Or(max(l.Wall, 0), d.Wall), CPU: cmp.Or(max(l.CPU, 0), d.CPU),
		Memory: cmp.Or(max(l.Memory, 0), d.Memory), Written: cmp.Or(max(l.Written, 0), d.Written), Output: cmp.Or(max(l.Output, 0), d.Output),
		Processes: cmp.Or(max(l.Processes, 0), d.Processes), Files: cmp.Or(max(l.Files, 0), d.Files),
	}
}

// A Spec is what holds for one run.
type Spec struct {
	Level   floor.Level // what is enforced; Unset is None
	Most    bool        // and as much more as this machine has; the Outcome says what
	Read    []string    // absolute files and directories that may be read and executed
	Write   []string    // and those that may be written too
	Deny    []string    // what may not be touched though a Read or a Write is above it
	Network Network
	Limits  Limits
}

// A Machine runs programs in sandboxes, many at once.
type Machine struct {
	self   []string
	env    []string
	offers func() Offers
	// What was missing when namespaces were last tried, for each kind of network: with nothing, with all, with hosts.
	lacks [3]atomic.Pointer[UnavailableError]
}

// Options tell what a Machine needs.
type Options struct {
	Self []string // an absolute path and arguments that start this binary so that it calls Stage
	Env  []string // more variables for it, as NAME=VALUE; only special builds need any
}

// New returns a Machine.
func New(o Options) *Machine {
	m := &Machine{self: o.Self, env: o.Env}
	m.offers = sync.OnceValue(m.probe)
	return m
}

// Offers tells what this machine can enforce. It is found out once.
func (m *Machine) Offers() Offers { return m.offers() }

// Offers are what a machine can enforce.
type Offers struct {
	Best  floor.Level // the highest level that Run takes
	Hosts bool        // a list of hosts can be kept
	Parts []Part
}

// A Part is one means of enforcement.
type Part struct {
	Name    string // as in "landlock", "network namespace"
	Works   bool
	Version string // as in "7", "v1"
	Why     string // it doesn't work, or what it lacks
}

// An Outcome is what became of a run.
type Outcome struct {
	Exit     proc.Exit
	Level    floor.Level
	Enforced []string         // as in "landlock/7", "seccomp", "netns", "cgroup:memory"
	Ended    string           // by what limit: timeout, cancelled, memory, cpu, processes, output, written; empty: by itself
	Denied   []string         // hosts that were asked of the proxy and not granted, as in "example.com:443"
	Usage    map[string]int64 // cpu_ms, max_rss, wall_ms, written, stdout_bytes, stderr_bytes
}

// An UnavailableError says that a machine can't enforce what was asked for.
type UnavailableError struct {
	Level   floor.Level
	Missing []string // each with why, as in "landlock: not built into this kernel"
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("this machine can't enforce the sandbox level %s: %s", e.Level, strings.Join(e.Missing, "; "))
}

// Fault implements the interface that package fault looks for.
func (e *UnavailableError) Fault() *fault.Error {
	return fault.New(fault.Sandbox, "%s", e.Error()).On("need", e.Level.String()).Try("rye doctor").From(e).
		Because("a policy may require less for other signers' items: exec: {strangers: limits} in your policy.yaml")
}

// A StartError says why a program was not started, though the machine could have.
type StartError struct {
	Path string
	Step string // what was being done, as in "execute"
	Err  error  // of the system
}

func (e *StartError) Error() string { return fmt.Sprintf("start %q: %s: %v", e.Path, e.Step, e.Err) }

func (e *StartError) Unwrap() error { return e.Err }

// Run runs a program in a sandbox to its end and the end of everything that it started. It is no error if a limit or the
// context ended it: the Outcome says so.
func (m *Machine) Run(ctx context.Context, s Spec, c proc.Command) (*Outcome, error) {
	s.Level = max(s.Level, floor.None)
	s.Limits = s.Limits.OrDefaults()
	if len(m.self) == 0 {
		return nil, &UnavailableError{Level: s.Level, Missing: []string{"second stage: missing in this program"}}
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	return m.run(ctx, s, c)
}

// An output passes on what two writers get until it is too much.
type output struct {
	mu      sync.Mutex
	left    int64
	tooMuch func()
}

// A stream is one of them.
type stream struct {
	*output
	to    io.Writer
	count int64
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count += int64(len(p))
	pass := p[:min(int64(len(p)), s.left)]
	s.left -= int64(len(pass))
	if len(pass) < len(p) {
		s.tooMuch()
	}
	if len(pass) > 0 && s.to != nil {
		if _, err := s.to.Write(pass); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
