package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tree makes files below a new directory; a name that ends with / is a directory.
func tree(t *testing.T, names ...string) string {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		path := filepath.Join(base, n)
		if strings.HasSuffix(n, "/") {
			err = os.MkdirAll(path, 0o700)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return base
}

// shown lists the rules and mounts below a directory.
func shown(v *view, base string) (list []string) {
	for _, r := range v.rules {
		if path, ok := strings.CutPrefix(string(r.Path), base); ok {
			list = append(list, map[bool]string{false: "read ", true: "write "}[r.Write]+path)
		}
	}
	for _, m := range v.puts {
		list = append(list, []string{"mount-write ", "mount-read ", "mount-hide "}[m.How]+strings.TrimPrefix(string(m.Path), base))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func TestView(t *testing.T) {
	base := tree(t, "p/.ai/tools/t", "p/.ai/outputs/", "p/.ai/keys/k", "p/src/a", "p/b", "r/x", "r/s/k", "r/s/y")
	if err := os.Symlink("b", base+"/p/link"); err != nil {
		t.Fatal(err)
	}
	in := func(names ...string) (list []string) {
		for _, n := range names {
			list = append(list, base+"/"+n)
		}
		return list
	}
	for _, c := range []struct {
		name          string
		spec          Spec
		rules, mounts string
	}{
		{"one of each", Spec{Read: in("r"), Write: in("p")}, "read /r, write /p", "mount-write /p, read /r, write /p"},
		{"read-only inside", Spec{Read: in("p/.ai"), Write: in("p", "p/.ai/outputs")},
			"read /p, read /p/.ai, write /p/.ai/outputs, write /p/b, write /p/src",
			"mount-read /p/.ai, mount-write /p, mount-write /p/.ai/outputs, read /p/.ai, write /p, write /p/.ai/outputs"},
		{"denied inside", Spec{Read: in("r"), Deny: in("r/s/k")}, "read /r/s/y, read /r/x", "mount-hide /r/s/k, read /r"},
		{"denied directory", Spec{Read: in("r"), Deny: in("r/s")}, "read /r/x", "mount-hide /r/s, read /r"},
		{"denied that isn't there", Spec{Write: in("p"), Deny: in("p/new"), Read: in("p/.ai")},
			"read /p/.ai, write /p/b, write /p/src",
			"mount-write /p, read /p/.ai, write /p/b, write /p/src"},
		{"given below denied", Spec{Read: in("r", "r/s/y"), Deny: in("r/s")}, "read /r/s/y, read /r/x", "read /r/s/y, read /r/x"},
		{"denied and given", Spec{Read: in("r"), Write: in("r"), Deny: in("r")}, "", ""},
		{"read and write", Spec{Read: in("r"), Write: in("r")}, "write /r", "mount-write /r, write /r"},
		{"a file", Spec{Write: in("p/b")}, "write /p/b", "mount-write /p/b, write /p/b"},
	} {
		for mounts, want := range map[bool]string{false: c.rules, true: c.mounts} {
			v, err := newView(c.spec, mounts)
			if err != nil {
				t.Errorf("%s, %v: %v", c.name, mounts, err)
				continue
			}
			if got := strings.Join(shown(v, base), ", "); got != want {
				t.Errorf("%s, %v:\n %s\nwant\n %s", c.name, mounts, got, want)
			}
		}
	}
	for path, want := range map[string]string{
		"/": "can't be given", "/proc": "can't be given", "/sys/kernel": "can't be given", "/dev/kvm": "can't be given", "r": "clean absolute",
		base + "/r/../r": "clean absolute", base + "/none": "no such file", base + "/p/link": "name " + base + "/p/b instead", base + "/a\x00": "clean",
	} {
		_, err := newView(Spec{Read: []string{path}}, false)
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("%q ", path)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// A directory with too many entries to leave some out is refused.
func TestSplitBound(t *testing.T) {
	base := tree(t, "d/secret")
	for i := range maxSplit + 1 {
		if err := os.Mkdir(fmt.Sprintf("%s/d/%d", base, i), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, err := newView(Spec{Read: []string{base + "/d"}, Deny: []string{base + "/d/secret"}}, false)
	if err == nil || !strings.Contains(err.Error(), "too many entries") {
		t.Error(err)
	}
}

// evaluate runs a filter as the kernel would.
func evaluate(t *testing.T, code []unix.SockFilter, number uint32, args ...uint64) uint32 {
	words := map[uint32]uint32{atNumber: number, atArch: auditArch}
	for i := range 6 {
		var v uint64
		if i < len(args) {
			v = args[i]
		}
		words[atArg(uint32(i))], words[atArg(uint32(i))+4] = uint32(v), uint32(v>>32)
	}
	var a uint32
	for at := 0; ; at++ {
		c := code[at]
		hit := false
		switch c.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = words[c.K]
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= c.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return c.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			hit = a == c.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			hit = a > c.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			hit = a >= c.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			hit = a&c.K != 0
		default:
			t.Fatalf("instruction %#x", c.Code)
		}
		if hit {
			at += int(c.Jt)
		} else {
			at += int(c.Jf)
		}
	}
}

// Every list is in the filter, whatever else is allowed, and what programs need isn't.
func TestFilter(t *testing.T) {
	eperm, eacces, enosys := fail(unix.EPERM), fail(unix.EACCES), fail(unix.ENOSYS)
	for i := range 16 {
		p := policy{inet: i&1 > 0, datagram: i&2 > 0, mounts: i&4 > 0, truncate: i&8 > 0}
		code := filter(p)
		want := func(answer uint32, number int, args ...uint64) {
			t.Helper()
			if got := evaluate(t, code, uint32(number), args...); got != answer {
				t.Errorf("%+v: call %d %x: %#x, want %#x", p, number, args, got, answer)
			}
		}
		if len(code) > 4096 {
			t.Errorf("%d instructions", len(code))
		}
		for _, c := range slices.Concat(denied, deniedHere) {
			want(eperm, int(c))
		}
		changed := eperm
		if p.mounts {
			changed = allow
		}
		for _, c := range slices.Concat(changers, changersHere, shared) {
			want(changed, int(c))
		}
		// No file gets bits by which others run it as whoever owns it, however it is made or changed.
		for _, m := range slices.Concat(modes, modesHere) {
			for _, bits := range []uint64{0o4755, 0o2755, 0o6000, 1<<32 | 0o4000} {
				args := make([]uint64, 6)
				if args[m.mode] = bits; m.flags != noFlags {
					want(allow, int(m.call), args...) // nothing is made, and the mode means nothing
					args[m.flags] = unix.O_CREAT | unix.O_WRONLY
					want(eperm, int(m.call), args...)
					args[m.flags] = unix.O_TMPFILE
				}
				want(eperm, int(m.call), args...)
			}
			args := make([]uint64, 6)
			args[m.mode] = 0o755
			if !slices.Contains(slices.Concat(changers, changersHere), m.call) {
				want(allow, int(m.call), args...)
			} else {
				want(changed, int(m.call), args...)
			}
		}
		want(enosys, unix.SYS_OPENAT2)
		want(allow, unix.SYS_PRLIMIT64, 0, unix.RLIMIT_DATA)
		want(eperm, unix.SYS_PRLIMIT64, 1, unix.RLIMIT_DATA)
		want(changed, unix.SYS_UTIMENSAT, 0, 1)
		want(changed, unix.SYS_UTIMENSAT, 0, 1<<32)
		want(allow, unix.SYS_UTIMENSAT, 3, 0)
		want(map[bool]uint32{false: eperm, true: allow}[p.truncate], unix.SYS_TRUNCATE)
		for _, c := range []int{unix.SYS_READ, unix.SYS_WRITE, unix.SYS_OPENAT, unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_MMAP, unix.SYS_FUTEX,
			unix.SYS_FTRUNCATE, unix.SYS_PRCTL, unix.SYS_SECCOMP, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_MEMFD_CREATE, unix.SYS_RSEQ} {
			want(allow, c)
		}
		want(allow, unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_THREAD)
		for _, f := range []uint64{unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWPID, unix.CLONE_NEWNET, unix.CLONE_NEWIPC, unix.CLONE_NEWUTS, unix.CLONE_NEWCGROUP} {
			want(eperm, unix.SYS_CLONE, f|uint64(unix.SIGCHLD))
		}
		want(enosys, unix.SYS_CLONE3)
		want(enosys, lastCall+1)
		want(enosys, 0x3fffffff)
		inet, datagram := map[bool]uint32{false: eacces, true: allow}[p.inet], map[bool]uint32{false: eacces, true: allow}[p.inet && p.datagram]
		for family := range uint64(64) {
			is := family == unix.AF_INET || family == unix.AF_INET6
			for kind, answer := range map[uint64]uint32{unix.SOCK_STREAM: inet, unix.SOCK_DGRAM: datagram, unix.SOCK_RAW: eacces, unix.SOCK_SEQPACKET: eacces} {
				if !is {
					answer = eacces
				}
				want(answer, unix.SYS_SOCKET, family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			}
		}
		want(allow, unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC)
		want(allow, unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_SEQPACKET)
		want(eacces, unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM)
		want(eacces, unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_RAW) // the same, to the kernel
		want(eacces, unix.SYS_SOCKETPAIR, unix.AF_TIPC, unix.SOCK_STREAM)
		want(eperm, unix.SYS_IOCTL, 0, unix.TIOCSTI)
		want(eperm, unix.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI) // the kernel takes half of it
		want(allow, unix.SYS_IOCTL, 0, unix.TIOCGWINSZ)
		want(allow, unix.SYS_PERSONALITY, 0xffffffff)
		want(eperm, unix.SYS_PERSONALITY, 0x400000)
	}
	code := filter(policy{})
	code[0] = unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 999} // of another kind of machine
	if got := evaluate(t, code, unix.SYS_READ); got != kill {
		t.Errorf("%#x", got)
	}
}

// Groups that can't be made say why.
func TestGroups(t *testing.T) {
	for _, c := range []struct{ own, shared, want string }{
		{"", "", "not mounted"},
		{"/a/b", "", "cgroup.subtree_control"},
		{"/a/b", "cpu io", "shares no memory and pids out"},
		{"/a/b", "cpu memory pids", "memory.max"}, // a directory that is no group
	} {
		root := tree(t, "a/b/")
		if c.shared != "" {
			for _, d := range []string{"/a", "/a/b"} {
				if err := os.WriteFile(root+d+"/cgroup.subtree_control", []byte(c.shared+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if g, err := newGroup2(root, c.own, Limits{}.OrDefaults()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %+v, %v", c, g, err)
		}
		left, err := filepath.Glob(root + "/a/*/rye-*")
		more, _ := filepath.Glob(root + "/a/rye-*")
		if err != nil || len(left)+len(more) > 0 {
			t.Errorf("%+v: left %q %q %v", c, left, more, err)
		}
	}
	if g, err := newGroup1(t.TempDir(), nil, Limits{}); err == nil || !strings.Contains(err.Error(), "memory: not mounted") {
		t.Errorf("%+v, %v", g, err)
	}
	dir := t.TempDir()
	if _, err := newGroup1(dir, map[string]string{"memory": "/none"}, Limits{}); err == nil || strings.Contains(strings.ReplaceAll(err.Error(), dir, ""), groupName) {
		t.Error(err) // it would be another one each time
	}
	if (*group)(nil).used() != (groupUse{}) {
		t.Error("no group was used")
	}
}

// Groups that nobody owns any more are removed, and no others.
func TestSweep(t *testing.T) {
	const gone = "4194305" // more than there can be
	mine := strconv.Itoa(os.Getpid())
	parent := tree(t, "rye-"+gone+"-1/", "rye-"+gone+"-2/", "rye-"+gone+"-young/", "rye-"+gone+"-busy/x", "rye-"+mine+"-3/", "rye-x-4/", "rye-0-5/", "rye--6/", "other/")
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

// What is still in a group when it is closed is ended.
func TestGroupClose(t *testing.T) {
	g, err := newGroup(Limits{}.OrDefaults())
	if err != nil {
		// Nobody delegated one to us: then it says so in a line.
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "version 1") {
			t.Error(err)
		}
		return
	}
	c := exec.Command("/proc/self/exe", "__try", "linger")
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
	g.close()
	if err := <-ended; err == nil || err.Error() != "signal: killed" {
		t.Error(err)
	}
	for _, dir := range g.dirs {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// Of PATH those directories stay that a program sees something of, and it is never empty.
func TestPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own, other, link := filepath.Join(dir, "own"), filepath.Join(dir, "own-not"), filepath.Join(dir, "link")
	err = errors.Join(os.MkdirAll(filepath.Join(own, "bin"), 0o700), os.Mkdir(other, 0o700), os.Symlink("own/bin", link))
	if err != nil {
		t.Fatal(err)
	}
	v, err := newView(Spec{Read: []string{own}}, false)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		other + ":" + own + "/bin:" + dir + "/gone:" + link + ":/usr/bin:/bin:" + dir: own + "/bin:" + link + ":/usr/bin:/bin:" + dir,
		other: other, "": "",
	} {
		env := []string{"A=" + other, "PATH=" + path}
		if got := v.path(env); !slices.Equal(got, []string{"A=" + other, "PATH=" + want}) || env[1] != "PATH="+path {
			t.Errorf("%q: %q, %q", path, got, env)
		}
	}
}
