package sandbox

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/manifest/policy/floor"
)

// Messages get there as they were sent, with a file or without, and what is none is an error.
func TestTalk(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, b := os.NewFile(uintptr(pair[0]), "a"), os.NewFile(uintptr(pair[1]), "b")
	defer b.Close()
	long := plan{Args: [][]byte{[]byte(strings.Repeat("\xff", 1<<20)), {}}}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	go func() {
		_ = send(a, long, nil)
		_ = send(a, news{Port: 7}, null)
		_ = send(a, news{Done: &done{Code: 3}}, nil)
		_, _ = a.Write([]byte{0, 0, 0, 2, '{', 'x'})
		_, _ = a.Write([]byte{255, 0, 0, 0})
		_, _ = a.Write([]byte{0, 0})
		a.Close()
	}()
	var p plan
	if f, err := receive(b, &p); err != nil || f != nil || len(p.Args) != 2 || string(p.Args[0]) != string(long.Args[0]) {
		t.Errorf("%v, %v, %d", f, err, len(p.Args))
	}
	var n news
	f, err := receive(b, &n)
	if err != nil || f == nil || n.Port != 7 {
		t.Fatalf("%v, %v, %+v", f, err, n)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("a file that came is passed on: %v", err)
	}
	n = news{}
	if f, err := receive(b, &n); err != nil || f != nil || n.Done == nil || n.Done.exit().Code != 3 {
		t.Errorf("%v, %v, %+v", f, err, n)
	}
	for _, want := range []string{"invalid character", "too long", io.ErrUnexpectedEOF.Error(), io.EOF.Error()} {
		if _, err := receive(b, &n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What a stage says of an error is the error.
func TestFailure(t *testing.T) {
	if err := (&news{}).failure("/p"); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		err   error
		step  string
		errno unix.Errno
	}{
		{&StartError{Step: "execute", Err: unix.ENOENT}, "execute", unix.ENOENT},
		{&os.PathError{Op: "open", Path: "/x", Err: unix.ELOOP}, "open /x", unix.ELOOP},
		{errors.New("no idea"), "prepare", 0},
	} {
		n := failed(c.err)
		err := n.failure("/p")
		start, ok := errors.AsType[*StartError](err)
		if !ok || start.Path != "/p" || start.Step != c.step || c.errno != 0 && !errors.Is(err, c.errno) || !strings.Contains(err.Error(), n.Err) {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// A version gets the rights that it knows, and no more.
func TestHandled(t *testing.T) {
	for version, want := range map[int]uint64{1: 0x1fff, 2: 0x3fff, 3: 0x7fff, 4: 0x7fff, 5: 0xffff, 6: 0xffff, 7: 0xffff, 99: 0xffff} {
		if got := handled(version); got != want || writeRights(version)&^want != 0 || writeRights(version)&(unix.LANDLOCK_ACCESS_FS_MAKE_CHAR|unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK|unix.LANDLOCK_ACCESS_FS_IOCTL_DEV) != 0 {
			t.Errorf("%d: %#x, want %#x; to write %#x", version, got, want, writeRights(version))
		}
	}
	now, err := landlockVersion()
	if err != nil {
		t.Fatal(err)
	}
	dir := tree(t, "f")
	for version := 1; version <= now; version++ { // the kernel takes what an older one had
		set, err := newRuleset(version, []rule{{Path: []byte(dir), Write: true}, {Path: []byte(dir + "/f")}, {Path: []byte("/no/such"), System: true}}, nil, false, 80)
		if err != nil {
			t.Errorf("%d: %v", version, err)
			continue
		}
		set.Close()
	}
	if _, err := newRuleset(now, []rule{{Path: []byte(dir + "/none")}}, nil, false, 0); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := os.Symlink("f", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if _, err := newRuleset(now, []rule{{Path: []byte(dir + "/link")}}, nil, false, 0); !errors.Is(err, unix.ELOOP) {
		t.Error(err)
	}
}

// What is counted, is.
func TestCounts(t *testing.T) {
	if n := wrote([]byte("wchar: 9\nwrite_bytes: 4096\ncancelled_write_bytes: 96\n")); n != 4000 {
		t.Error(n)
	}
	dir := tree(t, "a/b")
	before := size([]string{dir})
	if err := os.WriteFile(dir+"/a/c", make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := size([]string{dir}) - before; n < 1<<20 || n > 2<<20 {
		t.Error(n)
	}
	f := fields("/proc/self/stat")
	if len(f) < 40 || number(f, 3) != int64(os.Getppid()) || number(f, 19) < 1 || number(f, 1000) != 0 || fields("/no/such") != nil {
		t.Errorf("%q", f)
	}
	if named("/proc/self/status", "RssAnon:", "RssShmem:") == 0 {
		t.Error("no memory")
	}
}

// The part that is missing is named, and what could be done without it.
func TestErrors(t *testing.T) {
	for want, err := range map[string]error{
		"this machine has no sandbox of level landlock: landlock: none; seccomp: none": &UnavailableError{Level: floor.Landlock, Missing: []string{"landlock: none", "seccomp: none"}},
		`"/x" is wrong`: &SpecError{Path: "/x", Reason: "is wrong"},
	} {
		if err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if p := part("a", "1", errors.New("gone")); p.Works || p.Why != "gone" || p.Version != "" {
		t.Errorf("%+v", p)
	}
	if hasCapabilities(63) {
		t.Error("a capability that isn't there")
	}
}
