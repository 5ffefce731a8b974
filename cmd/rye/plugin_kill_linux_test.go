package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
)

// A changeCounter counts what is made, written, replaced and removed below directories.
type changeCounter struct {
	t    *testing.T
	fd   int
	file *os.File
	dirs map[int]string // by their watches
	n    atomic.Int64
	done chan struct{}
}

// countChanges begins to count below directories, and calls at when the count is n. It may miss what happens in a
// directory that was made a moment ago.
func countChanges(t *testing.T, dirs []string, n int64, at func()) *changeCounter {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	c := &changeCounter{t: t, fd: fd, file: os.NewFile(uintptr(fd), "inotify"), dirs: map[int]string{},
		done: make(chan struct{})}
	for _, dir := range dirs {
		c.watch(dir)
	}
	go func() {
		defer close(c.done)
		for b := make([]byte, 64<<10); ; {
			read, err := c.file.Read(b)
			if err != nil {
				return
			}
			for rest := b[:read]; len(rest) > 0; {
				e := (*unix.InotifyEvent)(unsafe.Pointer(&rest[0]))
				end := unix.SizeofInotifyEvent + int(e.Len)
				if e.Mask&unix.IN_ISDIR != 0 && e.Mask&unix.IN_CREATE != 0 {
					c.watch(filepath.Join(c.dirs[int(e.Wd)],
						strings.TrimRight(string(rest[unix.SizeofInotifyEvent:end]), "\x00")))
				}
				if c.n.Add(1) == n {
					at()
				}
				rest = rest[end:]
			}
		}
	}()
	return c
}

// watch watches a directory and those below it. One that is gone by now is left out.
func (c *changeCounter) watch(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		if id, err := unix.InotifyAddWatch(c.fd, path,
			unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE|unix.IN_DELETE); err == nil {
			c.dirs[id] = path
		}
		return nil
	})
}

// end stops counting and returns the count.
func (c *changeCounter) end() int64 {
	for { // on a busy machine some changes aren't counted yet
		left, err := unix.IoctlGetInt(c.fd, unix.TIOCINQ)
		if err != nil || left == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	c.file.Close()
	<-c.done
	return c.n.Load()
}

// agrees answers every question with yes until rye ends.
func (s *session) agrees() (shown string, status int) {
	s.t.Helper()
	for {
		char, err := s.in.ReadByte()
		if err != nil {
			return s.end()
		}
		s.shown.WriteByte(char)
		if strings.HasSuffix(s.shown.String(), "[y/N] ") {
			_, _ = s.master.WriteString("y\n") // rye may be gone by now
		}
	}
}

// TestPluginAddKilled kills rye with SIGKILL at what it writes while it adds an unsigned plugin: to the store, to the
// policy and to the project. Afterwards every file is as it was or as it is to be, what was acknowledged is there, and
// the same command completes the rest.
func TestPluginAddKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1790000000") // signatures of one moment are the same bytes
	h, project := newUnsignedHome(t)
	top := t.TempDir()
	sandboxtest.Removable(t, top)
	copied := func(name string) trustHome {
		t.Helper()
		to := filepath.Join(top, name)
		if out, err := exec.Command("cp", "-a", h.dir, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return trustHome{t, to}
	}
	// of has the files of a project, without what a dead process was writing.
	of := func(h trustHome) map[string]string {
		t.Helper()
		all := filesBelow(t, filepath.Join(h.dir, "p"))
		maps.DeleteFunc(all, func(name, _ string) bool { return strings.Contains(name, osfile.Unfinished) })
		return all
	}
	// add adds the plugin, and is killed at the nth change below directories of the home.
	add := func(h trustHome, n int64, dirs ...string) (shown string, status int, changes int64) {
		t.Helper()
		for i, dir := range dirs {
			dirs[i] = filepath.Join(h.dir, dir)
		}
		s := onTerminal(t, filepath.Join(h.dir, "p"), append(h.command().Env, "TERM=dumb"), "add", "../demo")
		c := countChanges(t, dirs, n, func() { s.cmd.Process.Kill() })
		shown, status = s.agrees()
		return shown, status, c.end()
	}
	before := filesBelow(t, project)
	whole := copied("whole")
	shown, status, changes := add(whole, 0, ".ai", "p")
	if status != fault.ExitDone || changes < 10 { // some are counted together
		t.Fatalf("%d after %d changes: %s", status, changes, shown)
	}
	want := of(whole)
	// Most rounds are about the policy and the project; the others about the store, the caches and the state too.
	const rounds, everywhere = 18, 6
	killed, half := 0, 0
	for round := range int64(rounds + everywhere) {
		h := copied("round")
		p := filepath.Join(h.dir, "p")
		var shown string
		var status int
		if round < rounds {
			shown, status, _ = add(h, 1+round*changes/rounds, ".ai", "p")
		} else {
			shown, status, _ = add(h, 10+(round-rounds)*30, ".")
		}
		done := strings.Contains(shown, "requires  plugins/demo ")
		if status != fault.ExitDone {
			killed++
		}
		have := of(h)
		if !maps.Equal(have, before) && !maps.Equal(have, want) {
			half++
		}
		for name, text := range have {
			if text != before[name] && text != want[name] {
				t.Fatalf("round %d: %s is neither as before nor as it is to be: %q", round, name, text)
			}
		}
		for name := range before {
			if _, there := have[name]; !there {
				t.Fatalf("round %d: %s is gone", round, name)
			}
		}
		if have["rye.lock"] == want["rye.lock"] && have["rye.yaml"] != want["rye.yaml"] {
			t.Fatalf("round %d: the lock has what rye.yaml doesn't ask for", round)
		}
		if done && !maps.Equal(have, want) {
			t.Fatalf("round %d: it was acknowledged, and files are missing: %s", round, shown)
		}
		h.must("trust", "list") // the policy is whole
		if _, err := os.Stat(filepath.Join(h.dir, ".local", "share", "rye", "store", "format")); err == nil {
			h.must("store", "fsck")
		}
		if shown, status, _ := add(h, 0); status != fault.ExitDone || !maps.Equal(of(h), want) {
			t.Fatalf("round %d: the same command doesn't complete it: %d: %s", round, status, shown)
		}
		if policy := filesBelow(t, filepath.Join(h.dir, ".ai"))["policy.yaml"]; strings.Count(policy,
			"bundle:plugins/demo@") != 1 {
			t.Errorf("round %d: %s", round, policy)
		}
		h.must("lock", "--check", "-C", p)
		h.must("verify", "**", "-C", p)
		h.must("store", "gc", "--grace", "0s")
		h.must("store", "fsck")
		h.must("exec", "plugins/demo/skills/one/skill", "-C", p)
		h.must("exec", "plugins/demo/servers/db/echo", "-C", p)
		if out, err := exec.Command("chmod", "-R", "u+w", h.dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := os.RemoveAll(h.dir); err != nil {
			t.Fatal(err)
		}
	}
	if killed == 0 || half == 0 {
		t.Errorf("%d of %d were killed, and %d in between", killed, rounds+everywhere, half)
	}
}
