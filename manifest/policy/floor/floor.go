package floor

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// An Exec is the least requirements for execution. The zero Exec requires nothing.
type Exec struct {
	Floor     Level   // the least sandbox for every item
	Strangers Level   // the least for items of other people's keys; Unset: Landlock
	Network   Network // the most network
	Enforce   bool    // toolchain: enforce
	Audit     bool    // audit: required
	DotEnv    DotEnv  // whether the project's .env counts
	Limits    Own     // of a thread in the background
}

// Own limits a process that runs a thread in the background, apart from its tools. A zero field sets no limit.
type Own struct {
	Memory    int64 // bytes
	Processes int64 // at one time, with those of its tools
}

// OwnLimits are the limits unless a policy sets others.
var OwnLimits = Own{Memory: 1 << 30, Processes: 512}

// Narrow returns the lower of each limit.
func (o Own) Narrow(p Own) Own {
	least := func(a, b int64) int64 {
		if a == 0 || b == 0 {
			return a + b
		}
		return min(a, b)
	}
	return Own{least(o.Memory, p.Memory), least(o.Processes, p.Processes)}
}

// A Level is a level of the sandbox; a higher one includes the lower.
type Level uint8

// The levels, by their words in the file.
const (
	Unset     Level = iota
	None            // none
	Limits          // limits: environment, directory, resource limits
	Landlock        // landlock: and rules over files and system calls
	Namespace       // namespace: and namespaces of its own
)

var levels = []string{"", "none", "limits", "landlock", "namespace"}

func (l Level) String() string { return levels[l] }

// A DotEnv selects whether tools get variables from the project's file .env.
type DotEnv uint8

// The choices, by their words in the file.
const (
	DotEnvUnset   DotEnv = iota // DotEnvNone in a root policy, no effect in a project's
	DotEnvNone                  // none
	DotEnvProject               // project
)

var dotEnvs = []string{"", "none", "project"}

func (d DotEnv) String() string { return dotEnvs[d] }

// A Network is the most that an item may reach, regardless of its grants. The zero Network sets no bound.
type Network struct {
	Bound bool
	Hosts []string // with Bound: only these, as in "api.example.com", "*.example.com:443"; empty: none
}

// Read reads the section. It allows the fields named in others and leaves them to the caller.
func Read(n *yamltree.Node, others ...string) (exec Exec, err error) {
	if err := n.Fields(append([]string{"floor", "strangers", "network", "toolchain", "audit", "dotenv", "limits"},
		others...)...); err != nil {
		return exec, err
	}
	for _, f := range []struct {
		name string
		to   *Level
	}{{"floor", &exec.Floor}, {"strangers", &exec.Strangers}} {
		word, err := n.Choice(f.name, levels[1:]...)
		if err != nil {
			return exec, err
		}
		*f.to = Level(max(0, slices.Index(levels, word)))
	}
	toolchain, err := n.Choice("toolchain", "record", "enforce")
	if err != nil {
		return exec, err
	}
	audit, err := n.Choice("audit", "on", "required")
	if err != nil {
		return exec, err
	}
	dotEnv, err := n.Choice("dotenv", dotEnvs[1:]...)
	if err != nil {
		return exec, err
	}
	exec.Enforce, exec.Audit = toolchain == "enforce", audit == "required"
	exec.DotEnv = DotEnv(max(0, slices.Index(dotEnvs, dotEnv)))
	if own := n.Get("limits"); own != nil {
		if exec.Limits, err = readOwn(own); err != nil {
			return exec, err
		}
	}
	if net := n.Get("network"); net != nil {
		if exec.Network, err = readNetwork(net); err != nil {
			return exec, err
		}
	}
	return exec, nil
}

