package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox/stage"
)

// stageEnv keeps the second stage small, since it lives as long as the program.
var stageEnv = []string{"GOMAXPROCS=1", "GOGC=400", "GOTRACEBACK=none"}

const (
	// hardEnd is how long a stage may take to end and report after it was asked to.
	hardEnd = 15 * time.Second
	// spareTime is how long a stage without a plan is kept.
	spareTime = 10 * time.Second
)

// A second is a second stage that waits for its plan.
type second struct {
	conn   *os.File
	fd     int // of conn
	spaces uintptr
	mounts []byte // of this process when it started the stage
	kill   context.CancelFunc
	timer  *time.Timer   // of a spare one
	over   chan struct{} // closed when it has ended

	// Once over is closed:
	exit *proc.Exit
	err  error
}

// start starts a second stage in namespaces of its own.
func (m *Machine) start(spaces uintptr) (*second, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	_ = unix.SetNonblock(pair[0], true)
	theirs := os.NewFile(uintptr(pair[1]), "control")
	second := &second{conn: os.NewFile(uintptr(pair[0]), "control"), fd: pair[0], spaces: spaces, mounts: mounts(),
		over: make(chan struct{})}
	var ctx context.Context
	ctx, second.kill = context.WithCancel(context.Background())
	command := proc.Command{Path: m.self[0], Args: m.self[1:], Env: slices.Concat(stageEnv, m.env), Dir: "/",
		Extra: []*os.File{theirs}}
	command.Attr = func(a *syscall.SysProcAttr) {
		a.Cloneflags = spaces
		if spaces&unix.CLONE_NEWUSER != 0 {
			a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
			a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
			a.AmbientCaps = needed
		}
	}
	command.Started = func(*os.Process) error { return theirs.Close() }
	go func() {
		second.exit, second.err = proc.Run(ctx, command)
		theirs.Close()
		second.kill()
		close(second.over)
	}()
	return second, nil
}

// mounts returns this process's mount table. A stage keeps the mounts of the time when it was started.
func mounts() []byte {
	b, _ := stage.Read("/proc/self/mountinfo")
	return b
}

// leave closes the socket, upon which the stage ends, and kills a stage that doesn't.
func (s *second) leave() {
	s.conn.Close()
	late := time.AfterFunc(hardEnd, s.kill)
	go func() {
		<-s.over
		late.Stop()
	}()
}

// A reserve holds a stage that was started in advance, because starting it takes longer than the rest of its work. It
// has no data of any call, and serves one call.
type reserve struct {
	mu   sync.Mutex
	next *second
	runs int // number of runs so far
}

// Ready starts the stage of a run that will probably follow soon, with or without network access.
func (m *Machine) Ready(network bool) {
	if len(m.self) > 0 && m.lacks[Network{All: network}.kind()].Load() == nil {
		m.keep(spaceFlags(network))
	}
}

// keep starts a spare stage unless there is one.
func (m *Machine) keep(spaces uintptr) {
	m.reserve.mu.Lock()
	defer m.reserve.mu.Unlock()
	if m.reserve.next != nil {
		return
	}
	s, err := m.start(spaces)
	if err != nil {
		return // the run that needs it says why
	}
	m.reserve.next = s
	s.timer = time.AfterFunc(spareTime, func() {
		if m.reserve.take(s) != nil {
			s.leave()
		}
	})
}

// take returns the spare stage. If only isn't nil, it returns no other stage than that.
func (r *reserve) take(only *second) *second {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.next
	if s == nil || only != nil && s != only {
		return nil
	}
	r.next = nil
	s.timer.Stop()
	return s
}

// second returns a stage in namespaces: the spare one if it fits and the mounts haven't changed, otherwise a new one.
func (m *Machine) second(spaces uintptr) (*second, error) {
	if s := m.reserve.take(nil); s != nil {
		if s.spaces == spaces && bytes.Equal(s.mounts, mounts()) {
			select {
			case <-s.over:
			default:
				return s, nil
			}
		}
		s.leave()
	}
	return m.start(spaces)
}

