package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// expectNothing fails if a test left processes.
func expectNothing(t *testing.T) {
	t.Helper()
	for range 12000 {
		if len(alive(t)) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond) // the kernel takes a while to remove killed processes
	}
	t.Errorf("left: %q", alive(t))
}

// TestLimits: each limit ends the program and everything that it started, and the outcome names it.
func TestLimits(t *testing.T) {
	m := machine(t)
	dir := realDir(t)
	for _, c := range []struct {
		try   string
		limit sandbox.Limits
		ended []string
	}{
		{"linger", sandbox.Limits{Wall: 200 * time.Millisecond}, []string{"timeout"}},
		{"stubborn", sandbox.Limits{Wall: 200 * time.Millisecond}, []string{"timeout"}},
		{"spin", sandbox.Limits{CPU: 300 * time.Millisecond}, []string{"cpu"}},
		{"spin-many", sandbox.Limits{CPU: 300 * time.Millisecond}, []string{"cpu"}},
		{"share", sandbox.Limits{Memory: 64 << 20}, []string{"memory"}},
		{"print", sandbox.Limits{Output: 100_000}, []string{"output"}},
		{"bomb", sandbox.Limits{Processes: 40}, []string{"processes"}},
	} {
		for l := floor.Limits; l <= floor.Namespace; l++ {
			t.Run(c.try+" "+l.String(), func(t *testing.T) {
				o, said := attempt(t, m, sandbox.Spec{Level: l, Limits: c.limit, Write: []string{dir}}, c.try)
				if !slices.Contains(c.ended, o.Ended) || o.Exit.Code != -1 || o.Exit.Signal == "" {
					t.Errorf("%+v, %.100q", o, said)
				}
				if c.limit.Output > 0 && len(said) != int(c.limit.Output) {
					t.Errorf("%d bytes of output", len(said))
				}
				expectNothing(t)
			})
		}
	}
}

// TestAllocate: a process is refused memory before it uses it.
func TestAllocate(t *testing.T) {
	m := machine(t)
	for l := floor.Limits; l <= floor.Namespace; l++ {
		o, said := attempt(t, m, sandbox.Spec{Level: l, Limits: sandbox.Limits{Memory: 128 << 20}}, "allocate")
		if o.Exit.Code == 0 || o.Ended == "" && !strings.Contains(said, "out of memory") &&
			!strings.Contains(said, "cannot allocate") {
			t.Errorf("%s: %+v, %.300q", l, o, said)
		}
		// Of 10 GiB. The kernel's figure has pages of files too, and what the process was forked from.
		if o.Usage["max_rss"] > 256<<20 {
			t.Errorf("%s: %d bytes", l, o.Usage["max_rss"])
		}
	}
}

// TestWritten: writing is limited for one file and for all together.
func TestWritten(t *testing.T) {
	m := machine(t)
	for l := floor.Limits; l <= floor.Namespace; l++ {
		dir := realDir(t)
		o, said := attempt(t, m, sandbox.Spec{Level: l, Write: []string{dir},
			Limits: sandbox.Limits{Written: 10 << 20}}, "write-all", dir)
		if o.Ended != "written" || o.Usage["written"] < 10<<20 || o.Usage["written"] > 100<<20 {
			t.Errorf("%s: %+v, %s", l, o, said)
		}
		o, said = attempt(t, m, sandbox.Spec{Level: l, Write: []string{dir}, Limits: sandbox.Limits{Written: 100}},
			"write-all", dir)
		if o.Exit.Code == 0 {
			t.Errorf("%s: %+v, %s", l, o, said)
		}
	}
}

func TestFiles(t *testing.T) {
	m := machine(t)
	for l := floor.Limits; l <= floor.Namespace; l++ {
		s := sandbox.Spec{Level: l, Limits: sandbox.Limits{Files: 50}}
		if o, said := attempt(t, m, s, "many-files", "100"); o.Exit.Code != 1 ||
			!strings.Contains(said, "too many open files") {
			t.Errorf("%s: %+v, %s", l, o, said)
		}
		if o, said := attempt(t, m, s, "many-files", "20"); o.Exit.Code != 0 {
			t.Errorf("%s: %+v, %s", l, o, said)
		}
	}
}

// TestDaemon: a process that left its parent, group and session is ended too.
func TestDaemon(t *testing.T) {
	m := machine(t)
	for l := floor.None; l <= floor.Namespace; l++ {
		if o, said := attempt(t, m, sandbox.Spec{Level: l}, "daemon"); o.Exit.Code != 0 || o.Ended != "" {
			t.Errorf("%s: %+v, %s", l, o, said)
		}
		expectNothing(t)
	}
	// Without one it stays.
	c := exec.Command(self(t), tryWord, "daemon")
	c.Env = []string{mark(t)}
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	list := alive(t)
	for range 12000 {
		if list = alive(t); len(list) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond) // the kernel shows a new program's environment a moment after it began
	}
	if len(list) != 1 {
		t.Errorf("%q", list)
	}
	for _, line := range list {
		number, _, _ := strings.Cut(strings.TrimPrefix(line, "/proc/"), "/")
		_ = unix.Kill(pid([]string{number}), unix.SIGKILL)
	}
}

