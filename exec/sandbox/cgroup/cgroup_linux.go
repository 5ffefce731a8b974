package cgroup

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/sandbox/stage"
)

// root is the mount point of control groups.
const root = "/sys/fs/cgroup"

// A Group is the control group of one run; in version 1, one for each controller. A nil Group limits nothing.
type Group struct {
	Version string
	Lists   []*os.File // open for writing: writing "0" adds the writing process, which must have one thread
	Bounds  []string   // the controllers
	dirs    []string
}

// A file of a group, with the value to write. An optional file may be missing.
type file struct {
	name, value string
	optional    bool
}

// New creates a group with limits, below the group of this process or next to it.
func New(memory int64, processes int) (*Group, error) {
	own := ownGroups()
	g, err := newGroup2(root, own[""], memory, processes)
	if err == nil {
		return g, nil
	}
	g, err1 := newGroup1(root, own, memory, processes)
	if err1 == nil {
		return g, nil
	}
	return nil, fmt.Errorf("%w; %w", err, err1)
}

// ownGroups returns the paths of this process's control groups by their controllers.
func ownGroups() map[string]string {
	groups := map[string]string{}
	b, err := stage.Read("/proc/self/cgroup")
	if err != nil {
		return groups
	}
	for line := range strings.Lines(string(b)) {
		if parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(parts) == 3 {
			for name := range strings.SplitSeq(parts[1], ",") {
				groups[name] = parts[2]
			}
		}
	}
	return groups
}

// newGroup2 creates a group of version 2. A group with processes can't delegate its controllers, so the new group may
// have to be a sibling of ours.
func newGroup2(root, own string, memory int64, processes int) (*Group, error) {
	if own == "" {
		return nil, errors.New("version 2: not mounted")
	}
	var why error
	for _, dir := range []string{filepath.Join(root, own), filepath.Join(root, filepath.Dir(own))} {
		control, err := stage.Read(filepath.Join(dir, "cgroup.subtree_control"))
		have := " " + strings.TrimSpace(string(control)) + " "
		switch {
		case err != nil:
			why = err
			continue
		case !strings.Contains(have, " memory ") || !strings.Contains(have, " pids "):
			why = fmt.Errorf("%s doesn't delegate memory and pids", dir)
			continue
		}
		g := &Group{Version: "v2", Bounds: []string{"memory", "pids"}}
		if why = g.add(dir, "cgroup.procs", file{"memory.max", strconv.FormatInt(memory, 10), false},
			file{"memory.swap.max", "0", true},
			file{"pids.max", strconv.Itoa(processes), false}); why == nil {
			return g, nil
		}
		g.Close()
	}
	return nil, fmt.Errorf("version 2: %w", why)
}

// newGroup1 creates groups of version 1.
func newGroup1(root string, own map[string]string, memory int64, processes int) (*Group, error) {
	group := &Group{Version: "v1", Bounds: []string{"memory", "pids"}}
	bytes := strconv.FormatInt(memory, 10)
	files := [][]file{
		{{"memory.limit_in_bytes", bytes, false}, {"memory.memsw.limit_in_bytes", bytes, true}},
		{{"pids.max", strconv.Itoa(processes), false}},
	}
	for i, controller := range group.Bounds {
		at, ok := own[controller]
		err := errors.New("not mounted")
		if ok {
			err = group.add(filepath.Join(root, controller, at), "tasks", files[i]...)
		}
		if err != nil {
			group.Close()
			return nil, fmt.Errorf("version 1, %s: %w", controller, err)
		}
	}
	return group, nil
}

// add creates a directory in a group, writes its files and opens its list. In version 1 the list is "tasks", by
// thread: moving a thread is quick, while writing "cgroup.procs" waits until every processor has scheduled, 10 to 20
// ms.
func (g *Group) add(parent, name string, files ...file) error {
	sweep(parent)
	dir, err := os.MkdirTemp(parent, prefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return fmt.Errorf("can't make a group in %s: %w", parent, cause(err))
	}
	g.dirs = append(g.dirs, dir)
	for _, f := range files {
		h, err := open(filepath.Join(dir, f.name), os.O_WRONLY)
		if f.optional && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			_, err = h.WriteString(f.value)
			err = cmp.Or(err, h.Close())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, cause(err))
		}
	}
	list, err := open(filepath.Join(dir, name), os.O_WRONLY)
	if err != nil {
		return fmt.Errorf("%s: %w", name, cause(err))
	}
	g.Lists = append(g.Lists, list)
	return nil
}

// open opens a file that never blocks: with O_NONBLOCK, Go needs four fewer system calls.
func open(path string, flag int) (*os.File, error) { return os.OpenFile(path, flag|unix.O_NONBLOCK, 0) }

// cause strips the path from an error, because the directory's name differs each time.
func cause(err error) error {
	if at, ok := errors.AsType[*os.PathError](err); ok {
		return at.Err
	}
	return err
}

const (
	// prefix begins the names of groups. The id of the process that created one follows.
	prefix = "rye-"
	// maxSwept is how many entries of a directory sweep reads.
	maxSwept = 1000
	// sweptAfter is the least age of a group that sweep removes. A process in another container, whose id means
	// nothing here, has put its program into its group by then.
	sweptAfter = time.Minute
)

// sweep removes groups left behind by processes that were killed. The kernel never removes a group with processes in
// it.
func sweep(parent string) {
	dir, err := open(parent, os.O_RDONLY)
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxSwept)
	for _, name := range names {
		rest, ours := strings.CutPrefix(name, prefix)
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

// Usage is what the processes of a group used together.
type Usage struct {
	Memory      int64 // the peak
	OutOfMemory bool  // the kernel killed one of them
	TooMany     bool  // it refused to start another process
}

// Used returns the usage so far.
func (g *Group) Used() (usage Usage) {
	if g == nil {
		return usage
	}
	for _, dir := range g.dirs {
		for _, name := range []string{"memory.peak", "memory.max_usage_in_bytes"} {
			usage.Memory = max(usage.Memory, number(dir, name, ""))
		}
		usage.OutOfMemory = usage.OutOfMemory || number(dir, "memory.events", "oom_kill ") > 0 ||
			number(dir, "memory.oom_control", "oom_kill ") > 0
		usage.TooMany = usage.TooMany || number(dir, "pids.events", "max ") > 0
	}
	return usage
}

// number returns the number after a name at the beginning of a line, or 0.
func number(dir, file, name string) (n int64) {
	data, _ := stage.Read(filepath.Join(dir, file))
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok && n == 0 {
			n, _ = strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
		}
	}
	return n
}

// Close kills all processes in the group and removes it.
func (g *Group) Close() {
	if g == nil {
		return
	}
	for _, l := range g.Lists {
		l.Close()
	}
	for _, dir := range g.dirs {
		for range 200 {
			if err := unix.Rmdir(dir); err == nil || err == unix.ENOENT {
				break
			}
			left, _ := stage.Read(filepath.Join(dir, "cgroup.procs"))
			for pid := range strings.FieldsSeq(string(left)) {
				if n, err := strconv.Atoi(pid); err == nil && n > 0 {
					_ = unix.Kill(n, unix.SIGKILL)
				}
			}
			time.Sleep(time.Millisecond)
		}
	}
}
