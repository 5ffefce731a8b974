package policy

import (
	"cmp"
	"strings"
)

// Narrow returns what holds under e, a root's, and p, a project's: never less strict than e.
func (e Exec) Narrow(p Exec) Exec {
	e.Floor = max(e.Floor, p.Floor)
	if p.Strangers != FloorUnset {
		e.Strangers = max(cmp.Or(e.Strangers, FloorLandlock), p.Strangers)
	}
	e.Network = e.Network.narrow(p.Network)
	e.Enforce = e.Enforce || p.Enforce
	e.Audit = e.Audit || p.Audit
	return e
}

func (n Network) narrow(o Network) Network {
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

// covers reports whether one host pattern allows all that another allows.
func covers(a, b string) bool {
	rest, star := strings.CutPrefix(a, "*")
	return a == b || star && len(b) > len(rest) && strings.HasSuffix(b, rest)
}

// MayHave reports whether an item may be handed a secret: the root policy must name it for the item, and the
// project's, if there is one and it says anything about secrets, as well.
func MayHave(secret, item string, root, project *Policy) bool {
	n, err := parseName(item)
	if err != nil || !matchAny(root.secrets[secret], n) {
		return false
	}
	return project == nil || project.secrets == nil || matchAny(project.secrets[secret], n)
}

func matchAny(globs []glob, n name) bool {
	for i := range globs {
		if globs[i].match(n) {
			return true
		}
	}
	return false
}
