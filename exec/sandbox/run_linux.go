package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox/landlock"
	"github.com/rye-build/rye/exec/sandbox/seccomp"
	"github.com/rye-build/rye/exec/sandbox/stage"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A talk is a conversation with a second stage.
type talk struct {
	plan    stage.Plan
	spaces  uintptr // namespaces to start it in
	files   []*os.File
	command proc.Command // its standard files
	stop    <-chan struct{}
	proxy   func(*os.File) error
}

// standard returns the standard files that the program gets, in the order of a plan.
func (t *talk) standard(p *pipes, g *gate) ([]*os.File, error) {
	if t.plan.Probe {
		return nil, nil
	}
	err := errors.Join(p.from(t.command.Stdout), p.from(t.command.Stderr))
	in, passed := t.command.Stdin.(*os.File)
	if t.plan.Input = t.command.Stdin != nil; t.plan.Input && !passed && err == nil {
		g.Reader = t.command.Stdin
		err = p.into(g)
	}
	files := slices.Clone(p.theirs)
	if passed {
		files = append(files, in)
	}
	return files, err
}

// silentEnd is the error of a stage that ended without its last report.
func silentEnd(exit *proc.Exit, why error) error {
	how := exit.Signal
	if how == "" {
		how = "status " + strconv.Itoa(exit.Code)
	}
	return fmt.Errorf("the second stage ended without a report (%s): %w", how, why)
}

// A gate holds back standard input until the place is made: if that fails, the next try needs the whole input.
type gate struct {
	io.Reader
	placed, over chan struct{}
}

func (g *gate) Read(p []byte) (int, error) {
	select {
	case <-g.placed:
		return g.Reader.Read(p)
	case <-g.over:
		return 0, io.EOF
	}
}

// run runs at the level that was asked for, or at the highest that works. An *UnavailableError means that the program
// was not started; only then is a lower level tried.
func (m *Machine) run(ctx context.Context, spec Spec, c proc.Command) (*Ending, error) {
	hosts := len(spec.Network.Hosts) > 0
	if hosts && spec.Level >= floor.Landlock {
		spec.Level = floor.Namespace // a list of hosts needs a network of its own
	}
	least := spec.Level
	if spec.Most {
		spec.Level = floor.Namespace
	}
	recovered, flat := spec.recover(), ""
	for {
		out, err := m.runAt(ctx, spec, c, flat)
		if e, ok := errors.AsType[*unlaidError](err); ok && flat == "" {
			flat = e.Error()
			continue
		}
		if out != nil {
			out.Asides = append(recovered, out.Asides...)
		}
		if _, lacks := errors.AsType[*UnavailableError](err); !lacks || spec.Level == least {
			return out, err
		}
		spec.Level--
		if hosts {
			spec.Level = floor.Limits // landlock can't limit the network to hosts
		}
	}
}

// lack returns the error that namespaces can't be made, and remembers it. It doesn't remember a temporary shortage.
func (m *Machine) lack(s Spec, step string, err error) error {
	errno, _ := errors.AsType[unix.Errno](err)
	switch errno {
	case unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.EINTR:
		return fmt.Errorf("%s: %w", step, err)
	}
	e := &UnavailableError{Level: s.Level, Missing: []string{step + ": " + err.Error()}}
	m.lacks[s.Network.kind()].Store(e)
	return e
}

func (n Network) kind() int {
	switch {
	case len(n.Hosts) > 0:
		return 2
	case n.All:
		return 1
	}
	return 0
}

// check returns the version of Landlock if a level needs one, or the missing means. Only making namespaces shows
// whether they work.
func (m *Machine) check(spec Spec) (version int, err error) {
	if spec.Level < floor.Landlock {
		return 0, nil
	}
	var missing []string
	version, err = landlock.Version()
	if err != nil {
		missing = append(missing, "landlock: "+err.Error())
	}
	if err := seccomp.Works(); err != nil {
		missing = append(missing, "seccomp: "+err.Error())
	}
	if missing != nil {
		return 0, &UnavailableError{Level: spec.Level, Missing: missing}
	}
	if spec.Most && spec.Level >= floor.Namespace {
		if e := m.lacks[spec.Network.kind()].Load(); e != nil {
			return 0, e
		}
	}
	return version, nil
}

// rlimits returns the kernel's limits for each process. The watch enforces the limits for all processes together, or,
// if bound is set, a control group does.
func rlimits(spec Spec, bound bool) (list []stage.Rlimit) {
	add := func(resource int, most, hard uint64) {
		list = append(list, stage.Rlimit{Resource: uint64(resource), Most: most, Hard: hard})
	}
	most := func(resource int, n uint64) {
		var now unix.Rlimit
		if unix.Getrlimit(resource, &now) == nil {
			n = min(n, now.Max) // we may not be allowed to raise it
		}
		add(resource, n, n)
	}
	most(unix.RLIMIT_CORE, 0)
	if spec.Level < floor.Limits {
		return list
	}
	// RLIMIT_DATA counts address space, and runtimes reserve much more than they use. A control group counts real
	// memory.
	data := uint64(unix.RLIM_INFINITY)
	if !bound {
		data = uint64(spec.Limits.Memory) + 256<<20
	}
	// In a user namespace only the program's processes count. Elsewhere all of the user's processes do, so the limit
	// only stops a fork bomb until the watch notices it.
	processes := uint64(spec.Limits.Processes) + 16<<10
	if spec.Level >= floor.Namespace {
		processes = uint64(spec.Limits.Processes) + spare
	}
	seconds := uint64((spec.Limits.CPU + time.Second - 1) / time.Second)
	most(unix.RLIMIT_DATA, data)
	add(unix.RLIMIT_CPU, seconds, seconds+1)
	most(unix.RLIMIT_FSIZE, uint64(spec.Limits.Written))
	most(unix.RLIMIT_NOFILE, uint64(spec.Limits.Files))
	most(unix.RLIMIT_MEMLOCK, 64<<10)
	most(unix.RLIMIT_MSGQUEUE, 0)
	most(unix.RLIMIT_RTPRIO, 0)
	most(unix.RLIMIT_NPROC, processes)
	return list
}

// spare is how many more processes the kernel allows than the watch, so that the watch notices an excess.
const spare = 64

// Stage is the main function of the second stage. It returns an exit status.
func Stage([]string) int { return stage.Main() }

func raw(list []string) [][]byte {
	bytes := make([][]byte, len(list))
	for i, s := range list {
		bytes[i] = []byte(s)
	}
	return bytes
}
