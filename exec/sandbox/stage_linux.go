package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox/landlock"
	"github.com/rye-build/rye/exec/sandbox/seccomp"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// The files that the second stage is started with.
const (
	controlFile = 3
	programFile = 4
)

// A stage is the process above a program: it makes the place, starts the program in it, watches it and everything that it
// starts, and leaves nothing running.
type stage struct {
	plan
	conn  *os.File
	io    *os.File // what processes that have ended wrote
	start time.Time

	mu      sync.Mutex
	program int    // the process, until it has ended
	ended   string // by what limit
	peak    int64  // of memory
	wrote   int64
}

// Stage is the main function of the second stage. It returns an exit status.
func Stage([]string) int {
	proc.KeepFiles()
	// It can't be opened once this process is not dumpable.
	inout, err := os.Open("/proc/self/io")
	if err == nil {
		defer inout.Close()
	}
	// The plan may hold secrets: no debugger may read it.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	_ = unix.SetNonblock(controlFile, true)
	s := &stage{conn: os.NewFile(controlFile, "control"), io: inout}
	if _, err := receive(s.conn, &s.plan); err != nil {
		return 2
	}
	// The program ends with the thread that it was started from.
	runtime.LockOSThread()
	result, err := s.run()
	last := report{Done: result}
	if err != nil {
		last = failed(err)
	}
	if send(s.conn, last, nil) != nil || err != nil {
		return 2
	}
	return 0
}

func (s *stage) run() (*done, error) {
	var port uint16
	if s.Spaces {
		if err := makePlace(); err != nil {
			return nil, err
		}
		if s.Hosts {
			var err error
			if port, err = s.listen(); err != nil {
				return nil, err
			}
		}
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the reaper of orphans: %w", err)
	}
	if s.Probe {
		return &done{}, nil
	}
	if err := send(s.conn, report{Placed: true}, nil); err != nil {
		return nil, err
	}
	for _, m := range s.Mounts {
		if err := m.mount(); err != nil {
			return nil, err
		}
	}
	l, err := s.prepare(port)
	if err != nil {
		return nil, err
	}
	s.start = time.Now()
	if s.program, err = l.run(); err != nil {
		return nil, err
	}
	for _, fd := range l.cgroups {
		unix.Close(fd)
	}
	go s.obey()
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(over)
	}()
	status, usage := s.reap()
	wall := time.Since(s.start)
	close(over)
	<-watched
	return s.result(status, usage, wall), nil
}

// prepare makes everything that is needed between the fork and the program.
func (s *stage) prepare(port uint16) (*launch, error) {
	l := &launch{
		path: text(s.Path), argv: texts(slices.Concat([][]byte{s.Path}, s.Args)), envv: texts(s.Env),
		program: -1, powerless: s.Powerless, limits: s.rlimits(),
	}
	if s.Hosts {
		l.envv = texts(proxyVariables(s.Env, port))
	}
	if len(s.Dir) > 0 {
		l.dir = text(s.Dir)
	}
	next := programFile
	var program *os.File
	if s.Program {
		program = os.NewFile(programFile, "program")
		l.program = programFile
		next++
	}
	for i := range s.Cgroups {
		l.cgroups = append(l.cgroups, next+i)
	}
	if s.Level < floor.Landlock {
		return l, nil
	}
	all := s.Inet && !s.Hosts // of the network
	set, err := landlock.NewRuleset(s.Landlock, s.Rules, program, all, port)
	if err != nil {
		return nil, err
	}
	code := seccomp.Filter(seccomp.Policy{Inet: s.Inet, Datagram: all, Mounts: s.Spaces, Truncate: s.Landlock >= landlock.FirstTruncate})
	l.restrict, l.ruleset = true, int(set.Fd())
	l.filter = unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	return l, nil
}

