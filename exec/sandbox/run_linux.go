package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// hardEnd is how long a stage has, when it was told to end, to do so and tell what was used.
const hardEnd = 15 * time.Second

// stageEnv keeps the second stage small: it lives as long as the program, and does little.
var stageEnv = []string{"GOMAXPROCS=2", "GOGC=400", "GOTRACEBACK=none"}

// A talk is a conversation with a second stage.
type talk struct {
	plan    plan
	spaces  uintptr // namespaces to start it in
	files   []*os.File
	command proc.Command // its standard files
	stop    <-chan struct{}
	proxy   func(*os.File) error
}

// converse starts a second stage, tells it the plan, and returns its last word.
func (m *Machine) converse(ctx context.Context, t talk) (last news, exit *proc.Exit, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return last, nil, os.NewSyscallError("socketpair", err)
	}
	_ = unix.SetNonblock(pair[0], true)
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer ours.Close()
	defer theirs.Close()

	heard := make(chan error, 1)
	input := &gate{placed: make(chan struct{}), over: make(chan struct{})}
	open := sync.OnceFunc(func() { close(input.placed) })
	var wait sync.WaitGroup
	wait.Go(func() {
		defer close(input.over)
		for {
			var n news
			file, err := receive(ours, &n)
			if err == nil && file != nil && t.proxy != nil {
				err = t.proxy(file)
			}
			switch {
			case err == nil && file != nil:
			case err == nil && n.Placed:
				open()
			default:
				last = n
				heard <- err
				return
			}
		}
	})
	c := t.command
	if _, passed := c.Stdin.(*os.File); c.Stdin != nil && !passed {
		input.Reader, c.Stdin = c.Stdin, input
	}
	c.Path, c.Args, c.Env, c.Dir, c.Program = m.self[0], m.self[1:], slices.Concat(stageEnv, m.env), "/", nil
	c.Extra = append([]*os.File{theirs}, t.files...)
	c.Attr = func(a *syscall.SysProcAttr) {
		a.Cloneflags = t.spaces
		if t.spaces&unix.CLONE_NEWUSER != 0 {
			a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
			a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
			a.AmbientCaps = needed
		}
	}
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	over := make(chan struct{})
	c.Started = func(*os.Process) error {
		theirs.Close()
		if err := send(ours, t.plan, nil); err != nil {
			return fmt.Errorf("second stage: %w", err)
		}
		wait.Go(func() {
			select {
			case <-over:
				return
			case <-ctx.Done():
			case <-t.stop:
			}
			// The stage kills, and tells what was used.
			_ = unix.Shutdown(pair[0], unix.SHUT_WR)
			late := time.AfterFunc(hardEnd, cancel)
			<-over
			late.Stop()
		})
		return nil
	}
	exit, err = proc.Run(hard, c)
	close(over)
	theirs.Close()
	said := <-heard
	wait.Wait()
	if err == nil && said != nil {
		err = fmt.Errorf("the second stage ended without a word (%s): %w", ending(exit), said)
	}
	return last, exit, err
}

// A gate holds back standard input until the program is placed. If placing fails, the next try needs all of it.
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

func ending(e *proc.Exit) string {
	if e.Signal != "" {
		return e.Signal
	}
	return "status " + strconv.Itoa(e.Code)
}

// missing lists what a level needs and the machine hasn't. Whether it has namespaces shows when they are made.
func missing(l floor.Level) (list []string) {
	if l <= floor.Limits {
		return nil
	}
	if _, err := landlockVersion(); err != nil {
		list = append(list, "landlock: "+err.Error())
	}
	if err := seccompWorks(); err != nil {
		list = append(list, "seccomp: "+err.Error())
	}
	return list
}

// run runs at the level that is asked for, or at the highest that works. An *UnavailableError means that the program was
// not started, and nothing but that leads to another try.
func (m *Machine) run(ctx context.Context, s Spec, c proc.Command) (*Outcome, error) {
	hosts := len(s.Network.Hosts) > 0
	if hosts && s.Level >= floor.Landlock {
		// A list of hosts is kept by a network in which there is nothing else.
		s.Level = floor.Namespace
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
			s.Level = floor.Limits // landlock, without its network, would be less than it says
		}
	}
}

// lack is the error of a machine on which namespaces can't be made, and remembers it. What is only short for the moment
// isn't missing.
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

