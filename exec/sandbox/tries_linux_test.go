package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tries are what the program in the sandbox attempts: it is this test binary, entered by tryWord. Each returns nil
// when it got what it must not get.
var tries = map[string]func(a []string) error{
	"nothing": func([]string) error { return nil },
	"echo": func(a []string) error {
		dir, err := os.Getwd()
		fmt.Printf("%q %q %q", a, dir, os.Environ())
		return err
	},
	"read":  func(a []string) error { _, err := os.ReadFile(a[0]); return err },
	"list":  func(a []string) error { _, err := os.ReadDir(a[0]); return err },
	"write": func(a []string) error { return os.WriteFile(a[0], []byte("x"), 0o600) },
	"append": func(a []string) error {
		f, err := os.OpenFile(a[0], os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			err = f.Close()
		}
		return err
	},
	"truncate": func(a []string) error { return os.Truncate(a[0], 0) },
	"mkdir":    func(a []string) error { return os.Mkdir(a[0], 0o700) },
	"remove":   func(a []string) error { return os.Remove(a[0]) },
	"rename":   func(a []string) error { return os.Rename(a[0], a[1]) },
	"link":     func(a []string) error { return os.Link(a[0], a[1]) },
	"through-a-link": func(a []string) error {
		if err := os.Symlink(a[0], a[1]); err != nil {
			return fmt.Errorf("not even a link: %w", err)
		}
		_, err := os.ReadFile(a[1])
		return err
	},
	"chmod":  func(a []string) error { return os.Chmod(a[0], 0o666) },
	"chown":  func(a []string) error { return os.Chown(a[0], os.Getuid(), os.Getgid()) },
	"utimes": func(a []string) error { return os.Chtimes(a[0], time.Unix(1, 0), time.Unix(1, 0)) },
	"xattr":  func(a []string) error { return unix.Setxattr(a[0], "user.rye", []byte("x"), 0) },
	"mem": func(a []string) error {
		f, err := os.OpenFile("/proc/"+a[0]+"/mem", os.O_RDWR, 0)
		f.Close()
		return err
	},
	"environ": func(a []string) error { _, err := os.ReadFile("/proc/" + a[0] + "/environ"); return err },
	"cmdline": func(a []string) error { _, err := os.ReadFile("/proc/" + a[0] + "/cmdline"); return err },
	"root-of-another": func(a []string) error {
		_, err := os.ReadFile("/proc/" + a[0] + "/root" + a[1])
		return err
	},
	"ptrace": func(a []string) error { return unix.PtraceSeize(pid(a)) },
	"vm": func(a []string) error {
		var b [1]byte
		local := []unix.Iovec{{Base: &b[0], Len: 1}}
		at, _ := strconv.ParseUint(a[1], 10, 64)
		_, err := unix.ProcessVMReadv(pid(a), local, []unix.RemoteIovec{{Base: uintptr(at), Len: 1}}, 0)
		return err
	},
	"pidfd":  func(a []string) error { return errnoOf(unix.SYS_PIDFD_GETFD, ^uintptr(0), 0, 0) },
	"signal": func(a []string) error { return unix.Kill(pid(a), 0) },
	"unix":   func(a []string) error { return dial("unix", a[0]) },
	"unixgram": func(a []string) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: a[0]})
	},
	"pair": func([]string) error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
	"tcp":  func(a []string) error { return dial("tcp", a[0]) },
	"udp":  func(a []string) error { return dial("udp", a[0]) },
	"bind": func([]string) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			l.Close()
		}
		return err
	},
	"family": func(a []string) error {
		family, _ := strconv.Atoi(a[0])
		kind, _ := strconv.Atoi(a[1])
		protocol := 0
		if kind == unix.SOCK_RAW && family == unix.AF_INET {
			protocol = unix.IPPROTO_ICMP
		}
		_, err := unix.Socket(family, kind, protocol)
		return err
	},
	"io_uring": func([]string) error {
		var params [120]byte
		return errnoOf(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	},
	"user-namespace": func([]string) error { return again(unix.CLONE_NEWUSER) },
	"net-namespace":  func([]string) error { return again(unix.CLONE_NEWNET) },
	"unshare":        func([]string) error { return unix.Unshare(unix.CLONE_NEWNS) },
	"setns": func([]string) error {
		f, err := os.Open("/proc/self/ns/uts")
		if err != nil {
			return err
		}
		return unix.Setns(int(f.Fd()), 0)
	},
	"clone3": func([]string) error { return errnoOf(unix.SYS_CLONE3, 0, 0, 0) },
	"mount":  func(a []string) error { return unix.Mount("none", a[0], "tmpfs", 0, "") },
	"umount": func(a []string) error { return unix.Unmount(a[0], 0) },
	"chroot": func(a []string) error { return unix.Chroot(a[0]) },
	"setuid": func([]string) error {
		err := unix.Setresuid(1, 1, 1)
		if errors.Is(err, unix.EINVAL) {
			return unix.EPERM // there is no such user in this namespace
		}
		return err
	},
	"keyring": func([]string) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true)
		return err
	},
	"perf":        func([]string) error { return errnoOf(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0) },
	"bpf":         func([]string) error { return errnoOf(unix.SYS_BPF, 0, 0, 0) },
	"userfaultfd": func([]string) error { return errnoOf(unix.SYS_USERFAULTFD, uintptr(unix.O_CLOEXEC|1), 0, 0) },
	"handle":      func(a []string) error { _, _, err := unix.NameToHandleAt(unix.AT_FDCWD, a[0], 0); return err },
	"personality": func([]string) error { return errnoOf(unix.SYS_PERSONALITY, 0x0400000, 0, 0) },
	"new call":    func([]string) error { return notNew(errnoOf(100_000, 0, 0, 0)) },
	"tiocsti": func([]string) error {
		c := byte('x')
		return errnoOf(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
	},
	"terminal": func([]string) error { f, err := os.Open("/dev/tty"); f.Close(); return err },
	"file-200": func([]string) error { _, err := unix.FcntlInt(200, unix.F_GETFD, 0); return err },
	"capabilities": func([]string) error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		err := unix.Capget(&header, &data[0])
		fmt.Printf("%x", data)
		return err
	},
	"file-3": func([]string) error { _, err := unix.FcntlInt(3, unix.F_GETFD, 0); return err },
	"file-4": func([]string) error { _, err := unix.FcntlInt(4, unix.F_GETFD, 0); return err },
	"core": func([]string) error {
		var l unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_CORE, &l); err != nil || l.Max != 0 {
			return err
		}
		return errors.New("no core dumps")
	},
	"privileges": func([]string) error {
		n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		if err == nil && n == 1 {
			return errors.New("no new privileges")
		}
		return err
	},
	"many-files": func(a []string) error {
		n, _ := strconv.Atoi(a[0])
		for range n {
			if _, err := unix.Dup(0); err != nil {
				return err
			}
		}
		return nil
	},
	"children": func([]string) error { return exec.Command("/proc/self/exe", tryWord, "nothing").Run() },
	"start":    func(a []string) error { return exec.Command(a[0], tryWord, "nothing").Run() },
	"map": func(a []string) error { // as the loader does
		f, err := os.Open(a[0])
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		return err
	},
	"umask": func([]string) error { return wantNumber(unix.Umask(0), 0o022) },
	"show": func(a []string) error {
		data, err := os.ReadFile(a[0])
		fmt.Printf("%s", data)
		return err
	},
	"consume": func(a []string) error {
		f, err := os.OpenFile(a[0], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString("x")
		_, input := io.Copy(os.Stdout, os.Stdin)
		return errors.Join(err, f.Close(), input)
	},
	"nested": nested,
	"caller": caller,
	"absent": func(a []string) error {
		if _, err := os.Stat(a[0]); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("it exists: %w", err)
		}
		return nil
	},
	"await": func([]string) error {
		fmt.Print("x")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	},
	"symlink": func(a []string) error { return os.Symlink("d", a[0]) },
	"mkfifo":  func(a []string) error { return unix.Mkfifo(a[0], 0o600) },
	"exchange": func(a []string) error {
		return unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
	},
	"bind-socket": func(a []string) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Bind(pair[0], &unix.SockaddrUnix{Name: a[0]})
	},
	"unlinked-file": func(a []string) error {
		fd, err := unix.Open(".", unix.O_TMPFILE|unix.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, a[0],
			unix.AT_SYMLINK_FOLLOW)
	},
	"btrfs": func(a []string) error {
		fd, err := unix.Open(".", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		var subvolume [4096]byte // BTRFS_IOC_SUBVOL_CREATE
		copy(subvolume[8:], filepath.Base(a[0]))
		return errnoOf(unix.SYS_IOCTL, uintptr(fd), 0x5000940e, uintptr(unsafe.Pointer(&subvolume)))
	},
	"exit":         func(a []string) error { n, _ := strconv.Atoi(a[0]); syscall.Exit(n); return nil },
	"die":          func([]string) error { return die() },
	"write-all":    func(a []string) error { return writeAll(a[0]) },
	"print":        func([]string) error { return printAll() },
	"stubborn":     func([]string) error { return stubborn() },
	"spin":         func([]string) error { spin(); return nil },
	"spin-many":    func([]string) error { return spinMany() },
	"allocate":     func([]string) error { return allocate() },
	"share":        func([]string) error { return share() },
	"bomb":         func([]string) error { return bomb() },
	"daemon":       func([]string) error { return daemon() },
	"daemon-again": daemonAgain,
	"tunnel":       func(a []string) error { return tunnel(a[0]) },
	"fetch":        func(a []string) error { return fetch(a[0]) },
	"x32":          func([]string) error { return errnoOf(1<<30|unix.SYS_GETPID, 0, 0, 0) },
	"die-by":       func(a []string) error { return dieBy(uintptr(pid(a))) },
	"whoami":       func([]string) error { fmt.Print(os.Geteuid()); return nil },
	"linger":       func([]string) error { time.Sleep(time.Hour); return nil },
}

