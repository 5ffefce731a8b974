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
	if _, lacks := errors.AsType[*UnavailableError](err); lacks || !errors.Is(err, unix.EAGAIN) ||
		m.lacks[2].Load() != nil {
		t.Error(err)
	}
	err = m.lack(hosts, "namespaces", unix.EPERM)
	e, lacks := errors.AsType[*UnavailableError](err)
	if !lacks || m.lacks[2].Load() != e || m.lacks[0].Load() != nil || m.lacks[1].Load() != nil ||
		e.Missing[0] != "namespaces: operation not permitted" {
		t.Error(err)
	}
}

// TestErrors: an error names the part that is missing.
func TestErrors(t *testing.T) {
	for want, err := range map[string]error{
		"this machine can't enforce the sandbox level landlock: landlock: none; seccomp: none": &UnavailableError{
			Level: floor.Landlock, Missing: []string{"landlock: none", "seccomp: none"}},
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
