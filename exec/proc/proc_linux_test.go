package proc_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
)

// What a program has started in its group ends with it, whether it ended or was killed.
func TestChildren(t *testing.T) {
	for _, how := range []string{"stay", "leave"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lines := 0
		c := command(t, "children", how)
		group := 0
		c.Started = func(p *os.Process) error {
			group = p.Pid
			return nil
		}
		c.Stdout = tell(func() {
			if lines++; lines == 3 && how == "stay" {
				cancel()
			}
		})
		exit, err := proc.Run(ctx, c)
		if exit == nil || how == "stay" && !errors.Is(err, context.Canceled) || how == "leave" &&
			(err != nil || exit.Code != 0) {
			t.Errorf("%s: %+v, %v", how, exit, err)
		}
		// The kernel takes a while to remove killed processes.
		for range 12000 {
			if len(inGroup(t, group)) == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if list := inGroup(t, group); len(list) > 0 {
			t.Errorf("%s: %v live", how, list)
		}
	}
}

// inGroup lists the processes of a group that aren't dead.
func inGroup(t *testing.T, group int) (list []string) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		stat, _ := os.ReadFile("/proc/" + n.Name() + "/stat")
		f := fieldsBehindName(stat)
		if len(f) > 3 && f[2] == itoa(group) && f[0] != "Z" && f[0] != "X" {
			list = append(list, n.Name())
		}
	}
	return list
}

// A session, no terminal, no other file.
func TestOwnSession(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 200); err != nil || fd != 200 {
		t.Fatal(fd, err)
	}
	defer unix.Close(200)
	if err := exec.Command(self(t), word, "read 200").Run(); err != nil {
		t.Error("file 200 isn't passed on without us: ", err)
	}
	if exit, err := proc.Run(t.Context(), command(t, "read 200")); err != nil || exit.Code != 1 {
		t.Errorf("%+v, %v", exit, err)
	}
	c := command(t, "sleep")
	seen := false
	c.Started = func(p *os.Process) error {
		sid, err := unix.Getsid(p.Pid)
		seen = err == nil && sid == p.Pid
		return errors.New("seen")
	}
	if _, err := proc.Run(t.Context(), c); err == nil || !seen {
		t.Errorf("no session of its own: %v", err)
	}
}

// The open file is executed, not what stands at the path.
func TestProgram(t *testing.T) {
	f, err := os.Open(self(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	extra, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	c := command(t, "exit", "7")
	c.Path, c.Program = "/no/such/program", f
	c.Extra = slices.Repeat([]*os.File{extra}, 20) // as many as would stand where the program is open
	if exit, err := proc.Run(t.Context(), c); err != nil || exit.Code != 7 {
		t.Errorf("%+v, %v", exit, err)
	}
	f.Close()
	if _, err := proc.Run(t.Context(), c); err == nil {
		t.Error("a closed file")
	}
}

func TestBelow(t *testing.T) {
	c := exec.Command(self(t), word, "children", "stay")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 3*len("ready\n"); {
		k, err := out.Read(make([]byte, 100))
		if err != nil {
			t.Fatal(err)
		}
		n += k
	}
	if list := proc.Below(c.Process.Pid); len(list) != 3 {
		t.Errorf("%v", list)
	}
	if list := proc.Below(os.Getpid()); !slices.Contains(list, c.Process.Pid) || len(list) < 4 ||
		list[0] != c.Process.Pid {
		t.Errorf("%v", list)
	}
	_ = unix.Kill(-c.Process.Pid, unix.SIGKILL)
	_ = c.Wait()
	if got := proc.SignalName(9) + " " + proc.SignalName(40); got != "SIGKILL signal 40" {
		t.Error(got)
	}
}

// fieldsBehindName splits what stands behind the name in a line of /proc/PID/stat.
func fieldsBehindName(stat []byte) []string {
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}

func itoa(n int) string { return strconv.Itoa(n) }
