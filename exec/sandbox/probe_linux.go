package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/manifest/policy/floor"
)

const probeTime = 30 * time.Second

// probe finds out what works, by doing it.
func (m *Machine) probe() Offers {
	o := Offers{Best: floor.Limits}
	if len(m.self) == 0 {
		return Offers{Best: floor.Unset, Parts: []Part{{Name: "second stage", Why: "this program has none"}}}
	}
	version, err := landlockVersion()
	o.Parts = append(o.Parts, part("landlock", strconv.Itoa(version), err))
	errFilter := seccompWorks()
	o.Parts = append(o.Parts, part("seccomp", "filter", errFilter))
	restricted := err == nil && errFilter == nil
	if restricted {
		o.Best = floor.Landlock
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	how := "direct"
	if !mayMakeSpaces() {
		how = "in a user namespace"
	}
	last, _, err := m.converse(ctx, talk{plan: plan{Probe: true, Spaces: true}, spaces: spaceFlags(false)})
	if err == nil && last.Failed != "" {
		err = fmt.Errorf("%s: %s", last.Failed, last.Err)
	}
	o.Parts = append(o.Parts, part("namespaces", how, err))
	if restricted && err == nil {
		o.Best, o.Hosts = floor.Namespace, true
	}
	g, err := newGroup(Limits{}.OrDefaults())
	if err == nil {
		o.Parts = append(o.Parts, Part{Name: "cgroup", Works: true, Version: g.version + " (" + strings.Join(g.bounds, ", ") + ")"})
		g.close()
	} else {
		o.Parts = append(o.Parts, part("cgroup", "", err))
	}
	return o
}

func part(name, version string, err error) Part {
	if err != nil {
		return Part{Name: name, Why: err.Error()}
	}
	return Part{Name: name, Works: true, Version: version}
}

// seccompWorks asks the kernel for an answer that our filter gives.
func seccompWorks() error {
	if auditArch == 0 {
		return errors.New("not for this processor yet")
	}
	answer := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	return getActionAvail(answer)
}

// spaceFlags are the namespaces that a program gets.
func spaceFlags(network bool) uintptr {
	flags := uintptr(unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS)
	if !network {
		flags |= unix.CLONE_NEWNET
	}
	if !mayMakeSpaces() {
		flags |= unix.CLONE_NEWUSER
	}
	return flags
}

// needed are the capabilities to make a place and to give up all of them.
var needed = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}

// mayMakeSpaces reports whether namespaces can be made without one for users.
func mayMakeSpaces() bool {
	return hasCapabilities(needed...)
}

func hasCapabilities(list ...uintptr) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	for _, c := range list {
		if data[c/32].Effective&(1<<(c%32)) == 0 {
			return false
		}
	}
	return true
}
