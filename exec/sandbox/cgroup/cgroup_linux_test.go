package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// lingerWord makes this binary, started again, wait to be killed.
const lingerWord = "__linger"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == lingerWord {
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

// directories makes directories below a new one.
func directories(t *testing.T, names ...string) string {
	base := t.TempDir()
	for _, n := range names {
		if err := os.MkdirAll(filepath.Join(base, n), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return base
}

// TestGroups: a group that can't be made is an error with the reason, and leaves nothing.
func TestGroups(t *testing.T) {
	for _, c := range []struct{ own, shared, want string }{
		{"", "", "not mounted"},
		{"/a/b", "", "cgroup.subtree_control"},
		{"/a/b", "cpu io", "doesn't delegate memory and pids"},
		{"/a/b", "cpu memory pids", "memory.max"}, // a directory that isn't a group
	} {
		root := directories(t, "a/b")
		if c.shared != "" {
			for _, d := range []string{"/a", "/a/b"} {
				if err := os.WriteFile(root+d+"/cgroup.subtree_control", []byte(c.shared+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if g, err := newGroup2(root, c.own, 1<<30, 100); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %+v, %v", c, g, err)
		}
		left, err := filepath.Glob(root + "/a/*/rye-*")
		more, _ := filepath.Glob(root + "/a/rye-*")
		if err != nil || len(left)+len(more) > 0 {
			t.Errorf("%+v: left %q %q %v", c, left, more, err)
		}
	}
	if g, err := newGroup1(t.TempDir(), nil, 1<<30, 100); err == nil ||
		!strings.Contains(err.Error(), "memory: not mounted") {
		t.Errorf("%+v, %v", g, err)
	}
	dir := t.TempDir()
	if _, err := newGroup1(dir, map[string]string{"memory": "/none"}, 1<<30, 100); err == nil ||
		strings.Contains(strings.ReplaceAll(err.Error(), dir, ""), prefix) {
		t.Error(err) // the name differs each time
	}
	if (*Group)(nil).Used() != (Usage{}) {
		t.Error("no group was used")
	}
}

// TestSweep: groups of processes that ended are removed, and no others.
func TestSweep(t *testing.T) {
	const gone = "4194305" // above the highest possible id
	mine := strconv.Itoa(os.Getpid())
	parent := directories(t, "rye-"+gone+"-1", "rye-"+gone+"-2", "rye-"+gone+"-young", "rye-"+gone+"-busy/x",
		"rye-"+mine+"-3", "rye-x-4", "rye-0-5", "rye--6", "other")
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * sweptAfter)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "young") {
			if err := os.Chtimes(filepath.Join(parent, e.Name()), long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	sweep(parent)
	left, err := filepath.Glob(parent + "/*")
	if err != nil || len(left) != len(entries)-2 {
		t.Errorf("%q, %v", left, err)
	}
	for _, path := range left {
		if strings.HasSuffix(path, "-1") || strings.HasSuffix(path, "-2") {
			t.Errorf("%s is there", path)
		}
	}
	sweep(parent + "/none")
}

// TestClose: closing a group kills the processes in it.
func TestClose(t *testing.T) {
	g, err := New(1<<30, 100)
	if err != nil {
		// No group was delegated to this user: the error says so in one line.
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "version 1") {
			t.Error(err)
		}
		return
	}
	for _, l := range g.Lists {
		if g.Version == "v1" && filepath.Base(l.Name()) != "tasks" {
			t.Errorf("a program joins by %s, which is slow", l.Name())
		}
	}
	c := exec.Command("/proc/self/exe", lingerWord)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range g.dirs {
		if err := os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(c.Process.Pid)), 0); err != nil {
			t.Error(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	g.Close()
	if err := <-ended; err == nil || err.Error() != "signal: killed" {
		t.Error(err)
	}
	for _, dir := range g.dirs {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