// TestCancel: the end of the context ends the run, with an outcome. A context that had ended before starts nothing.
func TestCancel(t *testing.T) {
	m := machine(t)
	for l := floor.None; l <= floor.Namespace; l++ {
		ctx, cancel := context.WithCancel(t.Context())
		ready := &notice{tell: cancel}
		o, err := m.Run(ctx, sandbox.Spec{Level: l}, proc.Command{Path: self(t), Args: []string{tryWord, "stubborn"},
			Env: []string{mark(t)}, Stdout: ready})
		if err != nil || o.Ended != "cancelled" || o.Exit.Signal != "SIGKILL" {
			t.Errorf("%s: %+v, %v", l, o, err)
		}
		expectNothing(t)
		if o, err := m.Run(ctx, sandbox.Spec{Level: l}, proc.Command{Path: self(t)}); !errors.Is(err,
			context.Canceled) {
			t.Errorf("%s: %+v, %v", l, o, err)
		}
	}
}

// A notice calls a function when something is written.
type notice struct {
	bytes.Buffer
	tell func()
}

func (n *notice) Write(p []byte) (int, error) {
	n.tell()
	return n.Buffer.Write(p)
}

// TestStageKilled: a program ends with its stage.
func TestStageKilled(t *testing.T) {
	m := machine(t)
	for l := floor.None; l <= floor.Namespace; l++ {
		n := &notice{tell: sync.OnceFunc(func() {
			for _, k := range proc.Below(os.Getpid()) {
				line, _ := os.ReadFile("/proc/" + itoa(k) + "/cmdline")
				if bytes.Contains(line, []byte(stageWord)) {
					_ = unix.Kill(k, unix.SIGKILL)
				}
			}
		})}
		o, err := m.Run(t.Context(), sandbox.Spec{Level: l},
			proc.Command{Path: self(t), Args: []string{tryWord, "stubborn"}, Env: []string{mark(t)}, Stdout: n})
		if err == nil {
			t.Errorf("%s: %+v", l, o)
		}
		expectNothing(t)
	}
}

// TestFilesOfOurs: a program inherits no open files, and has the usual umask.
func TestFilesOfOurs(t *testing.T) {
	m := machine(t)
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// As if it were inherited from the process that started this one. A lower number may be in use, of a spare stage
	// for one.
	if fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 200); err != nil || fd != 200 {
		t.Fatal(fd, err)
	}
	defer unix.Close(200)
	c := exec.Command(self(t), tryWord, "file-200")
	if err := c.Run(); err != nil {
		t.Errorf("without us: %v", err)
	}
	for l := floor.None; l <= floor.Namespace; l++ {
		if o, said := attempt(t, m, sandbox.Spec{Level: l}, "file-200"); o.Exit.Code != 1 {
			t.Errorf("%s: %+v %s", l, o, said)
		}
		if o, said := attempt(t, m, sandbox.Spec{Level: l}, "umask"); o.Exit.Code != 0 {
			t.Errorf("%s: %+v %s", l, o, said)
		}
	}
}

// TestTerminal: no program types into the terminal that is its standard input.
func TestTerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	m := machine(t)
	for l := floor.None; l <= floor.Namespace; l++ {
		if l < floor.Landlock && os.Geteuid() != 0 {
			continue // the system denies it to users anyway
		}
		var out bytes.Buffer
		o, err := m.Run(t.Context(), sandbox.Spec{Level: l},
			proc.Command{Path: self(t), Args: []string{tryWord, "tiocsti"}, Stdin: slave, Stdout: &out})
		if err != nil || l < floor.Landlock && o.Exit.Code != 0 || l >= floor.Landlock &&
			out.String() != "operation not permitted" {
			t.Errorf("%s: %+v, %v, %s", l, o, err, out.String())
		}
	}
}

// TestProgram: the open file is executed, whatever is at its path by now.
func TestProgram(t *testing.T) {
	m := machine(t)
	dir := realDir(t)
	data, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	path := dir + "/program"
	if err := os.WriteFile(path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("not a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	for l := floor.None; l <= floor.Namespace; l++ {
		c := proc.Command{Path: path, Args: []string{tryWord, "exit", "7"}}
		if o, err := m.Run(t.Context(), sandbox.Spec{Level: l}, c); !errors.Is(err, unix.ENOEXEC) {
			t.Errorf("%s: %+v, %v", l, o, err)
		}
		c.Program = f
		if o, err := m.Run(t.Context(), sandbox.Spec{Level: l}, c); err != nil || o.Exit.Code != 7 {
			t.Errorf("%s: %+v, %v", l, o, err)
		}
	}
}

// TestMany: many runs at once don't affect each other.
func TestMany(t *testing.T) { many(t, 100) }

func many(t *testing.T, runs int) {
	m := machine(t)
	dir := realDir(t)
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			l := floor.None + floor.Level(i%4)
			var out bytes.Buffer
			o, err := m.Run(t.Context(), sandbox.Spec{Level: l, Read: []string{dir}}, proc.Command{
				Path: self(t), Args: []string{tryWord, "exit", itoa(i % 200)}, Env: []string{mark(t)}, Stdout: &out,
				Stderr: &out,
			})
			if err != nil || o.Exit.Code != i%200 || o.Ended != "" {
				t.Errorf("%d: %+v, %v, %s", i, o, err, out.String())
			}
		})
	}
	all.Wait()
	expectNothing(t)
}
