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
	"github.com/rye-build/rye/manifest/policy/floor"
)

// The files that the second stage is started with.
const (
	controlFile = 3
	programFile = 4
)

// A stage is the process over a program: it makes the place, starts the program in it, watches over what it becomes, and
// leaves nothing behind.
type stage struct {
	plan
	conn   *os.File
	placed bool     // the place is made
	io     *os.File // what the dead have written
	start  time.Time

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
	// What was read of the plan may be secret, and is no debugger's business.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	_ = unix.SetNonblock(controlFile, true)
	s := &stage{conn: os.NewFile(controlFile, "control"), io: inout}
	if _, err := receive(s.conn, &s.plan); err != nil {
		return 2
	}
	// The program ends with the thread that it was started from.
	runtime.LockOSThread()
	result, err := s.run()
	last := news{Done: result}
	if err != nil {
		last = failed(err)
		last.NoPlace = !s.placed
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
		return nil, fmt.Errorf("become the one that orphans fall to: %w", err)
	}
	s.placed = true
	if s.Probe {
		return &done{}, nil
	}
	if err := send(s.conn, news{Placed: true}, nil); err != nil {
		return nil, err
	}
	for _, m := range s.Mounts {
		if err := m.put(); err != nil {
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
	return s.sum(status, usage, wall), nil
}

// prepare makes all that is needed between fork and program.
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
	set, err := newRuleset(s.Landlock, s.Rules, program, s.Inet && !s.Hosts, port)
	if err != nil {
		return nil, err
	}
	code := filter(policy{inet: s.Inet, datagram: s.Inet && !s.Hosts, mounts: s.Spaces, truncate: s.Landlock >= firstTruncate})
	l.restrict, l.ruleset = true, int(set.Fd())
	l.filter = unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	return l, nil
}

// rlimits are what the kernel keeps of the limits for each process. Beyond them the watch sees to all of them together.
func (s *stage) rlimits() []limit {
	same := func(resource int, most uint64) limit {
		var now unix.Rlimit
		if unix.Getrlimit(resource, &now) == nil {
			most = min(most, now.Max) // it may be that we can't raise it
		}
		return limit{resource, unix.Rlimit{Cur: most, Max: most}}
	}
	list := []limit{same(unix.RLIMIT_CORE, 0)}
	if s.Level < floor.Limits {
		return list
	}
	// It counts what a process could write to, and runtimes ask for much of that before they need it. A group counts
	// what is there.
	data := uint64(unix.RLIM_INFINITY)
	if !s.Bound {
		data = uint64(s.Limits.Memory) + 256<<20
	}
	seconds := uint64((s.Limits.CPU + time.Second - 1) / time.Second)
	return append(list,
		same(unix.RLIMIT_DATA, data),
		limit{unix.RLIMIT_CPU, unix.Rlimit{Cur: seconds, Max: seconds + 1}},
		same(unix.RLIMIT_FSIZE, uint64(s.Limits.Written)),
		same(unix.RLIMIT_NOFILE, uint64(s.Limits.Files)),
		same(unix.RLIMIT_MEMLOCK, 64<<10),
		same(unix.RLIMIT_MSGQUEUE, 0),
		same(unix.RLIMIT_RTPRIO, 0),
		same(unix.RLIMIT_NPROC, s.processes()),
	)
}

// processes is what the user may have of them. In a user namespace of its own they are the program's alone; else all
// that the user has are counted, so it is a bound for a bomb until the watch has seen it.
func (s *stage) processes() uint64 {
	if s.Spaces {
		return uint64(s.Limits.Processes) + spare
	}
	return uint64(s.Limits.Processes) + 16<<10
}

// spare is how many processes more the kernel lets be than the watch, so that the watch sees that it was too many.
const spare = 64

// obey ends everything when the socket to the caller closes.
func (s *stage) obey() {
	var b [1]byte
	_, _ = s.conn.Read(b[:])
	s.end("")
}

// end kills everything, for the first reason that is given.
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
		_ = unix.Kill(-1, unix.SIGKILL) // all but us, and there are only ours
		return
	}
	// Its group at once, since nothing is born in it then, and all there is where /proc isn't to be seen, because we are
	// in a sandbox ourselves.
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

// reap waits for the program, kills what it left, and waits for that too. It kills only when all the dead are gone: with
// thousands of them, looking through them for the living takes longer than they took to be made.
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
			s.program = 0 // the number may soon be another's
			s.mu.Unlock()
		}
	}
}

// sum says how it ended.
func (s *stage) sum(w unix.WaitStatus, u unix.Rusage, wall time.Duration) *done {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &done{
		Code: w.ExitStatus(), Ended: s.ended, Wall: wall, Written: s.wrote,
		CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano()), MaxRSS: max(s.peak, u.Maxrss<<10),
	}
	if w.Signaled() {
		d.Signal = proc.SignalName(int(w.Signal()))
		if d.Ended == "" && w.Signal() == unix.SIGXCPU {
			d.Ended = "cpu"
		}
		if d.Ended == "" && w.Signal() == unix.SIGXFSZ {
			d.Ended = "written"
		}
	}
	if d.Ended == "" && s.Level >= floor.Limits && d.CPU >= s.Limits.CPU {
		d.Ended = "cpu"
	}
	return d
}