// readOwn reads limits: memory as in 512MiB or 2GiB, and a number of processes.
func readOwn(n *yamltree.Node) (own Own, err error) {
	if err := n.Fields("memory", "processes"); err != nil {
		return own, err
	}
	memory, err := n.TextOf("memory")
	if err != nil {
		return own, err
	}
	if memory != "" {
		number, unit := memory, int64(0)
		for suffix, bytes := range map[string]int64{"MiB": 1 << 20, "GiB": 1 << 30} {
			if rest, ok := strings.CutSuffix(memory, suffix); ok {
				number, unit = rest, bytes
			}
		}
		const least, most = 64 << 20, 1 << 40
		if yamltree.IsNumber(number) {
			own.Memory, _ = strconv.ParseInt(number, 10, 64)
		}
		if own.Memory *= unit; own.Memory < least || own.Memory > most {
			return own, n.Get("memory").Errorf("expected an amount from 64MiB to 1024GiB")
		}
	}
	processes, err := n.TextOf("processes")
	if err != nil {
		return own, err
	}
	if processes != "" {
		if yamltree.IsNumber(processes) {
			own.Processes, _ = strconv.ParseInt(processes, 10, 64)
		}
		if own.Processes < 8 || own.Processes > 1<<20 {
			return own, n.Get("processes").Errorf("expected a number from 8 to 1048576")
		}
	}
	return own, nil
}

// readNetwork reads all, none, or a list of hosts.
func readNetwork(n *yamltree.Node) (Network, error) {
	if n.Shape == yamltree.Scalar {
		switch n.Text {
		case "all":
			return Network{}, nil
		case "none":
			return Network{Bound: true}, nil
		}
		return Network{}, n.Errorf("expected all, none or a list of hosts")
	}
	hosts, err := n.ItemWords()
	if err != nil {
		return Network{}, err
	}
	for i, h := range hosts {
		if !IsHost(h) {
			return Network{},
				n.Kids[i].Errorf("%q is not a host, as in api.example.com, \"*.example.com\" or \"example.com:443\"",
					yamltree.Clip(h))
		}
	}
	return Network{Bound: true, Hosts: hosts}, nil
}

// IsHost reports whether a text is a host as Network has them.
func IsHost(h string) bool {
	host, port, found := strings.Cut(strings.TrimPrefix(h, "*."), ":")
	good := host != "" && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-") == ""
	for label := range strings.SplitSeq(host, ".") {
		good = good && label != "" && label[0] != '-'
	}
	if found {
		good = good && yamltree.IsNumber(port) && len(port) <= 5 && port[0] != '0'
	}
	return good
}

// Narrow returns the requirements of e, a root's, with those of p, a project's. They are never less strict than e.
func (e Exec) Narrow(p Exec) Exec {
	e.Floor = max(e.Floor, p.Floor)
	if p.Strangers != Unset {
		e.Strangers = max(cmp.Or(e.Strangers, Landlock), p.Strangers)
	}
	e.Network = e.Network.Narrow(p.Network)
	e.Enforce = e.Enforce || p.Enforce
	e.Audit = e.Audit || p.Audit
	e.Limits = e.Limits.Narrow(p.Limits)
	if p.DotEnv == DotEnvNone {
		e.DotEnv = DotEnvNone
	}
	return e
}

// Narrow returns the network that both allow.
func (n Network) Narrow(o Network) Network {
	switch {
	case !o.Bound:
		return n
	case !n.Bound:
		return o
	}
	both := Network{Bound: true}
	for _, a := range n.Hosts {
		for _, b := range o.Hosts {
			aHost, aPort, _ := strings.Cut(a, ":")
			bHost, bPort, _ := strings.Cut(b, ":")
			host := aHost
			if !covers(bHost, aHost) {
				host = bHost
			}
			if !covers(aHost, host) || aPort != "" && bPort != "" && aPort != bPort {
				continue
			}
			if port := cmp.Or(aPort, bPort); port != "" {
				host += ":" + port
			}
			both.Hosts = append(both.Hosts, host)
		}
	}
	return both
}

// covers reports whether host pattern a allows every host that b allows.
func covers(a, b string) bool {
	rest, star := strings.CutPrefix(a, "*")
	return a == b || star && len(b) > len(rest) && strings.HasSuffix(b, rest)
}