// runAt runs at one level.
func (m *Machine) runAt(ctx context.Context, s Spec, c proc.Command) (*Outcome, error) {
	if list := missing(s.Level); len(list) > 0 {
		return nil, &UnavailableError{Level: s.Level, Missing: list}
	}
	if s.Most && s.Level >= floor.Namespace {
		if e := m.lacks[s.Network.kind()].Load(); e != nil {
			return nil, e
		}
	}
	p := plan{
		Path: []byte(c.Path), Dir: []byte(c.Dir), Args: raw(c.Args), Env: raw(c.Env), Program: c.Program != nil,
		Write: raw(s.Write), Level: s.Level, Limits: s.Limits,
	}
	t := talk{command: proc.Command{Stdin: c.Stdin}}
	if c.Program != nil {
		t.files = append(t.files, c.Program)
	}
	out := &Outcome{Level: s.Level}
	if s.Level >= floor.Landlock {
		p.Landlock, _ = landlockVersion()
		p.Spaces = s.Level >= floor.Namespace
		p.Hosts = len(s.Network.Hosts) > 0
		p.Inet = s.Network.All || p.Hosts
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
		p.Rules, p.Mounts, p.Env = v.rules, v.puts, raw(v.path(c.Env))
		p.Powerless = os.Geteuid() == 0 || p.Spaces
		out.Enforced = append(out.Enforced, "landlock/"+strconv.Itoa(p.Landlock), "seccomp")
	}
	if p.Spaces {
		t.spaces = spaceFlags(s.Network.All)
		out.Enforced = append(out.Enforced, spaceNames(t.spaces)...)
	}
	if s.Level >= floor.Limits {
		out.Enforced = append(out.Enforced, "rlimits", "watch")
		if g, err := newGroup(s.Limits); err == nil {
			defer g.close()
			t.files = append(t.files, g.lists...)
			p.Cgroups, p.Bound = len(g.lists), true
			for _, b := range g.bounds {
				out.Enforced = append(out.Enforced, "cgroup:"+b)
			}
			return m.finish(ctx, s, c, t, p, out, g)
		}
	}
	return m.finish(ctx, s, c, t, p, out, nil)
}

// finish runs it.
func (m *Machine) finish(ctx context.Context, s Spec, c proc.Command, t talk, p plan, out *Outcome, g *group) (*Outcome, error) {
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop) })
	var ended string
	var once sync.Once
	because := func(why string) {
		once.Do(func() { ended = why })
		end()
	}
	o := &output{left: s.Limits.Output, tooMuch: func() { because("output") }}
	stdout, stderr := &stream{output: o, to: c.Stdout}, &stream{output: o, to: c.Stderr}
	t.command.Stdout, t.command.Stderr = stdout, stderr
	t.stop = stop
	t.plan = p
	if p.Hosts {
		x := newProxy(s.Network.Hosts)
		defer func() {
			x.close()
			out.Denied = x.denied()
		}()
		t.proxy = x.serve
		out.Enforced = append(out.Enforced, "proxy")
	}
	if s.Level >= floor.Limits {
		timer := time.AfterFunc(s.Limits.Wall, func() { because("timeout") })
		defer timer.Stop()
	}
	cancelled := context.AfterFunc(ctx, func() { because("cancelled") })
	defer cancelled()
	last, exit, err := m.converse(ctx, t)
	if ctx.Err() != nil && (err != nil || last.Done != nil && last.Done.Signal == "SIGKILL") {
		because("cancelled") // what kills on the way may be quicker than what says why
	}
	once.Do(func() {})
	used := g.used()
	switch {
	case err != nil && (ended != "" || used.outOfMemory || used.tooMany):
		// The stage went with the rest.
		last.Done = &done{Code: -1, Signal: "SIGKILL", Ended: ended}
	case err != nil && exit == nil && p.Spaces:
		return nil, m.lack(s, "namespaces", err)
	case err != nil:
		return nil, err
	case last.NoPlace:
		return nil, m.lack(s, "namespaces: "+last.Failed, last.cause())
	case last.Failed != "":
		return nil, last.failure(c.Path)
	case last.Done == nil:
		return nil, errors.New("the second stage said nothing")
	}
	d := last.Done
	out.Exit, out.Ended = d.exit(), d.Ended
	if ended != "" {
		out.Ended = ended
	}
	if out.Ended == "" && used.outOfMemory && d.Code != 0 {
		out.Ended = "memory"
	}
	if out.Ended == "" && used.tooMany && d.Signal == "SIGKILL" {
		out.Ended = "processes"
	}
	out.Exit.MaxRSS = max(out.Exit.MaxRSS, used.memory)
	out.Usage = map[string]int64{
		"cpu_ms": d.CPU.Milliseconds(), "wall_ms": d.Wall.Milliseconds(), "max_rss": out.Exit.MaxRSS, "written": d.Written,
		"stdout_bytes": stdout.count, "stderr_bytes": stderr.count,
	}
	return out, nil
}

func spaceNames(flags uintptr) (list []string) {
	for _, n := range []struct {
		flag uintptr
		name string
	}{
		{unix.CLONE_NEWUSER, "userns"}, {unix.CLONE_NEWPID, "pidns"}, {unix.CLONE_NEWNS, "mountns"},
		{unix.CLONE_NEWIPC, "ipcns"}, {unix.CLONE_NEWUTS, "utsns"}, {unix.CLONE_NEWNET, "netns"},
	} {
		if flags&n.flag != 0 {
			list = append(list, n.name)
		}
	}
	return list
}

func raw(list []string) [][]byte {
	bytes := make([][]byte, len(list))
	for i, s := range list {
		bytes[i] = []byte(s)
	}
	return bytes
}

func getActionAvail(answer uint32) error {
	const getActionAvail = 2
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, getActionAvail, 0, uintptr(unsafe.Pointer(&answer)))
	if e != 0 {
		return e
	}
	return nil
}

// ownGroups returns the paths of this process's control groups by the names of their hierarchies.
func ownGroups() map[string]string {
	groups := map[string]string{}
	f, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return groups
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for _, name := range strings.Split(parts[1], ",") {
			groups[name] = parts[2]
		}
	}
	return groups
}
