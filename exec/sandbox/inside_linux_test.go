package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/textproto"
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
		_, _ = a.Write([]byte{0, 0, 0, 9, '{'})
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
	for _, want := range []string{"invalid character", "too long", io.ErrUnexpectedEOF.Error(), io.EOF.Error()} { // the third is cut short
		if _, err := receive(b, &n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Over a socket that is closed, or with what isn't JSON, nothing is said.
func TestNoTalk(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := send(w, func() {}, nil); err == nil {
		t.Error("a function was sent")
	}
	if err := send(w, news{}, r); !errors.Is(err, unix.ENOTSOCK) {
		t.Error(err)
	}
	w.Close()
	if err := send(w, news{}, r); err == nil {
		t.Error(err)
	}
	if err := send(w, news{}, nil); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if _, err := receive(w, &news{}); err == nil {
		t.Error(err)
	}
	if _, err := receive(r, &news{}); !errors.Is(err, unix.ENOTSOCK) {
		t.Error(err)
	}
}

// Input waits for a place.
func TestGate(t *testing.T) {
	for _, placed := range []bool{false, true} {
		g := &gate{Reader: strings.NewReader("x"), placed: make(chan struct{}), over: make(chan struct{})}
		if placed {
			close(g.placed)
		} else {
			close(g.over)
		}
		if data, err := io.ReadAll(g); err != nil || (string(data) == "x") != placed {
			t.Errorf("%v: %q, %v", placed, data, err)
		}
	}
}

// What is short only for now isn't remembered as missing, and what is missing is for one kind of network.
func TestLack(t *testing.T) {
	m := New(Options{})
	hosts := Spec{Level: floor.Namespace, Network: Network{Hosts: []string{"a"}}}
	err := m.lack(hosts, "namespaces", &os.SyscallError{Syscall: "clone", Err: unix.EAGAIN})
	if _, lacks := errors.AsType[*UnavailableError](err); lacks || !errors.Is(err, unix.EAGAIN) || m.lacks[2].Load() != nil {
		t.Error(err)
	}
	err = m.lack(hosts, "namespaces", unix.EPERM)
	e, lacks := errors.AsType[*UnavailableError](err)
	if !lacks || m.lacks[2].Load() != e || m.lacks[0].Load() != nil || m.lacks[1].Load() != nil || e.Missing[0] != "namespaces: operation not permitted" {
		t.Error(err)
	}
}

// A program is told of our proxy and no other.
func TestProxyVariables(t *testing.T) {
	got := string(bytes.Join(proxyVariables([][]byte{[]byte("A=1"), []byte("No_Proxy=*"), []byte("ftp_proxy=x"), []byte("B=_proxy")}, 80), []byte(" ")))
	const at = "=http://127.0.0.1:80"
	if want := "A=1 B=_proxy http_proxy" + at + " https_proxy" + at + " HTTP_PROXY" + at + " HTTPS_PROXY" + at; got != want {
		t.Errorf("%s, want %s", got, want)
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
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := newRuleset(now, nil, r, false, 0); err == nil || !strings.Contains(err.Error(), "for the program") {
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
	// Where files in memory are, those are counted, and what is in another directory once.
	if in := (&stage{plan: plan{Write: [][]byte{[]byte(dir + "/none"), []byte("/dev/shm/a"), []byte("/dev/shm")}}}).memoryDirs(); len(in) > 1 || len(in) == 1 && in[0] != "/dev/shm" {
		t.Errorf("%q", in)
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
		"this machine can't enforce the sandbox level landlock: landlock: none; seccomp: none": &UnavailableError{Level: floor.Landlock, Missing: []string{"landlock: none", "seccomp: none"}},
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

// What can't be mounted, or can't be hidden, is an error; what isn't there need not be hidden.
func TestPut(t *testing.T) {
	dir := tree(t, "file")
	for how, path := range map[int]string{writable: dir + "/none", readable: dir + "/none/a", hidden: dir + "/file/below"} {
		err := mount{Path: []byte(path), How: how}.put()
		if at, ok := errors.AsType[*os.PathError](err); !ok || at.Path != path {
			t.Errorf("%d: %v", how, err)
		}
	}
	if err := hide(dir + "/none"); err != nil {
		t.Error(err)
	}
}

// What is asked of a proxy and is no request has an answer.
func TestNoRequest(t *testing.T) {
	for _, ask := range []string{"", "GET / HTTP/2\r\n\r\n", "GET http://a/ HTTP/1.1\r\nno header\r\n\r\n", "GET http://[fe80::1%25lo]/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"} {
		if q, err := readRequest(textproto.NewReader(bufio.NewReader(strings.NewReader(ask)))); err == nil {
			t.Errorf("%q: %+v", ask, q)
		}
	}
}
