package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox/cgroup"
	"github.com/rye-build/rye/exec/sandbox/landlock"
	"github.com/rye-build/rye/exec/sandbox/proxy"
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

// A gate holds back standard input until the place is made: if that fails, the next try needs all of the input.
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
func (m *Machine) run(ctx context.Context, s Spec, c proc.Command) (*Outcome, error) {
	hosts := len(s.Network.Hosts) > 0
	if hosts && s.Level >= floor.Landlock {
		s.Level = floor.Namespace // a list of hosts needs a network of its own
	}
	least := s.Level
	if s.Most {
		s.Level = floor.Namespace
	}
	for {
		out, err := m.runAt(ctx, s, c)
		if _, lacks := errors.AsType[*UnavailableError](err); !lacks || s.Level == least {
			return out, err
		}
		s.Level--
		if hosts {
			s.Level = floor.Limits // landlock without its network would be less than it says
		}
	}
}

// lack returns the error that namespaces can't be made, and remembers it. A shortage that passes is another error.
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

// check returns the version of Landlock if a level needs one, or what the level lacks. Whether namespaces work shows
// when they are made.
func (m *Machine) check(s Spec) (version int, err error) {
	if s.Level < floor.Landlock {
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
		return 0, &UnavailableError{Level: s.Level, Missing: missing}
	}
	if s.Most && s.Level >= floor.Namespace {
		if e := m.lacks[s.Network.kind()].Load(); e != nil {
			return 0, e
		}
	}
	return version, nil
}

// runAt runs at one level.
func (m *Machine) runAt(ctx context.Context, s Spec, c proc.Command) (*Outcome, error) {
	version, err := m.check(s)
	if err != nil {
		return nil, err
	}
	stop := make(chan struct{})
	t := talk{command: proc.Command{Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr}, stop: stop, plan: stage.Plan{
		Path: []byte(c.Path), Dir: []byte(c.Dir), Args: raw(c.Args), Env: raw(c.Env), Program: c.Program != nil,
		Write: raw(s.Write),
	}}
	if c.Program != nil {
		t.files = append(t.files, c.Program)
	}
	out := &Outcome{Level: s.Level}
	p := &t.plan
	var set *os.File
	if s.Level >= floor.Landlock {
		view, err := confine(p, s, c)
		if err != nil {
			return nil, err
		}
		if set, err = restrict(p, s, c, view, version); err != nil {
			return nil, fmt.Errorf("start %q: %w", c.Path, err)
		}
		defer set.Close()
		out.Enforced = append(out.Enforced, "landlock/"+strconv.Itoa(version), "seccomp")
	}
	if p.Spaces {
		t.spaces = spaceFlags(s.Network.All)
		for _, space := range spaces {
			if t.spaces&space.flag != 0 {
				out.Enforced = append(out.Enforced, space.name)
			}
		}
	}
	var group *cgroup.Group
	if s.Level >= floor.Limits {
		out.Enforced = append(out.Enforced, "rlimits", "watch")
		group, _ = newGroup(s.Limits)
		defer group.Close()
	}
	if group != nil {
		t.files = append(t.files, group.Lists...)
		p.Cgroups = len(group.Lists)
		for _, b := range group.Bounds {
			out.Enforced = append(out.Enforced, "cgroup:"+b)
		}
	}
	p.Rlimits = rlimits(s, group != nil)
	if s.Level >= floor.Limits {
		p.Watch = true
		p.Limits = stage.Limits{CPU: s.Limits.CPU, Memory: s.Limits.Memory, Written: s.Limits.Written,
			Processes: int64(s.Limits.Processes)}
	}
	if set != nil {
		t.files = append(t.files, set)
	}
	if p.Hosts {
		x := proxy.New(Network{Hosts: s.Network.Hosts}.Grants)
		defer func() { out.Denied = x.Close() }()
		t.proxy = x.Serve
		out.Enforced = append(out.Enforced, "proxy")
	}
	s.trying(out)
	v := s.supervise(ctx, &t.command, sync.OnceFunc(func() { close(stop) }))
	defer v.release()
	last, placed, exit, err := m.converse(ctx, t)
	if ctx.Err() != nil && (err != nil || last.Done != nil && last.Done.Signal == int(unix.SIGKILL)) {
		v.end("cancelled") // the signal may be faster than its reason
	}
	used, ended := group.Used(), v.reason()
	switch {
	case err != nil && (ended != "" || used.OutOfMemory || used.TooMany):
		// The stage was killed with the rest.
		last.Done = &stage.Done{Code: -1, Signal: int(unix.SIGKILL), Ended: ended}
	case err != nil && exit == nil && p.Spaces:
		return nil, m.lack(s, "namespaces", err)
	case err != nil:
		return nil, err
	case last.Failed != "" && !placed:
		return nil, m.lack(s, "namespaces: "+last.Failed, last.Cause())
	case last.Failed != "":
		return nil, fmt.Errorf("start %q: %s: %w", c.Path, last.Failed, last.Cause())
	case last.Done == nil:
		return nil, errors.New("the second stage reported nothing")
	}
	d := last.Done
	switch out.Ended = d.Ended; {
	case ended != "":
		out.Ended = ended
	case out.Ended != "":
	case used.OutOfMemory && d.Code != 0:
		out.Ended = "memory"
	case used.TooMany && d.Signal == int(unix.SIGKILL):
		out.Ended = "processes"
	}
	d.MaxRSS = max(d.MaxRSS, used.Memory)
	out.Exit = proc.Exit{Code: d.Code, Wall: d.Wall, CPU: d.CPU, MaxRSS: d.MaxRSS}
	if d.Signal != 0 {
		out.Exit.Signal = proc.SignalName(d.Signal)
	}
	out.Usage = v.usage(out.Exit)
	out.Usage["written"] = d.Written
	return out, nil
}

