package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox/cgroup"
	"github.com/rye-build/rye/exec/sandbox/landlock"
	"github.com/rye-build/rye/exec/sandbox/proxy"
	"github.com/rye-build/rye/exec/sandbox/seccomp"
	"github.com/rye-build/rye/exec/sandbox/stage"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// An attempt runs a program at one level. Each step adds to the plan of the second stage, and lists in the outcome
// what that plan enforces. close releases what the steps have opened.
type attempt struct {
	spec    Spec
	flat    string // why no directory is laid out; "" if one may be
	command proc.Command
	out     *Ending
	talk    talk
	ruleset *os.File      // of Landlock; nil below that level
	group   *cgroup.Group // nil below the level limits, and where no group can be created
	proxy   *proxy.Proxy  // nil unless the network is a list of hosts
	watched *supervisor   // limits time and output while the program runs
}

// An ending is the end of a conversation with a stage, and the usage that the control group counted.
type ending struct {
	last   stage.Report
	placed bool       // the stage made the place
	exit   *proc.Exit // of the stage, if it ended without its last report
	err    error
	reason string // the supervisor's reason for ending the run, or ""
	used   cgroup.Usage
}

// runAt runs at one level.
func (m *Machine) runAt(ctx context.Context, spec Spec, c proc.Command, flat string) (*Ending, error) {
	version, err := m.check(spec)
	if err != nil {
		return nil, err
	}
	attempt := newAttempt(spec, c)
	attempt.flat = flat
	defer attempt.close()
	if err := attempt.confine(version); err != nil {
		return nil, err
	}
	attempt.limit()
	attempt.serveHosts()
	attempt.passFiles()
	spec.trying(attempt.out)
	e := attempt.converse(ctx, m)
	if err := attempt.failure(m, e); err != nil {
		return nil, err
	}
	attempt.report(e)
	return attempt.out, nil
}

// newAttempt returns a plan that only starts the program and enforces nothing.
func newAttempt(s Spec, c proc.Command) *attempt {
	return &attempt{
		spec: s, command: c, out: &Ending{Level: s.Level},
		talk: talk{
			command: proc.Command{Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr},
			plan: stage.Plan{
				Path: []byte(c.Path), Dir: []byte(c.Dir), Args: raw(c.Args), Env: raw(c.Env),
				Program: c.Program != nil,
				Write:   raw(slices.Concat(s.Write, s.Data)),
			},
		},
	}
}

// close releases what the attempt has opened, and records in the outcome the hosts that the proxy denied.
func (a *attempt) close() {
	if a.proxy != nil {
		a.out.Denied = a.proxy.Close()
	}
	a.group.Close()
	if a.ruleset != nil {
		a.ruleset.Close()
	}
}

// enforces adds to the means that the outcome lists.
func (a *attempt) enforces(means ...string) { a.out.Enforced = append(a.out.Enforced, means...) }

// confine plans the namespaces, the rules of Landlock, and the filter, at the levels that have them.
func (a *attempt) confine(version int) error {
	if a.spec.Level < floor.Landlock {
		return nil
	}
	view, err := a.place()
	if err != nil {
		return err
	}
	if err := a.restrict(view, version); err != nil {
		return fmt.Errorf("start %q: %w", a.command.Path, err)
	}
	a.enforces("landlock/"+strconv.Itoa(version), "seccomp")
	for _, space := range spaces {
		if a.talk.spaces&space.flag != 0 {
			a.enforces(space.name)
		}
	}
	return nil
}

// place plans the namespaces, and returns the view that Landlock is to enforce.
func (a *attempt) place() (*view, error) {
	plan := &a.talk.plan
	plan.Spaces = a.spec.Level >= floor.Namespace
	plan.Hosts = len(a.spec.Network.Hosts) > 0
	plan.Powerless = os.Geteuid() == 0 || plan.Spaces
	if plan.Spaces {
		a.talk.spaces = spaceFlags(a.spec.Network.All)
	}
	spec := a.spec
	spec.Stays = spec.Stays || a.flat != ""
	view, err := newView(spec, plan.Spaces)
	if err != nil {
		return nil, err
	}
	if view.closed != "" {
		a.out.Closed = a.closed(view)
	}
	if a.command.Program == nil {
		real, err := regular(a.command.Path)
		if err != nil {
			return nil, err
		}
		view.add(real, stage.Readable)
	}
	plan.Tops, plan.Mounts, plan.Env = view.tops, view.mounts, raw(view.path(a.command.Env))
	return view, nil
}

// restrict plans seccomp and creates the Landlock ruleset. The stage completes it, since its own /proc and the
// proxy's port don't exist yet.
func (a *attempt) restrict(view *view, version int) (err error) {
	plan, network := &a.talk.plan, a.spec.Network
	rules := view.rules
	if plan.Spaces {
		plan.Proc = landlock.ReadRights
		rules = slices.DeleteFunc(slices.Clone(rules), func(r landlock.Rule) bool { return string(r.Path) == "/proc" })
	}
	plan.Top = landlock.WriteRights(version)
	if plan.Hosts {
		plan.Connect = landlock.ConnectRights(version)
	}
	all := network.All && !plan.Hosts
	plan.Restrict = true
	plan.Filter = filter(seccomp.Policy{
		Inet: network.All || plan.Hosts, Datagram: all, Mounts: plan.Spaces,
		Truncate: version >= landlock.FirstTruncate,
	})
	a.ruleset, err = landlock.NewRuleset(version, rules, a.command.Program, all)
	return err
}

