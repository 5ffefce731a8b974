package chain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// Grants are the rights of a call. The zero Grants allows all network: use Declared or NoGrants.
type Grants struct {
	Permissions capability.Set
	Read, Write []string // paths in the project, "." for all of it
	Network     floor.Network
	Secrets     []string
}

// NoGrants returns Grants that allow nothing.
func NoGrants() Grants { return Grants{Network: floor.Network{Bound: true}} }

// Declared returns the grants that a tool declares.
func Declared(t *model.Tool) (Grants, error) {
	g := NoGrants()
	var err error
	if g.Permissions, err = capability.NewSet(t.Permissions); err != nil {
		return g, err
	}
	g.Read, g.Write = t.Files.Read, t.Files.Write
	g.Network = floor.Network{Bound: !t.Network.All, Hosts: t.Network.Hosts}
	g.Secrets = t.Secrets
	return g, nil
}

// Within returns the grants that both allow.
func (g Grants) Within(o Grants) (Grants, error) {
	set, err := g.Permissions.Intersect(o.Permissions)
	if err != nil {
		return NoGrants(), err
	}
	return Grants{
		Permissions: set,
		// Write permission includes read permission.
		Read:    common(slices.Concat(g.Read, g.Write), slices.Concat(o.Read, o.Write)),
		Write:   common(g.Write, o.Write),
		Network: g.Network.Narrow(o.Network),
		Secrets: slices.DeleteFunc(slices.Clone(g.Secrets), func(s string) bool {
			return !slices.Contains(o.Secrets, s)
		}),
	}, nil
}

// common returns the paths that both lists cover.
func common(a, b []string) (both []string) {
	for _, x := range a {
		for _, y := range b {
			switch {
			case Below(x, y):
				both = append(both, x)
			case Below(y, x):
				both = append(both, y)
			}
		}
	}
	slices.Sort(both)
	return slices.Compact(both)
}

// Below reports whether a path is dir, or in it.
func Below(path, dir string) bool {
	return dir == "." || path == dir || strings.HasPrefix(path, dir+"/")
}

// Hash returns the grants hash of the call's grants, which may be fewer than the tool declares.
func (g Grants) Hash(t *model.Tool) (cas.Digest, error) {
	s := shape.Grants{Permissions: g.Permissions.Strings(), Risk: t.Risk.String(), Secrets: g.Secrets,
		Limits: t.Grants().Limits}
	switch {
	case !g.Network.Bound:
		s.Network = "all"
	case len(g.Network.Hosts) > 0:
		s.Network = g.Network.Hosts
	}
	if len(g.Read)+len(g.Write) > 0 {
		s.Files = map[string]any{"read": g.Read, "write": g.Write}
	}
	return s.Hash()
}

// grant parses the patterns that a policy grants to the items of a glob: capabilities, and
//
//	files:read:PATH     to read a file or directory of the project, "." for all of it
//	files:write:PATH    to write it
//	network:HOST        to reach a host, as in a tool's network; network:* for all
//
// The policy allows secrets in another section.
func grant(patterns, secrets []string) (Grants, error) {
	g := NoGrants()
	g.Secrets = secrets
	var set []string
	for _, p := range patterns {
		what, rest, _ := strings.Cut(p, ":")
		switch what {
		case "files":
			how, path, _ := strings.Cut(rest, ":")
			if path != "." {
				if err := portable.Check(path); err != nil {
					return NoGrants(), fmt.Errorf("%q: %w", p, err)
				}
			}
			switch how {
			case "read":
				g.Read = append(g.Read, path)
			case "write":
				if !shape.Writable(path) {
					return NoGrants(),
						fmt.Errorf("%q: tools can't write to .git, rye.lock, rye.yaml, or to .ai except .ai/outputs",
							p)
				}
				g.Write = append(g.Write, path)
			default:
				return NoGrants(), fmt.Errorf("%q: expected files:read:PATH or files:write:PATH", p)
			}
		case "network":
			switch {
			case rest == "*":
				g.Network = floor.Network{}
			case !floor.IsHost(rest):
				return NoGrants(), fmt.Errorf("%q: expected network:HOST or network:*", p)
			case g.Network.Bound:
				g.Network.Hosts = append(g.Network.Hosts, rest)
			}
		default:
			set = append(set, p)
		}
	}
	var err error
	g.Permissions, err = capability.ParseSet(set)
	return g, err
}

// grantError returns the error for invalid grants of a policy.
func grantError(ref model.Ref, ofProject bool, err error) error {
	whose := "your policy"
	if ofProject {
		whose = "the project's policy"
	}
	return fault.New(fault.Config, "%s has an invalid grant for %q: %v", whose, ref, err).On("ref",
		ref.String()).From(err).
		Because(
			"grants: takes files:read:PATH, files:write:PATH, network:HOST, and capabilities such as rye.execute.tool.acme.fetch").
		Try("rye docs sandbox")
}

// Policies are the policies that decide about calls.
type Policies struct {
	Root    *policy.Policy // nil if no key is trusted
	Project *policy.Policy // narrows the root's; nil if the project has none
}

// Each returns the policies that exist.
func (p Policies) Each() []*policy.Policy {
	return slices.DeleteFunc([]*policy.Policy{p.Root, p.Project}, func(q *policy.Policy) bool { return q == nil })
}

// MayHave reports whether the policies give a secret to a tool.
func (p Policies) MayHave(secret string, ref model.Ref) bool {
	return p.Root != nil && policy.MayHave(secret, ref.String(), p.Root, p.Project)
}

// Floor returns the minimum that both policies require of every call.
func (p Policies) Floor() floor.Exec {
	var e floor.Exec
	if p.Root != nil {
		e = p.Root.Sections().Exec
	}
	if p.Project != nil {
		e = e.Narrow(p.Project.Sections().Exec)
	}
	return e
}

// Allowed narrows the declarations of an item by both policies and by its caller. A stranger's item gets no grants
// unless the root policy has an entry for it.
func (p Policies) Allowed(t *model.Tool, ref model.Ref, stranger bool, caller *Grants) (Grants, error) {
	g, err := Declared(t)
	if err != nil {
		return NoGrants(), err
	}
	g.Secrets = slices.DeleteFunc(slices.Clone(g.Secrets), func(s string) bool { return !p.MayHave(s, ref) })
	for i, q := range []*policy.Policy{p.Root, p.Project} {
		var patterns []string
		found := false
		if q != nil {
			patterns, found = q.Grants(ref.String())
		}
		switch {
		case !found && i == 0 && stranger:
			return NoGrants(), nil
		case !found:
			continue
		}
		most, err := grant(patterns, g.Secrets)
		if err != nil {
			return NoGrants(), grantError(ref, i == 1, err)
		}
		if g, err = g.Within(most); err != nil {
			return NoGrants(), grantError(ref, i == 1, err)
		}
	}
	if caller != nil {
		if g, err = g.Within(*caller); err != nil {
			return NoGrants(), err
		}
	}
	g.Network = g.Network.Narrow(p.Floor().Network)
	return g, nil
}