// confine plans what the namespaces are to enforce, and returns what Landlock is to.
func confine(p *stage.Plan, s Spec, c proc.Command) (*view, error) {
	p.Spaces = s.Level >= floor.Namespace
	p.Hosts = len(s.Network.Hosts) > 0
	p.Powerless = os.Geteuid() == 0 || p.Spaces
	v, err := newView(s, p.Spaces)
	if err != nil {
		return nil, err
	}
	if c.Program == nil {
		real, err := regular(c.Path)
		if err != nil {
			return nil, err
		}
		v.add(real, false, false)
	}
	p.Mounts, p.Env = v.mounts, raw(v.path(c.Env))
	return v, nil
}

// restrict plans what seccomp is to enforce, and returns the ruleset of Landlock, which the stage makes complete: its
// own /proc and the proxy's port aren't there yet.
func restrict(p *stage.Plan, s Spec, c proc.Command, v *view, version int) (*os.File, error) {
	rules := v.rules
	if p.Spaces {
		p.Proc = landlock.ReadRights
		rules = slices.DeleteFunc(slices.Clone(rules), func(r landlock.Rule) bool { return string(r.Path) == "/proc" })
	}
	all := s.Network.All && !p.Hosts
	if p.Hosts {
		p.Connect = landlock.ConnectRights(version)
	}
	p.Restrict = true
	for _, f := range seccomp.Filter(seccomp.Policy{Inet: s.Network.All || p.Hosts, Datagram: all, Mounts: p.Spaces,
		Truncate: version >= landlock.FirstTruncate}) {
		p.Filter = binary.NativeEndian.AppendUint16(p.Filter, f.Code)
		p.Filter = binary.NativeEndian.AppendUint32(append(p.Filter, f.Jt, f.Jf), f.K)
	}
	return landlock.NewRuleset(version, rules, c.Program, all)
}

// rlimits returns the limits that the kernel enforces for each process. The watch enforces them for all together, or,
// if bound, a control group does.
func rlimits(s Spec, bound bool) (list []stage.Rlimit) {
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
	if s.Level < floor.Limits {
		return list
	}
	// RLIMIT_DATA counts address space, and runtimes reserve much more than they use. A control group counts real
	// memory.
	data := uint64(unix.RLIM_INFINITY)
	if !bound {
		data = uint64(s.Limits.Memory) + 256<<20
	}
	// In a user namespace only the program's processes count; else all of the user's do, so this is only a bound for a
	// fork bomb until the watch sees it.
	processes := uint64(s.Limits.Processes) + 16<<10
	if s.Level >= floor.Namespace {
		processes = uint64(s.Limits.Processes) + spare
	}
	seconds := uint64((s.Limits.CPU + time.Second - 1) / time.Second)
	most(unix.RLIMIT_DATA, data)
	add(unix.RLIMIT_CPU, seconds, seconds+1)
	most(unix.RLIMIT_FSIZE, uint64(s.Limits.Written))
	most(unix.RLIMIT_NOFILE, uint64(s.Limits.Files))
	most(unix.RLIMIT_MEMLOCK, 64<<10)
	most(unix.RLIMIT_MSGQUEUE, 0)
	most(unix.RLIMIT_RTPRIO, 0)
	most(unix.RLIMIT_NPROC, processes)
	return list
}

// spare is how many more processes the kernel allows than the watch, so that the watch sees too many.
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
