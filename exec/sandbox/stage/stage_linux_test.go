package stage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestTalk: messages arrive as they were sent, with or without a file, and anything else is an error.
func TestTalk(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, b := os.NewFile(uintptr(pair[0]), "a"), os.NewFile(uintptr(pair[1]), "b")
	defer b.Close()
	long := &Plan{Args: [][]byte{[]byte(strings.Repeat("\xff", 1<<20)), {}}}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	go func() {
		_ = Send(a, long, null, null, null)
		_ = Send(a, &Report{Port: 7}, null)
		_ = Send(a, &Report{Done: &Done{Code: 3, Signal: 9, Wall: -1, MaxRSS: 1 << 40, Ended: "memory",
			Asides: []Aside{{Name: []byte("a"), As: []byte("b")}}}})
		_, _ = a.Write([]byte{0, 0, 0, 0, 0, 0, 0, 2, 1, 2})
		_, _ = a.Write([]byte{255, 0, 0, 0, 0, 0, 0, 0})
		_, _ = a.Write([]byte{0, 0, 0, 0, 0, 0, 0, 9, 1})
		a.Close()
	}()
	var p Plan
	if f, err := Receive(b, &p); err != nil || len(f) != 3 || len(p.Args) != 2 ||
		string(p.Args[0]) != string(long.Args[0]) {
		t.Errorf("%v, %v, %d", f, err, len(p.Args))
	}
	var n Report
	files, err := Receive(b, &n)
	if err != nil || len(files) != 1 || n.Port != 7 {
		t.Fatalf("%v, %v, %+v", files, err, n)
	}
	f := files[0]
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_GETFD, 0); errno != 0 ||
		flags&syscall.FD_CLOEXEC == 0 {
		t.Errorf("a received file is passed on to children: %v", errno)
	}
	n = Report{}
	if f, err := Receive(b, &n); err != nil || f != nil || n.Done == nil ||
		n.Done.Code != 3 || n.Done.Signal != 9 || n.Done.Wall != -1 || n.Done.MaxRSS != 1<<40 ||
		n.Done.Ended != "memory" || len(n.Done.Asides) != 1 || string(n.Done.Asides[0].As) != "b" {
		t.Errorf("%v, %v, %+v", f, err, n)
	}
	// the third message is cut short
	for _, want := range []string{"malformed message", "message too long", io.ErrUnexpectedEOF.Error(),
		io.EOF.Error()} {
		if _, err := Receive(b, &n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestNoTalk: a closed socket, is an error.
func TestNoTalk(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := Send(w, &Report{}, r); !errors.Is(err, syscall.ENOTSOCK) {
		t.Error(err)
	}
	w.Close()
	if err := Send(w, &Report{}, r); err == nil {
		t.Error(err)
	}
	if err := Send(w, &Report{}); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if _, err := Receive(w, &Report{}); err == nil {
		t.Error(err)
	}
	if _, err := Receive(r, &Report{}); !errors.Is(err, syscall.ENOTSOCK) {
		t.Error(err)
	}
}

// TestProxyVariables: the variables name our proxy and no other.
func TestProxyVariables(t *testing.T) {
	got := string(bytes.Join(proxyVariables([][]byte{[]byte("A=1"), []byte("No_Proxy=*"), []byte("ftp_proxy=x"),
		[]byte("B=_proxy")}, 80), []byte(" ")))
	const at = "=http://127.0.0.1:80"
	if want := "A=1 B=_proxy http_proxy" + at + " https_proxy" + at + " HTTP_PROXY" + at + " HTTPS_PROXY" +
		at; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestFailure: an error that a stage reports is the same error here.
func TestFailure(t *testing.T) {
	for _, c := range []struct {
		err   error
		step  string
		errno syscall.Errno
		text  string
	}{
		{os.NewSyscallError("execute", syscall.ENOENT), "execute", syscall.ENOENT, "no such file or directory"},
		{&os.PathError{Op: "open", Path: "/x", Err: syscall.ELOOP}, "open /x", syscall.ELOOP,
			"too many levels of symbolic links"},
		{errors.New("no idea"), "prepare", 0, "no idea"},
		{step("mount", syscall.EPERM), "mount", syscall.EPERM, "operation not permitted"},
	} {
		r := failed(c.err)
		err := fmt.Errorf("%s: %w", r.Failed, r.Cause())
		if r.Failed != c.step || c.errno != 0 && !errors.Is(err, c.errno) || err.Error() != c.step+": "+c.text {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// TestCounts reads each of the counters.
func TestCounts(t *testing.T) {
	if n := wrote([]byte("wchar: 9\nwrite_bytes: 4096\ncancelled_write_bytes: 96\n")); n != 4000 {
		t.Error(n)
	}
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/a", 0o700); err != nil {
		t.Fatal(err)
	}
	before := size([]string{dir})
	if err := os.WriteFile(dir+"/a/c", make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := size([]string{dir}) - before; n < 1<<20 || n > 2<<20 {
		t.Error(n)
	}
	// More files than are looked at are more than any limit.
	many := dir + "/many"
	if err := os.Mkdir(many, 0o700); err != nil {
		t.Fatal(err)
	}
	for n := range maxSeen {
		if err := os.Symlink("x", many+"/"+digits(n)); err != nil {
			t.Fatal(err)
		}
	}
	if n := size([]string{many}); n < 1<<40 {
		t.Error(n)
	}
	// Only directories in tmpfs count, and none twice.
	if in := (&stage{Plan: Plan{Write: [][]byte{[]byte(dir + "/none"), []byte("/dev/shm/a"),
		[]byte("/dev/shm")}}}).memoryDirs(); len(in) > 1 || len(in) == 1 && in[0] != "/dev/shm" {
		t.Errorf("%q", in)
	}
	f := fields("/proc/self/stat")
	if len(f) < 40 || at(f, 3) != int64(os.Getppid()) || at(f, 19) < 1 || at(f, 1000) != 0 ||
		fields("/no/such") != nil {
		t.Errorf("%q", f)
	}
	if _, err := Read(dir); !errors.Is(err, syscall.EISDIR) {
		t.Error(err)
	}
	if named("/proc/self/status", "RssAnon:", "RssShmem:") == 0 {
		t.Error("no memory")
	}
}

// TestMount: what can't be mounted or hidden is an error; a missing path needn't be hidden.
func TestMount(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for how, path := range map[int]string{Writable: dir + "/none", Readable: dir + "/none/a",
		Hidden: dir + "/file/below"} {
		err := (&Mount{Path: []byte(path), How: how}).mount()
		if at, ok := errors.AsType[*os.PathError](err); !ok || at.Path != path {
			t.Errorf("%d: %v", how, err)
		}
	}
	if err := hide(dir + "/none"); err != nil {
		t.Error(err)
	}
}

// TestPrepare: a program that is to be restricted isn't started without a filter, or with rules that can't be added.
func TestPrepare(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for want, p := range map[string]Plan{
		"no filter of system calls":   {},
		"landlock rule /proc":         {Filter: make([]byte, 8), Proc: 1 << 63},
		"landlock rule for the proxy": {Filter: make([]byte, 8), Connect: 1 << 63},
		"the files of the plan":       {Program: true},
	} {
		p.Path, p.Dir, p.Restrict = []byte("/bin/true"), []byte("/"), true
		if _, err := (&stage{Plan: p, files: []*os.File{null, null, null}}).prepare(1); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