const tryWord = "__try"

// try runs an attempt. The status is 0 if it succeeded, and 1 if it failed and printed why.
func try(args []string) int {
	f, ok := tries[args[0]]
	if args[0] == "steps" {
		f, ok = steps, true // it calls the others
	}
	if !ok {
		fmt.Println("no such try")
		return 3
	}
	if err := f(args[1:]); err != nil {
		fmt.Print(err)
		return 1
	}
	return 0
}

func pid(a []string) int { n, _ := strconv.Atoi(a[0]); return n }

func errnoOf(call, a, b, c uintptr) error {
	if _, _, e := unix.RawSyscall(call, a, b, c); e != 0 {
		return e
	}
	return nil
}

// notNew takes the answer to a call that no kernel has.
func notNew(err error) error {
	if errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}

func wantNumber(got, want int) error {
	if got != want {
		return fmt.Errorf("%o", got)
	}
	return nil
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, time.Second)
	if err != nil {
		return err
	}
	_, err = c.Write([]byte("x"))
	return errors.Join(err, c.Close())
}

// again starts this binary in a new namespace.
func again(flags uintptr) error {
	c := exec.Command("/proc/self/exe", tryWord, "nothing")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	return c.Run()
}

func die() error {
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	time.Sleep(time.Second)
	return errors.New("still alive")
}