// filter returns a filter of system calls in the encoding of a plan.
func filter(policy seccomp.Policy) (text []byte) {
	for _, f := range seccomp.Filter(policy) {
		text = binary.NativeEndian.AppendUint16(text, f.Code)
		text = binary.NativeEndian.AppendUint32(append(text, f.Jt, f.Jf), f.K)
	}
	return text
}

// limit plans the limits of the kernel, and from the level limits on the watch, and a control group if it can create
// one.
func (a *attempt) limit() {
	plan, limits := &a.talk.plan, a.spec.Limits
	if a.spec.Level >= floor.Limits {
		a.enforces("rlimits", "watch")
		plan.Watch = true
		plan.Limits = stage.Limits{
			CPU: limits.CPU, Memory: limits.Memory, Written: limits.Written, Processes: int64(limits.Processes),
		}
		a.group, _ = newGroup(limits)
	}
	if a.group != nil {
		plan.Cgroups = len(a.group.Lists)
		for _, bound := range a.group.Bounds {
			a.enforces("cgroup:" + bound)
		}
	}
	plan.Rlimits = rlimits(a.spec, a.group != nil)
}

// serveHosts plans a proxy if the network is limited to a list of hosts.
func (a *attempt) serveHosts() {
	if !a.talk.plan.Hosts {
		return
	}
	a.proxy = proxy.New(Network{Hosts: a.spec.Network.Hosts}.Grants)
	a.talk.proxy = a.proxy.Serve
	a.enforces("proxy")
}

// passFiles lists the files to send with the plan, in the order of stage.Plan.
func (a *attempt) passFiles() {
	if a.command.Program != nil {
		a.talk.files = append(a.talk.files, a.command.Program)
	}
	if a.group != nil {
		a.talk.files = append(a.talk.files, a.group.Lists...)
	}
	if a.ruleset != nil {
		a.talk.files = append(a.talk.files, a.ruleset)
	}
}

// converse makes a second stage run the program, and supervises its time and output.
func (a *attempt) converse(ctx context.Context, m *Machine) (ending ending) {
	stop := make(chan struct{})
	a.talk.stop = stop
	a.watched = a.spec.supervise(ctx, &a.talk.command, sync.OnceFunc(func() { close(stop) }))
	defer a.watched.release()
	ending.last, ending.placed, ending.exit, ending.err = m.converse(ctx, a.talk)
	if ctx.Err() != nil && (ending.err != nil || ending.last.Done != nil &&
		ending.last.Done.Signal == int(unix.SIGKILL)) {
		a.watched.end("cancelled") // the signal may be faster than its reason
	}
	ending.used, ending.reason = a.group.Used(), a.watched.reason()
	if ending.err != nil && (ending.reason != "" || ending.used.OutOfMemory || ending.used.TooMany) {
		// The limit killed the stage together with the program.
		ending.err = nil
		ending.last = stage.Report{Done: &stage.Done{Code: -1, Signal: int(unix.SIGKILL), Ended: ending.reason}}
	}
	return ending
}

// failure returns an error if the program could not be started, or if its end is unknown. It is an *UnavailableError
// only if the program was not started.
func (a *attempt) failure(m *Machine, e ending) error {
	switch {
	case e.err == nil && e.last.Unlaid:
		return &unlaidError{e.last.Failed + ": " + e.last.Cause().Error()}
	case e.err != nil && e.exit == nil && a.talk.plan.Spaces:
		return m.lack(a.spec, "namespaces", e.err)
	case e.err != nil:
		return e.err
	case e.last.Failed != "" && !e.placed:
		return m.lack(a.spec, "namespaces: "+e.last.Failed, e.last.Cause())
	case e.last.Failed != "":
		return fmt.Errorf("start %q: %s: %w", a.command.Path, e.last.Failed, e.last.Cause())
	case e.last.Done == nil:
		return errors.New("the second stage reported nothing")
	}
	return nil
}

// report records in the outcome how the program ended, and its usage.
func (a *attempt) report(e ending) {
	done := e.last.Done
	a.out.Ended = e.limit()
	a.out.Exit = proc.Exit{Code: done.Code, Wall: done.Wall, CPU: done.CPU, MaxRSS: max(done.MaxRSS, e.used.Memory)}
	if done.Signal != 0 {
		a.out.Exit.Signal = proc.SignalName(done.Signal)
	}
	a.out.Usage = a.watched.usage(a.out.Exit)
	a.out.Usage["written"] = done.Written
	a.out.Asides = append(a.out.Asides, asides(done.Asides)...)
}

// limit returns the limit that ended the program, or "": the supervisor's reason, otherwise the watch's, otherwise
// the control group's.
func (e *ending) limit() string {
	done := e.last.Done
	switch {
	case e.reason != "":
		return e.reason
	case done.Ended != "":
		return done.Ended
	case e.used.OutOfMemory && done.Code != 0:
		return "memory"
	case e.used.TooMany && done.Signal == int(unix.SIGKILL):
		return "processes"
	}
	return ""
}
