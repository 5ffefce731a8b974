package seccomp

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

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

// TestFilter: the filter denies every list, whatever the policy allows, and nothing that programs need.
func TestFilter(t *testing.T) {
	eperm, eacces, enosys := fail(unix.EPERM), fail(unix.EACCES), fail(unix.ENOSYS)
	for i := range 16 {
		p := Policy{Inet: i&1 > 0, Datagram: i&2 > 0, Mounts: i&4 > 0, Truncate: i&8 > 0}
		code := Filter(p)
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
		if p.Mounts {
			changed = allow
		}
		for _, c := range slices.Concat(changers, changersHere, shared) {
			want(changed, int(c))
		}
		// No call that makes or changes a file can set its setuid or setgid bit.
		for _, m := range slices.Concat(modes, modesHere) {
			for _, bits := range []uint64{0o4755, 0o2755, 0o6000, 1<<32 | 0o4000} {
				args := make([]uint64, 6)
				if args[m.mode] = bits; m.flags != noFlags {
					want(allow, int(m.call), args...) // no file is made, so the mode means nothing
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
		want(map[bool]uint32{false: eperm, true: allow}[p.Truncate], unix.SYS_TRUNCATE)
		for _, c := range []int{unix.SYS_READ, unix.SYS_WRITE, unix.SYS_OPENAT, unix.SYS_EXECVE, unix.SYS_EXECVEAT,
			unix.SYS_MMAP, unix.SYS_FUTEX,
			unix.SYS_FTRUNCATE, unix.SYS_PRCTL, unix.SYS_SECCOMP, unix.SYS_LANDLOCK_CREATE_RULESET,
			unix.SYS_MEMFD_CREATE, unix.SYS_RSEQ} {
			want(allow, c)
		}
		want(allow, unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_THREAD)
		for _, f := range []uint64{unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWPID, unix.CLONE_NEWNET,
			unix.CLONE_NEWIPC, unix.CLONE_NEWUTS, unix.CLONE_NEWCGROUP} {
			want(eperm, unix.SYS_CLONE, f|uint64(unix.SIGCHLD))
		}
		want(enosys, unix.SYS_CLONE3)
		want(enosys, lastCall+1)
		want(enosys, 0x3fffffff)
		inet, datagram := map[bool]uint32{false: eacces, true: allow}[p.Inet],
			map[bool]uint32{false: eacces, true: allow}[p.Inet && p.Datagram]
		for family := range uint64(64) {
			is := family == unix.AF_INET || family == unix.AF_INET6
			for kind, answer := range map[uint64]uint32{unix.SOCK_STREAM: inet, unix.SOCK_DGRAM: datagram,
				unix.SOCK_RAW: eacces, unix.SOCK_SEQPACKET: eacces} {
				if !is {
					answer = eacces
				}
				want(answer, unix.SYS_SOCKET, family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			}
		}
		want(allow, unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC)
		want(allow, unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_SEQPACKET)
		want(eacces, unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM)
		want(eacces, unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_RAW) // the kernel treats it as a datagram socket
		want(eacces, unix.SYS_SOCKETPAIR, unix.AF_TIPC, unix.SOCK_STREAM)
		want(eperm, unix.SYS_IOCTL, 0, unix.TIOCSTI)
		want(eperm, unix.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI) // the kernel uses the lower half
		want(allow, unix.SYS_IOCTL, 0, unix.TIOCGWINSZ)
		for _, c := range namers {
			want(eperm, unix.SYS_IOCTL, 0, uint64(c))
		}
		want(allow, unix.SYS_PERSONALITY, 0xffffffff)
		want(eperm, unix.SYS_PERSONALITY, 0x400000)
	}
	code := Filter(Policy{})
	code[0] = unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 999} // another machine's architecture
	if got := evaluate(t, code, unix.SYS_READ); got != kill {
		t.Errorf("%#x", got)
	}
}

func TestWorks(t *testing.T) {
	if err := Works(); err != nil {
		t.Error(err)
	}
}
