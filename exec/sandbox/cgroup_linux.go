package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// groupsRoot is where control groups are mounted.
const groupsRoot = "/sys/fs/cgroup"

// A group is a control group for one run: in version 1 one for each controller.
type group struct {
	version string
	dirs    []string
	lists   []*os.File // open for writing: "0" puts a process in
	bounds  []string   // what they bound
}

// A groupUse is what a group tells afterwards.
type groupUse struct {
	memory      int64
	outOfMemory bool
	tooMany     bool
}

// newGroup makes a group with limits, below the one that this process is in or beside it.
func newGroup(l Limits) (*group, error) {
	own := ownGroups()
	g, err := newGroup2(groupsRoot, own[""], l)
	if err == nil {
		return g, nil
	}
	g, err1 := newGroup1(groupsRoot, own, l)
	if err1 == nil {
		return g, nil
	}
	return nil, fmt.Errorf("%w; %w", err, err1)
}

// newGroup2 makes a group of version 2. A group that has processes in it can't share its controllers out, so it may have
// to be beside ours.
func newGroup2(root, own string, l Limits) (*group, error) {
	if own == "" {
		return nil, errors.New("version 2: not mounted")
	}
	var why error
	for _, dir := range []string{filepath.Join(root, own), filepath.Join(root, filepath.Dir(own))} {
		shared, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		have := " " + strings.TrimSpace(string(shared)) + " "
		switch {
		case err != nil:
			why = err
			continue
		case !strings.Contains(have, " memory ") || !strings.Contains(have, " pids "):
			why = fmt.Errorf("%s shares no memory and pids out", dir)
			continue
		}
		g := &group{version: "v2"}
		if why = g.add(dir, [][2]string{
			{"memory.max", strconv.FormatInt(l.Memory, 10)},
			{"?memory.swap.max", "0"},
			{"pids.max", strconv.Itoa(l.Processes + spare)},
		}); why == nil {
			g.bounds = []string{"memory", "pids"}
			return g, nil
		}
		g.close()
	}
	return nil, fmt.Errorf("version 2: %w", why)
}

// newGroup1 makes groups of version 1.
func newGroup1(root string, own map[string]string, l Limits) (*group, error) {
	g := &group{version: "v1"}
	for _, c := range []struct {
		name  string
		files [][2]string
	}{
		{"memory", [][2]string{
			{"memory.limit_in_bytes", strconv.FormatInt(l.Memory, 10)},
			{"?memory.memsw.limit_in_bytes", strconv.FormatInt(l.Memory, 10)},
		}},
		{"pids", [][2]string{{"pids.max", strconv.Itoa(l.Processes + spare)}}},
	} {
		at, ok := own[c.name]
		err := errors.New("not mounted")
		if ok {
			err = g.add(filepath.Join(root, c.name, at), c.files)
		}
		if err != nil {
			g.close()
			return nil, fmt.Errorf("version 1, %s: %w", c.name, err)
		}
		g.bounds = append(g.bounds, c.name)
	}
	return g, nil
}

// add makes a directory below one and writes its files; one with a ? need not be there.
func (g *group) add(parent string, files [][2]string) error {
	sweep(parent)
	dir, err := os.MkdirTemp(parent, groupName+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return fmt.Errorf("no group can be made in %s: %w", parent, cause(err))
	}
	g.dirs = append(g.dirs, dir)
	for _, f := range files {
		file, optional := strings.CutPrefix(f[0], "?")
		h, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
		if optional && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, cause(err))
		}
		_, err = h.WriteString(f[1])
		if err = cmp.Or(err, h.Close()); err != nil {
			return fmt.Errorf("%s: %w", file, cause(err))
		}
	}
	list, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("cgroup.procs: %w", cause(err))
	}
	g.lists = append(g.lists, list)
	return nil
}

// cause is an error without the path, which has another name each time.
func cause(err error) error {
	if at, ok := errors.AsType[*os.PathError](err); ok {
		return at.Err
	}
	return err
}

const (
	// groupName begins the names of groups; the number of the process that made one follows.
	groupName = "rye-"
	// maxSwept is how many entries of a directory are looked at for what was left.
	maxSwept = 1000
	// sweptAfter is the age at which a group may be swept. A process in another container, whose number means nothing
	// here, has long put its program into its group by then.
	sweptAfter = time.Minute
)

// sweep removes the groups of those who were killed before they could. The kernel removes none with processes in it.
func sweep(parent string) {
	dir, err := os.Open(parent)
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxSwept)
	for _, name := range names {
		rest, ours := strings.CutPrefix(name, groupName)
		number, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(number)
		if !ours || err != nil || pid <= 0 || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			continue
		}
		path := filepath.Join(parent, name)
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > sweptAfter {
			_ = unix.Rmdir(path)
		}
	}
}

// used tells what was used. A nil group tells nothing.
func (g *group) used() (u groupUse) {
	if g == nil {
		return u
	}
	for _, dir := range g.dirs {
		for _, file := range []string{"memory.peak", "memory.max_usage_in_bytes"} {
			data, _ := os.ReadFile(filepath.Join(dir, file))
			n, _ := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
			u.memory = max(u.memory, n)
		}
		u.outOfMemory = u.outOfMemory || named(filepath.Join(dir, "memory.events"), "oom_kill ") > 0 ||
			named(filepath.Join(dir, "memory.oom_control"), "oom_kill ") > 0
		u.tooMany = u.tooMany || named(filepath.Join(dir, "pids.events"), "max ") > 0
	}
	return u
}

// close kills what is left in a group and removes it.
func (g *group) close() {
	for _, l := range g.lists {
		l.Close()
	}
	for _, dir := range g.dirs {
		for range 200 {
			if err := os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
				break
			}
			left, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			for _, pid := range strings.Fields(string(left)) {
				if n, err := strconv.Atoi(pid); err == nil && n > 0 {
					_ = unix.Kill(n, unix.SIGKILL)
				}
			}
			time.Sleep(time.Millisecond)
		}
	}
}