func writeAll(dir string) error {
	block := make([]byte, 1<<20)
	for i := range 200 {
		f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return err
		}
		if _, err := f.Write(block); err != nil {
			return err
		}
		f.Close()
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

func printAll() error {
	line := make([]byte, 64<<10)
	for {
		if _, err := os.Stdout.Write(line); err != nil {
			return err
		}
	}
}

func stubborn() error {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return nil
}

var spun atomic.Int64

func spin() {
	for {
		spun.Add(1)
	}
}

func spinMany() error {
	for range 3 {
		_ = exec.Command("/proc/self/exe", tryWord, "spin").Start()
	}
	time.Sleep(time.Hour)
	return nil
}

func allocate() error {
	var keep [][]byte
	for range 10 << 10 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		keep = append(keep, b)
	}
	fmt.Println(len(keep))
	return nil
}

// share allocates what RLIMIT_DATA doesn't count.
func share() error {
	for range 10 << 10 {
		b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
	}
	return nil
}

// bomb forks for ever, without a runtime in its children.
//
//go:norace
//go:nosplit
func bomb() error {
	for {
		unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	}
}

// daemon leaves an orphaned process with a session of its own.
func daemon() error {
	c := exec.Command("/proc/self/exe", tryWord, "daemon-again")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c.Run()
}

func daemonAgain([]string) error {
	c := exec.Command("/proc/self/exe", tryWord, "linger")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c.Start()
}

func itoa(n int) string { return strconv.Itoa(n) }

// tunnel sends a line through the proxy and wants it back.
func tunnel(address string) error {
	c, r, err := viaProxy("CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n\r\n")
	if err != nil {
		return err
	}
	defer c.Close()
	if line, _ := r.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		rest, _ := io.ReadAll(r)
		return fmt.Errorf("%s%s", line, rest)
	}
	_, _ = r.ReadString('\n')
	fmt.Fprintln(c, "hello")
	if line, err := r.ReadString('\n'); line != "hello\n" {
		return fmt.Errorf("%q, %w", line, err)
	}
	return nil
}

// fetch prints what is at an address of http.
func fetch(address string) error {
	c, r, err := viaProxy("GET " + address +
		" HTTP/1.1\r\nHost: elsewhere.example\r\nProxy-Authorization: x\r\nX-A: b\r\n\r\n")
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = io.Copy(os.Stdout, r)
	return err
}

func viaProxy(ask string) (net.Conn, *bufio.Reader, error) {
	if len(os.Getenv("NO_PROXY")) > 0 || os.Getenv("https_proxy") != os.Getenv("HTTP_PROXY") {
		return nil, nil, errors.New("another proxy")
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(os.Getenv("https_proxy"), "http://"))
	if err != nil {
		return nil, nil, err
	}
	_, err = io.WriteString(c, ask)
	return c, bufio.NewReader(c), err
}

// dieBy ends this process by a signal, as the kernel would.
func dieBy(signal uintptr) error {
	var byDefault [4]uint64
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0,
		0); e != 0 {
		return e
	}
	_ = unix.Kill(os.Getpid(), unix.Signal(signal))
	time.Sleep(time.Second)
	return errors.New("still alive")
}
