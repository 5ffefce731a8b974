package sandbox

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// TestTalk: messages arrive as they were sent, with or without a file, and anything else is an error.
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
		_ = send(a, report{Port: 7}, null)
		_ = send(a, report{Done: &done{Exit: proc.Exit{Code: 3}}}, nil)
		_, _ = a.Write([]byte{0, 0, 0, 2, '{', 'x'})
		_, _ = a.Write([]byte{255, 0, 0, 0})
		_, _ = a.Write([]byte{0, 0, 0, 9, '{'})
		a.Close()
	}()
	var p plan
	if f, err := receive(b, &p); err != nil || f != nil || len(p.Args) != 2 || string(p.Args[0]) != string(long.Args[0]) {
		t.Errorf("%v, %v, %d", f, err, len(p.Args))
	}
	var n report
	f, err := receive(b, &n)
	if err != nil || f == nil || n.Port != 7 {
		t.Fatalf("%v, %v, %+v", f, err, n)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("a received file is passed on to children: %v", err)
	}
	n = report{}
	if f, err := receive(b, &n); err != nil || f != nil || n.Done == nil || n.Done.Code != 3 {
		t.Errorf("%v, %v, %+v", f, err, n)
	}
	for _, want := range []string{"invalid character", "message too long", io.ErrUnexpectedEOF.Error(), io.EOF.Error()} { // the third message is cut short
		if _, err := receive(b, &n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestNoTalk: a closed socket, or what JSON can't express, is an error.
func TestNoTalk(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := send(w, func() {}, nil); err == nil {
		t.Error("a function was sent")
	}
	if err := send(w, report{}, r); !errors.Is(err, unix.ENOTSOCK) {
		t.Error(err)
	}
	w.Close()
	if err := send(w, report{}, r); err == nil {
		t.Error(err)
	}
	if err := send(w, report{}, nil); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if _, err := receive(w, &report{}); err == nil {
		t.Error(err)
	}
	if _, err := receive(r, &report{}); !errors.Is(err, unix.ENOTSOCK) {
		t.Error(err)
	}
}

// TestGate: input waits until the place is made.
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

// TestLack: a shortage that passes isn't remembered as missing, and what is missing counts for one kind of network.
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

// TestProxyVariables: the variables name our proxy and no other.
func TestProxyVariables(t *testing.T) {
	got := string(bytes.Join(proxyVariables([][]byte{[]byte("A=1"), []byte("No_Proxy=*"), []byte("ftp_proxy=x"), []byte("B=_proxy")}, 80), []byte(" ")))
	const at = "=http://127.0.0.1:80"
	if want := "A=1 B=_proxy http_proxy" + at + " https_proxy" + at + " HTTP_PROXY" + at + " HTTPS_PROXY" + at; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestFailure: an error that a stage reports is the same error here.
func TestFailure(t *testing.T) {
	for _, c := range []struct {
		err   error
		step  string
		errno unix.Errno
	}{
		{os.NewSyscallError("execute", unix.ENOENT), "execute", unix.ENOENT},
		{&os.PathError{Op: "open", Path: "/x", Err: unix.ELOOP}, "open /x", unix.ELOOP},
		{errors.New("no idea"), "prepare", 0},
	} {
		r := failed(c.err)
		err := r.startError("/p")
		if r.Failed != c.step || c.errno != 0 && !errors.Is(err, c.errno) || !strings.HasPrefix(err.Error(), `start "/p": `+c.step+": ") {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// TestCounts reads each of the counters.
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
	// Only directories in tmpfs count, and none twice.
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

// TestErrors: an error names the part that is missing.
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

// TestMount: what can't be mounted or hidden is an error; a missing path needn't be hidden.
func TestMount(t *testing.T) {
	dir := tree(t, "file")
	for how, path := range map[int]string{writable: dir + "/none", readable: dir + "/none/a", hidden: dir + "/file/below"} {
		err := mount{Path: []byte(path), How: how}.mount()
		if at, ok := errors.AsType[*os.PathError](err); !ok || at.Path != path {
			t.Errorf("%d: %v", how, err)
		}
	}
	if err := hide(dir + "/none"); err != nil {
		t.Error(err)
	}
}