// expect counts runs and, if another run is likely, starts a stage for it: a process that has made several runs makes
// more.
func (m *Machine) expect(spaces uintptr, runs int) {
	m.reserve.mu.Lock()
	m.reserve.runs += runs
	many := m.reserve.runs > 2
	m.reserve.mu.Unlock()
	if many {
		m.keep(spaces)
	}
}

// lastOutput is how long Run waits for the end of the output after the program ended. Until then, a process that was
// forked elsewhere and hasn't executed its program yet may hold the pipe.
const lastOutput = 30 * time.Second

// A pipes copies the standard streams of a program.
type pipes struct {
	theirs []*os.File // the program's ends
	ours   []*os.File
	copies int
	ended  chan error
}

// from copies one output of the program to w.
func (p *pipes) from(w io.Writer) error {
	r, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	p.copy(w, r, r, theirs)
	return nil
}

// into copies r to an input of the program.
func (p *pipes) into(r io.Reader) error {
	theirs, w, err := os.Pipe()
	if err != nil {
		return err
	}
	p.copy(w, r, w, theirs)
	return nil
}

func (p *pipes) copy(to io.Writer, from io.Reader, ours, theirs *os.File) {
	p.theirs, p.ours, p.copies = append(p.theirs, theirs), append(p.ours, ours), p.copies+1
	if p.ended == nil {
		p.ended = make(chan error, 3)
	}
	go func() {
		_, err := io.Copy(to, from)
		if errors.Is(err, unix.EPIPE) && to == io.Writer(ours) {
			err = nil // the program closed its input
		}
		ours.Close()
		p.ended <- err
	}()
}

// sent closes the program's ends after the stage has received them.
func (p *pipes) sent() {
	for _, f := range p.theirs {
		f.Close()
	}
	p.theirs = nil
}

// finish returns when everything is copied.
func (p *pipes) finish() (err error) {
	p.sent()
	late := time.NewTimer(lastOutput)
	defer late.Stop()
	for p.copies > 0 {
		select {
		case e := <-p.ended:
			p.copies--
			if err == nil {
				err = e
			}
		case <-late.C:
			err = errors.New("the output of the program doesn't end")
			for _, f := range p.ours {
				f.Close()
			}
		}
	}
	return err
}

// converse sends a plan to a second stage, and returns its last report, and whether the stage made the place. After
// the report nothing of the program is left, and the stage ends by itself.
func (m *Machine) converse(ctx context.Context, talk talk) (last stage.Report, placed bool, exit *proc.Exit,
	err error) {
	var pipes pipes
	defer func() {
		if copied := pipes.finish(); err == nil {
			err = copied
		}
	}()
	gate := &gate{placed: make(chan struct{}), over: make(chan struct{})}
	defer close(gate.over)
	files, err := talk.standard(&pipes, gate)
	if err != nil {
		return last, false, nil, err
	}
	second, err := m.second(talk.spaces)
	if err != nil {
		return last, false, nil, err
	}
	unsent := stage.Send(second.conn, &talk.plan, append(files, talk.files...)...)
	pipes.sent()
	over := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		select {
		case <-over:
			return
		case <-ctx.Done():
		case <-talk.stop:
		}
		// The stage kills the program and reports what it used.
		_ = unix.Shutdown(second.fd, unix.SHUT_WR)
		late := time.AfterFunc(hardEnd, second.kill)
		<-over
		late.Stop()
	})
	var silent error
	for said := unsent == nil; said; {
		last = stage.Report{}
		var received []*os.File
		received, silent = stage.Receive(second.conn, &last)
		for _, f := range received {
			if silent == nil && talk.proxy != nil {
				silent = talk.proxy(f)
			}
		}
		switch {
		case silent == nil && received != nil:
		case silent == nil && last.Placed && !placed:
			placed = true
			close(gate.placed)
			m.expect(talk.spaces, 1) // for the next run; it starts while this program runs
		default:
			said = false
		}
	}
	close(over)
	wait.Wait()
	second.leave()
	if silent == nil && unsent == nil {
		if placed {
			m.expect(talk.spaces, 0) // the one started above may have waited too long
		}
		return last, placed, nil, nil
	}
	<-second.over
	if exit, err = second.exit, second.err; err == nil {
		err = silentEnd(exit, errors.Join(unsent, silent))
	}
	return last, placed, exit, err
}
