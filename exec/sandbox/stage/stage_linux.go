package stage

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

var _ = enter()

// enter turns a process with the word as its only argument into a stage before most packages are initialised. A
// program that measures its coverage can't do that yet: it passes one more argument, and its main function calls
// Main.
func enter() bool {
	if len(os.Args) == 2 && os.Args[1] == Word {
		syscall.Exit(Main())
	}
	return false
}

// controlFile is the socket to the process that started the stage. The plan may arrive much later.
const controlFile = 3

// A stage is the parent of a program: it makes the place, starts the program, watches it and everything that it
// starts, and leaves nothing running.
type stage struct {
	Plan
	files []*os.File // that arrived with the plan
	conn  *os.File
	io    *os.File // counts the writes of ended processes
	start time.Time

	tops []*top // laid out, until they are finished

	mu      sync.Mutex
	program int    // its process id, until it has ended
	ended   string // the limit that ended it
	peak    int64  // of memory
	wrote   int64
}

// Main is the main function of a stage. It returns an exit status.
func Main() int {
	// This is the process's first thread, which prctl is about. The kernel kills the program when the thread that
	// started it ends.
	runtime.LockOSThread()
	KeepFiles()
	// It can't be opened once this process is not dumpable.
	inout, err := os.Open("/proc/self/io")
	if err == nil {
		defer inout.Close()
	}
	// The plan may hold secrets: no debugger may read it.
	_ = prctl(syscall.PR_SET_DUMPABLE, 0)
	_ = syscall.SetNonblock(controlFile, true)
	stage := &stage{conn: os.NewFile(controlFile, "control"), io: inout}
	if stage.files, err = Receive(stage.conn, &stage.Plan); err != nil {
		return 2
	}
	result, err := stage.run()
	last := &Report{Done: result}
	if err != nil {
		last = failed(err)
	}
	if Send(stage.conn, last) != nil || err != nil {
		return 2
	}
	return 0
}

// A stepError names the step that failed.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.step + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// layStep is the step of laying out a Top.
const layStep = "lay out a directory"

func step(name string, err error) error {
	if err == nil {
		return nil
	}
	return &stepError{name, err}
}

// failed returns the report of an error.
func failed(err error) *Report {
	r := &Report{Failed: "prepare", Err: err.Error()}
	if e, ok := errors.AsType[*stepError](err); ok {
		r.Unlaid = e.step == layStep
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		r.Errno, r.Failed = errno, r.Err
		if n := len(r.Err) - len(": "+errno.Error()); n >= 0 && r.Err[n:] == ": "+errno.Error() {
			r.Failed = r.Err[:n]
		}
	}
	return r
}

