package sandbox_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/policy/floor"
)

const stageWord = "__stage"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case stageWord:
			exit(sandbox.Stage(nil), os.Args[2])
		case lameWord:
			exit(lameStage(os.Args[3]), os.Args[2])
		case countWord:
			exit(countStage(os.Args[3]), os.Args[2])
		case tryWord:
			// Without what tests print at an exit.
			syscall.Exit(try(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

func self(t testing.TB) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func machine(t testing.TB) *sandbox.Machine {
	return sandbox.New(sandbox.Options{Self: []string{self(t), stageWord, coverDir()}})
}

// coverDir returns the directory for the coverage of children; "" if it isn't measured. A test reads everything in its
// own directory when it ends, so theirs is another one.
func coverDir() string {
	f := flag.Lookup("test.gocoverdir")
	if f == nil || f.Value.String() == "" {
		return ""
	}
	dir := filepath.Join(f.Value.String(), "children")
	_ = os.MkdirAll(dir, 0o700)
	return dir
}

// exit ends a second stage. A binary that measures coverage writes it to the directory in the environment.
func exit(status int, dir string) {
	if dir == "" {
		syscall.Exit(status)
	}
	_ = unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	os.Setenv("GOCOVERDIR", dir)
	os.Exit(status)
}

// attempt runs a try in a sandbox.
func attempt(t testing.TB, m *sandbox.Machine, s sandbox.Spec, args ...string) (*sandbox.Ending, string) {
	t.Helper()
	var out bytes.Buffer
	o, err := m.Run(t.Context(), s, proc.Command{
		Path: self(t), Args: append([]string{tryWord}, args...), Env: []string{mark(t)}, Stdout: &out, Stderr: &out,
	})
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return o, out.String()
}

// mark returns a variable that marks the processes of a test.
func mark(t testing.TB) string { return "RYE_TEST=" + strconv.Itoa(os.Getpid()) + t.Name() }

// alive lists the processes that a test left running.
func alive(t testing.TB) (list []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range paths {
		if env, _ := os.ReadFile(p); bytes.Contains(env, []byte(mark(t))) {
			line, _ := os.ReadFile(filepath.Dir(p) + "/cmdline")
			list = append(list, p+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return list
}

// realDir returns a new directory without links in its path.
func realDir(t testing.TB) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func put(t testing.TB, path string) string {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func accept(t *testing.T, network, address string) string {
	if network == "udp" || network == "unixgram" {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c.LocalAddr().String()
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// A ground is a directory with files to attack.
type ground struct{ base string }

func newGround(t testing.TB) ground {
	// A name for a socket has 107 bytes; that of a test's own directory may be longer.
	base, err := os.MkdirTemp("", "")
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(base) })
		base, err = filepath.EvalSymlinks(base)
	}
	if err != nil {
		t.Fatal(err)
	}
	g := ground{base}
	for _, path := range []string{"home/.ssh/id", "given/.ai/tools/tool.py", "given/data", "given/rye.lock",
		"given/.ai/keys/key", "given/.ai/outputs/old"} {
		put(t, g.base+"/"+path)
	}
	return g
}

func (g ground) spec(l floor.Level) sandbox.Spec {
	given := g.base + "/given"
	return sandbox.Spec{
		Level: l, Read: []string{given + "/.ai", given + "/rye.lock"}, Write: []string{given, given + "/.ai/outputs"},
		Deny: []string{given + "/.ai/keys", g.base + "/nowhere"},
	}
}

// snapshot lists everything that must not change.
func (g ground) snapshot(t testing.TB) (list []string) {
	err := filepath.WalkDir(g.base, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == g.base+"/given" || d.Type() == os.ModeSymlink {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var data []byte
		if d.Type().IsRegular() {
			data, err = os.ReadFile(path)
		}
		list = append(list, fmt.Sprint(path, info.Mode(), info.ModTime(), string(data)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Whether an attempt succeeds without a sandbox.
const (
	always = iota
	asRoot // only for root
	alike  // never, or not on every machine, or it would do harm
)

// denials lists how an attempt that was denied ends.
var denials = []string{
	"operation not permitted", "permission denied", "function not implemented", "no such file or directory",
	"no such process",
	"read-only file system", "device or resource busy", "invalid cross-device link", "no core dumps",
	"no new privileges",
}

// escapes lists the attempts; words in braces are filled in.
var escapes = []struct {
	show int
	try  string
}{
	{always, "read {home}/.ssh/id"},
	{always, "list {home}/.ssh"},
	{always, "append {home}/.ssh/id"},
	{always, "truncate {home}/.ssh/id"},
	{always, "chmod {home}/.ssh/id"},
	{always, "chown {home}/.ssh/id"},
	{always, "utimes {home}/.ssh/id"},
	{alike, "xattr {home}/.ssh/id"},
	{always, "write {home}/new"},
	{always, "mkdir {home}/new"},
	{always, "remove {home}/.ssh/id"},
	{always, "link {home}/.ssh/id {given}/hard"},
	{always, "rename {home}/.ssh/id {given}/stolen"},
	{always, "rename {given}/data {home}/.ssh/id"},
	{always, "through-a-link {home}/.ssh/id {given}/link"},
	{always, "read {given}/.ai/keys/key"},
	{always, "write {given}/.ai/keys/new"},
	{always, "append {given}/.ai/tools/tool.py"},
	{always, "chmod {given}/.ai/tools/tool.py"},
	{always, "write {given}/.ai/new"},
	{always, "write {given}/.ai/tools/new"},
	{always, "rename {given}/data {given}/.ai/tools/tool.py"},
	{always, "link {given}/data {given}/.ai/tools/hard"},
	{always, "link {given}/.ai/tools/tool.py {given}/hard"},
	{always, "rename {given}/.ai {given}/gone"},
	{always, "append {given}/rye.lock"},
	{always, "remove {given}/rye.lock"},
	{always, "rename {given}/data {given}/rye.lock"},
	{asRoot, "read /etc/shadow"},
	{alike, "read /proc/kcore"},
	{alike, "append /dev/kvm"},
	{alike, "append /dev/mem"},
	{alike, "append /proc/sys/kernel/core_pattern"},
	{alike, "append /proc/sysrq-trigger"},
	{always, "mem {victim}"},
	{always, "environ {victim}"},
	{always, "cmdline {victim}"},
	{always, "root-of-another {victim} {home}/.ssh/id"},
	{always, "environ {parent}"},
	{always, "ptrace {victim}"},
	{always, "vm {victim} {address}"},
	{alike, "pidfd"},
	{always, "signal {victim}"},
	{always, "signal {parent}"},
	{always, "unix {abstract}"},
	{always, "unix {base}/docker.sock"},
	{always, "unixgram {base}/log"},
	{always, "family {AF_UNIX} {STREAM}"},
	{always, "tcp {tcp}"},
	{always, "tcp {tcp6}"},
	{always, "udp {udp}"},
	{always, "bind"},
	{alike, "tcp 169.254.169.254:80"},
	{alike, "udp 192.0.2.1:53"},
	{asRoot, "family {AF_INET} {RAW}"},
	{asRoot, "family {AF_PACKET} {RAW}"},
	{always, "family {AF_NETLINK} {RAW}"},
	{alike, "family {AF_VSOCK} {STREAM}"},
	{alike, "family {AF_ALG} {SEQPACKET}"},
	{alike, "io_uring"},
	{always, "user-namespace"},
	{asRoot, "net-namespace"},
	{asRoot, "unshare"},
	{asRoot, "setns"},
	{alike, "clone3"},
	{alike, "mount {given}/nowhere"},
	{alike, "umount {given}"},
	{asRoot, "chroot {given}"},
	{asRoot, "setuid"},
	{alike, "keyring"},
	{alike, "perf"},
	{alike, "bpf"},
	{alike, "userfaultfd"},
	{always, "handle {given}"},
	{always, "personality"},
	{alike, "terminal"},
	{always, "privileges"},
	{alike, "core"},
}

// TestEscapes: every attempt is denied in a sandbox for strangers, and succeeds without one.
func TestEscapes(t *testing.T) {
	m := machine(t)
	root := os.Geteuid() == 0
	victim := exec.Command(self(t), tryWord, "linger")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	other := strconv.Itoa(victim.Process.Pid)
	address := uintptr(unsafe.Pointer(unsafe.StringData(tryWord))) // the victim is the same binary
	words := []string{
		"{victim}", other, "{parent}", strconv.Itoa(os.Getpid()), "{address}", strconv.FormatUint(uint64(address), 10),
		"{abstract}", accept(t, "unix", "@rye-test-"+other),
		"{tcp}", accept(t, "tcp", "127.0.0.1:0"), "{tcp6}", accept(t, "tcp", "[::1]:0"), "{udp}",
		accept(t, "udp", "127.0.0.1:0"),
	}
	for name, n := range map[string]int{
		"AF_UNIX": unix.AF_UNIX, "AF_INET": unix.AF_INET, "AF_PACKET": unix.AF_PACKET, "AF_NETLINK": unix.AF_NETLINK,
		"AF_VSOCK": unix.AF_VSOCK, "AF_ALG": unix.AF_ALG, "STREAM": unix.SOCK_STREAM, "RAW": unix.SOCK_RAW,
		"SEQPACKET": unix.SOCK_SEQPACKET,
	} {
		words = append(words, "{"+name+"}", strconv.Itoa(n))
	}
	for _, c := range escapes {
		t.Run(c.try, func(t *testing.T) {
			g := newGround(t)
			accept(t, "unix", g.base+"/docker.sock")
			accept(t, "unixgram", g.base+"/log")
			fill := strings.NewReplacer(slices.Concat(words,
				[]string{"{base}", g.base, "{home}", g.base + "/home", "{given}", g.base + "/given"})...)
			args := strings.Fields(fill.Replace(c.try))
			before := g.snapshot(t)
			for _, l := range []floor.Level{floor.Namespace, floor.Landlock} {
				_ = os.Remove(g.base + "/given/link")
				o, said := attempt(t, m, g.spec(l), args...)
				if o.Exit.Code != 1 || !slices.ContainsFunc(denials, func(d string) bool {
					return strings.HasSuffix(said, d)
				}) {
					t.Errorf("%s: %+v, %q", l, o.Exit, said)
				}
				if after := g.snapshot(t); !slices.Equal(before, after) {
					t.Errorf("%s: changed\n%q\n%q", l, before, after)
				}
			}
			if c.show == alike || c.show == asRoot && !root {
				return
			}
			_ = os.Remove(g.base + "/given/link")
			if o, said := attempt(t, m, sandbox.Spec{}, args...); o.Exit.Code != 0 {
				t.Errorf("without a sandbox: %+v, %q", o.Exit, said)
			}
		})
	}
}

// TestGiven: everything that a program was given works.
func TestGiven(t *testing.T) {
	m := machine(t)
	base := realDir(t)
	file := put(t, base+"/read/file")
	pinned := put(t, base+"/project/.ai/tools/tool.py")
	data := put(t, base+"/project/data/a")
	if err := os.MkdirAll(base+"/project/.ai/outputs", 0o700); err != nil {
		t.Fatal(err)
	}
	for l := floor.None; l <= floor.Namespace; l++ {
		s := sandbox.Spec{
			Level: l, Read: []string{base + "/read", base + "/project/.ai"},
			Write: []string{base + "/project", base + "/project/.ai/outputs"},
		}
		for i, args := range [][]string{
			{"nothing"}, {"read", file}, {"list", base + "/read"}, {"read", pinned}, {"list", base + "/project/.ai"},
			{"append", data}, {"write", base + "/project/data/b"}, {"truncate", data},
			{"mkdir", base + "/project/data/dir"},
			{"rename", base + "/project/data/b", base + "/project/data/dir/c"},
			{"remove", base + "/project/data/dir/c"}, {"remove", base + "/project/data/dir"},
			{"write", base + "/project/.ai/outputs/o"}, {"append", "/dev/null"}, {"read", "/etc/passwd"}, {"children"},
			{"pair"}, {"new call"},
		} {
			if o, said := attempt(t, m, s, args...); o.Exit.Code != 0 || o.Level != l {
				t.Errorf("%s, %d: %q: %+v, %s", l, i, args, o, said)
			}
		}
	}
}

// TestData: data is read and written and never executed, whatever else the program was given around it.
func TestData(t *testing.T) {
	m := machine(t)
	program, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, around := range map[string]func(base string, s *sandbox.Spec){
		"alone":                   func(string, *sandbox.Spec) {},
		"in what may be read":     func(base string, s *sandbox.Spec) { s.Read = append(s.Read, base+"/state") },
		"in what may be written":  func(base string, s *sandbox.Spec) { s.Write = append(s.Write, base+"/state") },
		"in what may not be used": func(base string, s *sandbox.Spec) { s.Deny = append(s.Deny, base+"/state") },
	} {
		for _, l := range []floor.Level{floor.Landlock, floor.Namespace} {
			base := realDir(t)
			file := put(t, base+"/state/data/file")
			put(t, base+"/state/other")
			put(t, base+"/read/file")
			for _, path := range []string{"/state/data/program", "/read/program"} {
				if err := os.WriteFile(base+path, program, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			s := sandbox.Spec{Level: l, Read: []string{base + "/read"}, Data: []string{base + "/state/data"}}
			around(base, &s)
			for _, args := range [][]string{
				{"read", file}, {"append", file}, {"write", base + "/state/data/new"}, {"list", base + "/state/data"},
				{"mkdir", base + "/state/data/dir"},
				{"rename", base + "/state/data/new", base + "/state/data/dir/new"},
				{"remove", base + "/state/data/dir/new"}, {"start", base + "/read/program"},
			} {
				if o, said := attempt(t, m, s, args...); o.Exit.Code != 0 || o.Level != l {
					t.Errorf("%s, %s: %q: %+v, %s", name, l, args, o, said)
				}
			}
			refused := [][]string{{"start", base + "/state/data/program"},
				{"rename", base + "/state/data", base + "/gone"}}
			if l == floor.Namespace { // Landlock doesn't see it
				refused = append(refused, []string{"map", base + "/state/data/program"})
			}
			for _, args := range refused {
				o, said := attempt(t, m, s, args...)
				if o.Exit.Code != 1 || !slices.ContainsFunc(denials, func(d string) bool {
					return strings.HasSuffix(said, d)
				}) {
					t.Errorf("%s, %s: %q: %+v, %s", name, l, args, o, said)
				}
			}
			if o, said := attempt(t, m, s, "map", base+"/read/program"); o.Exit.Code != 0 {
				t.Errorf("%s, %s: %+v, %s", name, l, o, said)
			}
		}
	}
}

// TestAsGiven: arguments, environment and directory arrive unchanged.
func TestAsGiven(t *testing.T) {
	m := machine(t)
	dir := realDir(t)
	for l := floor.None; l <= floor.Namespace; l++ {
		var out bytes.Buffer
		args := []string{tryWord, "echo", "", "a b", "$(x)", "-x", "\xff\xfe", "é\n"}
		_, err := m.Run(t.Context(), sandbox.Spec{Level: l, Read: []string{dir}}, proc.Command{
			Path: self(t), Args: args, Env: []string{"A=b c", "X=\xff"}, Dir: dir, Stdout: &out,
		})
		want := fmt.Sprintf("%q %q %q", args[2:], dir, []string{"A=b c", "X=\xff", "PWD=" + dir}[:2])
		if err != nil || out.String() != want {
			t.Errorf("%s: %s, %v; want %s", l, out.String(), err, want)
		}
	}
}

func TestExit(t *testing.T) {
	m := machine(t)
	for l := floor.None; l <= floor.Namespace; l++ {
		if o, _ := attempt(t, m, sandbox.Spec{Level: l}, "exit", "42"); o.Exit.Code != 42 || o.Exit.Signal != "" ||
			o.Ended != "" {
			t.Errorf("%s: %+v", l, o)
		}
		if o, said := attempt(t, m, sandbox.Spec{Level: l}, "die"); o.Exit.Code != -1 || o.Exit.Signal != "SIGKILL" ||
			o.Ended != "" {
			t.Errorf("%s: %+v %s", l, o, said)
		}
		for signal, ended := range map[unix.Signal]string{unix.SIGXCPU: "cpu", unix.SIGXFSZ: "written",
			unix.SIGSEGV: ""} {
			o, said := attempt(t, m, sandbox.Spec{Level: l}, "die-by", strconv.Itoa(int(signal)))
			if o.Exit.Signal != unix.SignalName(signal) || o.Ended != ended {
				t.Errorf("%s: %+v %s", l, o, said)
			}
		}
		_, err := m.Run(t.Context(), sandbox.Spec{Level: l}, proc.Command{Path: "/no/such/program"})
		if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "/no/such/program") {
			t.Errorf("%s: %v", l, err)
		}
	}
}