// rlimits returns the limits that the kernel enforces for each process. The watch enforces them for all together.
func (s *stage) rlimits() []limit {
	most := func(resource int, n uint64) limit {
		var now unix.Rlimit
		if unix.Getrlimit(resource, &now) == nil {
			n = min(n, now.Max) // we may not be allowed to raise it
		}
		return limit{resource, unix.Rlimit{Cur: n, Max: n}}
	}
	list := []limit{most(unix.RLIMIT_CORE, 0)}
	if s.Level < floor.Limits {
		return list
	}
	// RLIMIT_DATA counts address space, and runtimes reserve much more than they use. A control group counts real memory.
	data := uint64(unix.RLIM_INFINITY)
	if !s.Bound {
		data = uint64(s.Limits.Memory) + 256<<20
	}
	// In a user namespace only the program's processes count; else all of the user's do, so this is only a bound for a fork
	// bomb until the watch sees it.
	processes := uint64(s.Limits.Processes) + 16<<10
	if s.Spaces {
		processes = uint64(s.Limits.Processes) + spare
	}
	seconds := uint64((s.Limits.CPU + time.Second - 1) / time.Second)
	return append(list,
		most(unix.RLIMIT_DATA, data),
		limit{unix.RLIMIT_CPU, unix.Rlimit{Cur: seconds, Max: seconds + 1}},
		most(unix.RLIMIT_FSIZE, uint64(s.Limits.Written)),
		most(unix.RLIMIT_NOFILE, uint64(s.Limits.Files)),
		most(unix.RLIMIT_MEMLOCK, 64<<10),
		most(unix.RLIMIT_MSGQUEUE, 0),
		most(unix.RLIMIT_RTPRIO, 0),
		most(unix.RLIMIT_NPROC, processes),
	)
}

// spare is how many more processes the kernel allows than the watch, so that the watch sees too many.
const spare = 64

// obey ends everything when the socket to the caller closes.
func (s *stage) obey() {
	var b [1]byte
	_, _ = s.conn.Read(b[:])
	s.end("")
}

// end kills everything. The first reason counts.
func (s *stage) end(why string) {
	s.mu.Lock()
	if s.ended == "" {
		s.ended = why
	}
	s.mu.Unlock()
	s.killAll()
}

func (s *stage) killAll() {
	if s.Spaces {
		_ = unix.Kill(-1, unix.SIGKILL) // everything in the namespace but this process
		return
	}
	// The group first, so that it starts nothing more. In a sandbox inside a sandbox /proc can't be read, and the group is all
	// that can be found.
	s.mu.Lock()
	if s.program != 0 {
		_ = unix.Kill(-s.program, unix.SIGKILL)
		_ = unix.Kill(s.program, unix.SIGKILL)
	}
	s.mu.Unlock()
	for _, pid := range proc.Below(os.Getpid()) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// reap waits for the program, kills what it left, and waits for that too. It kills only after reaping everything that has
// ended: with thousands of zombies, searching them for live processes takes longer than starting them did.
func (s *stage) reap() (status unix.WaitStatus, usage unix.Rusage) {
	options, pause := unix.WALL, 100*time.Microsecond
	for {
		var w unix.WaitStatus
		pid, err := unix.Wait4(-1, &w, options, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &usage)
			return status, usage
		case pid == 0:
			s.killAll()
			time.Sleep(pause)
			pause = min(2*pause, lastLook)
		case pid == s.program:
			status, options = w, options|unix.WNOHANG
			s.mu.Lock()
			s.program = 0 // the number may be reused
			s.mu.Unlock()
		}
	}
}

// result returns how the program ended.
func (s *stage) result(w unix.WaitStatus, u unix.Rusage, wall time.Duration) *done {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &done{Ended: s.ended, Written: s.wrote, Exit: proc.Exit{
		Code: w.ExitStatus(), Wall: wall, CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano()), MaxRSS: max(s.peak, u.Maxrss<<10),
	}}
	if w.Signaled() {
		d.Signal = proc.SignalName(int(w.Signal()))
	}
	switch {
	case d.Ended != "":
	case d.Signal == "SIGXFSZ":
		d.Ended = "written"
	case d.Signal == "SIGXCPU", s.Level >= floor.Limits && d.CPU >= s.Limits.CPU:
		d.Ended = "cpu"
	}
	return d
}