func prctl(option, value uintptr) error {
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func (s *stage) run() (*Done, error) {
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
	} else if err := prctl(prSetChildSubreaper, 1); err != nil {
		return nil, step("become the reaper of orphans", err)
	}
	if s.Probe {
		return &Done{}, nil
	}
	defer s.finish()
	if len(s.Tops) > 0 {
		// The kernel would kill this process with its caller. When the socket closes it ends by itself, after finish.
		_ = prctl(syscall.PR_SET_PDEATHSIG, 0)
	}
	for i := range s.Tops {
		made, err := s.Tops[i].layOut()
		if err != nil {
			return nil, step(layStep, err)
		}
		s.tops = append(s.tops, made)
	}
	if err := Send(s.conn, &Report{Placed: true}); err != nil {
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
	for _, f := range s.files {
		f.Close() // so that the program's output ends with its processes
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
	done := s.result(status, usage, wall)
	done.Asides = s.finish()
	return done, nil
}

// finish brings what the program made in its Tops to the real directories.
func (s *stage) finish() (asides []Aside) {
	for _, made := range s.tops {
		more, err := made.finish()
		if asides = append(asides, more...); err != nil {
			asides = append(asides, Aside{Name: []byte(made.path), Why: []byte(err.Error())})
		}
	}
	s.tops = nil
	return asides
}

// prepare fills a launch from the plan and its files.
func (s *stage) prepare(port uint16) (*launch, error) {
	launch := &launch{
		path: text(s.Path), argv: texts(append([][]byte{s.Path}, s.Args...)), envv: texts(s.Env),
		stdin: -1, program: -1, powerless: s.Powerless, limits: s.Rlimits,
	}
	if s.Hosts {
		launch.envv = texts(proxyVariables(s.Env, port))
	}
	if len(s.Dir) > 0 {
		launch.dir = text(s.Dir)
	}
	fds := make([]int, 0, len(s.files))
	for _, f := range s.files {
		fds = append(fds, int(f.Fd()))
	}
	few := false
	next := func() (fd int) {
		if few = len(fds) == 0; few {
			return -1
		}
		fd, fds = fds[0], fds[1:]
		return fd
	}
	launch.stdout, launch.stderr = next(), next()
	if s.Input {
		launch.stdin = next()
	}
	if s.Program {
		launch.program = next()
	}
	for range s.Cgroups {
		launch.cgroups = append(launch.cgroups, next())
	}
	if s.Restrict {
		launch.restrict, launch.ruleset = true, next()
	}
	if few || len(fds) > 0 {
		return nil, errors.New("there are not the files of the plan")
	}
	if !s.Restrict {
		return launch, nil
	}
	if len(s.Filter) == 0 || len(s.Filter)%8 != 0 {
		return nil, errors.New("no filter of system calls")
	}
	launch.filter.count, launch.filter.code = uint16(len(s.Filter)/8), &s.Filter[0]
	if s.Proc != 0 {
		fd, err := syscall.Open("/proc", oPath|syscall.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: "/proc", Err: err}
		}
		defer syscall.Close(fd)
		// The kernel's struct is packed: 12 bytes.
		rule := struct {
			access uint64
			parent int32
		}{s.Proc, int32(fd)}
		if err := addRule(launch.ruleset, rulePathBeneath, unsafe.Pointer(&rule)); err != nil {
			return nil, &os.PathError{Op: "landlock rule", Path: "/proc", Err: err}
		}
	}
	for _, made := range s.tops {
		rule := struct {
			access uint64
			parent int32
		}{s.Top, int32(made.made)}
		if err := addRule(launch.ruleset, rulePathBeneath, unsafe.Pointer(&rule)); err != nil {
			return nil, &os.PathError{Op: "landlock rule", Path: made.path, Err: err}
		}
	}
	if s.Connect != 0 && port != 0 {
		rule := struct{ access, port uint64 }{s.Connect, uint64(port)}
		if err := addRule(launch.ruleset, ruleNetPort, unsafe.Pointer(&rule)); err != nil {
			return nil, step("landlock rule for the proxy", err)
		}
	}
	return launch, nil
}

func addRule(set int, kind uintptr, rule unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall6(sysLandlockAddRule, uintptr(set), kind, uintptr(rule), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// obey kills everything when the socket to the caller closes.
func (s *stage) obey() {
	var b [1]byte
	_, _ = s.conn.Read(b[:])
	s.end("")
}

// end kills everything. Only the first reason is recorded.
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
		_ = syscall.Kill(-1, syscall.SIGKILL) // everything in the namespace but this process
		return
	}
	// The group goes first, so that it starts nothing more. In a sandbox inside a sandbox /proc can't be read, and
	// the group is all that the stage can find.
	s.mu.Lock()
	if s.program != 0 {
		_ = syscall.Kill(-s.program, syscall.SIGKILL)
		_ = syscall.Kill(s.program, syscall.SIGKILL)
	}
	s.mu.Unlock()
	for _, pid := range Below(os.Getpid()) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// reap waits for the program, then kills its remaining processes and waits for them too. It reaps all ended processes
// before it kills: with thousands of zombies, searching them for live processes takes longer than starting them did.
func (s *stage) reap() (status syscall.WaitStatus, usage syscall.Rusage) {
	options, pause := wAll, 100*time.Microsecond
	for {
		var waitStatus syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &waitStatus, options, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			_ = syscall.Getrusage(rusageChildren, &usage)
			return status, usage
		case pid == 0:
			s.killAll()
			time.Sleep(pause)
			pause = min(2*pause, lastLook)
		case pid == s.program:
			status, options = waitStatus, options|syscall.WNOHANG
			s.mu.Lock()
			s.program = 0 // the number may be reused
			s.mu.Unlock()
		}
	}
}

// result returns the program's end and usage.
func (s *stage) result(waitStatus syscall.WaitStatus, u syscall.Rusage, wall time.Duration) *Done {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := &Done{
		Ended: s.ended, Written: s.wrote, Code: waitStatus.ExitStatus(), Wall: wall,
		CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano()), MaxRSS: max(s.peak, u.Maxrss<<10),
	}
	if waitStatus.Signaled() {
		done.Signal = int(waitStatus.Signal())
	}
	switch {
	case done.Ended != "":
	case waitStatus.Signaled() && waitStatus.Signal() == syscall.SIGXFSZ:
		done.Ended = "written"
	case waitStatus.Signaled() && waitStatus.Signal() == syscall.SIGXCPU, s.Watch && done.CPU >= s.Limits.CPU:
		done.Ended = "cpu"
	}
	return done
}
