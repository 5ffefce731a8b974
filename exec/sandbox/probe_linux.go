package sandbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/sandbox/cgroup"
	"github.com/rye-build/rye/exec/sandbox/landlock"
	"github.com/rye-build/rye/exec/sandbox/seccomp"
	"github.com/rye-build/rye/exec/sandbox/stage"
	"github.com/rye-build/rye/manifest/policy/floor"
)

const probeTime = 30 * time.Second

// probe finds out which means work by using each of them.
func (m *Machine) probe() Offers {
	if len(m.self) == 0 {
		return Offers{Best: floor.Unset, Parts: []Part{{Name: "second stage", Why: "missing in this program"}}}
	}
	offers := Offers{Best: floor.Limits}
	version, err := landlock.Version()
	offers.Parts = append(offers.Parts, part("landlock", strconv.Itoa(version), err),
		part("seccomp", "filter", seccomp.Works()))
	restricted := offers.Parts[0].Works && offers.Parts[1].Works
	if restricted {
		offers.Best = floor.Landlock
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	how := "direct"
	if !mayMakeSpaces() {
		how = "in a user namespace"
	}
	last, _, _, err := m.converse(ctx, talk{plan: stage.Plan{Probe: true, Spaces: true}, spaces: spaceFlags(false)})
	if err == nil && last.Failed != "" {
		err = fmt.Errorf("%s: %w", last.Failed, last.Cause())
	}
	offers.Parts = append(offers.Parts, part("namespaces", how, err))
	if restricted && err == nil {
		offers.Best, offers.Hosts = floor.Namespace, true
	}
	g, err := newGroup(DefaultLimits())
	group := part("cgroup", "", err)
	if err == nil {
		group.Version = g.Version + " (" + strings.Join(g.Bounds, ", ") + ")"
		g.Close()
	}
	offers.Parts = append(offers.Parts, group)
	return offers
}

// confines reports whether the level landlock works.
func confines() bool {
	_, err := landlock.Version()
	return err == nil && seccomp.Works() == nil
}

func part(name, version string, err error) Part {
	if err != nil {
		return Part{Name: name, Why: err.Error()}
	}
	return Part{Name: name, Works: true, Version: version}
}

// newGroup creates the control group of a run. It allows more processes than the limit, so that the watch notices an
// excess.
func newGroup(l Limits) (*cgroup.Group, error) { return cgroup.New(l.Memory, l.Processes+spare) }

// spaces are the namespaces that a program may get, by their names in an Ending.
var spaces = []struct {
	flag uintptr
	name string
}{
	{unix.CLONE_NEWUSER, "userns"}, {unix.CLONE_NEWPID, "pidns"}, {unix.CLONE_NEWNS, "mountns"},
	{unix.CLONE_NEWIPC, "ipcns"}, {unix.CLONE_NEWUTS, "utsns"}, {unix.CLONE_NEWNET, "netns"},
}

// spaceFlags returns the namespaces that a program gets.
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

// needed lists the capabilities that making a place and dropping all capabilities require.
var needed = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}

// mayMakeSpaces reports whether namespaces can be made without a user namespace.
func mayMakeSpaces() bool { return hasCapabilities(needed...) }

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
