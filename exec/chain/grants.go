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
	"github.com/rye-build/rye/lock/project"
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

// Allow returns a tool that declares more: the rights that a project gives the server of a plugin, as rye.yaml has
// them. variables are those that the process has secrets in beside the usual ones, by the secrets' names.
func Allow(t *model.Tool, rights []string) (_ *model.Tool, variables map[string]string, err error) {
	if len(rights) == 0 {
		return t, nil, nil
	}
	more := *t
	var patterns []string
	for _, right := range rights {
		text, ok := strings.CutPrefix(right, project.Secret)
		if !ok {
			patterns = append(patterns, right)
			continue
		}
		name, variable, named := strings.Cut(text, "=")
		more.Secrets = append(slices.Clone(more.Secrets), name)
		if named {
			if variables == nil {
				variables = map[string]string{}
			}
			variables[name] = variable
		}
	}
	given, err := grant(patterns, nil)
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(more.Secrets)
	more.Secrets = slices.Compact(more.Secrets)
	more.Files.Read = slices.Concat(more.Files.Read, given.Read)
	more.Files.Write = slices.Concat(more.Files.Write, given.Write)
	more.Network.All = more.Network.All || !given.Network.Bound
	if more.Network.Hosts = slices.Concat(more.Network.Hosts, given.Network.Hosts); more.Network.All {
		more.Network.Hosts = nil
	}
	return &more, variables, nil
}

// Within returns the grants that both allow.
func (g Grants) Within(grants Grants) (Grants, error) {
	set, err := g.Permissions.Intersect(grants.Permissions)
	if err != nil {
		return NoGrants(), err
	}
	return Grants{
		Permissions: set,
		// Write permission includes read permission.
		Read:    common(slices.Concat(g.Read, g.Write), slices.Concat(grants.Read, grants.Write)),
		Write:   common(g.Write, grants.Write),
		Network: g.Network.Narrow(grants.Network),
		Secrets: slices.DeleteFunc(slices.Clone(g.Secrets), func(s string) bool {
			return !slices.Contains(grants.Secrets, s)
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

// Risk returns the risk of a call with these grants. If the tool declares none, it is derived, and why is the reason;
// otherwise why is "". confined reports whether a sandbox enforces the grants.
func (g Grants) Risk(t *model.Tool, confined bool) (risk model.Risk, why string) {
	return t.RiskOf(&model.Reach{Network: !g.Network.Bound || len(g.Network.Hosts) > 0, Secrets: len(g.Secrets) > 0,
		Permissions: g.Permissions.List(), Write: g.Write, Unconfined: !confined})
}

// Hash returns the grants hash of the call's grants, which may be fewer than the tool declares.
func (g Grants) Hash(t *model.Tool) (cas.Digest, error) {
	grants := shape.Grants{Permissions: g.Permissions.Strings(), Risk: t.Risk.String(), Secrets: g.Secrets,
		Limits: t.Grants().Limits, Files: map[string]any{"read": g.Read, "write": g.Write}}
	if grants.Network = g.Network.Hosts; !g.Network.Bound {
		grants.Network = "all"
	}
	return grants.Hash()
}

// grant parses the patterns that a policy grants to the items of a glob: capabilities, and
//
//	files:read:PATH     to read a file or directory of the project, "." for all of it
//	files:write:PATH    to write it
//	network:HOST        to reach a host, as in a tool's network; network:* for all
//
// The policy allows secrets in another section.
func grant(patterns, secrets []string) (Grants, error) {
	grants := NoGrants()
	grants.Secrets = secrets
	var set []string
	for _, pattern := range patterns {
		what, rest, _ := strings.Cut(pattern, ":")
		switch what {
		case "files":
			how, path, _ := strings.Cut(rest, ":")
			if path != "." {
				if err := portable.Check(path); err != nil {
					return NoGrants(), fmt.Errorf("%q: %w", pattern, err)
				}
			}
			switch how {
			case "read":
				grants.Read = append(grants.Read, path)
			case "write":
				if !shape.Writable(path) {
					return NoGrants(),
						fmt.Errorf("%q: tools can't write to .git, rye.lock, rye.yaml, or to .ai except .ai/outputs",
							pattern)
				}
				grants.Write = append(grants.Write, path)
			default:
				return NoGrants(), fmt.Errorf("%q: expected files:read:PATH or files:write:PATH", pattern)
			}
		case "network":
			switch {
			case rest == "*":
				grants.Network = floor.Network{}
			case !floor.IsHost(rest):
				return NoGrants(), fmt.Errorf("%q: expected network:HOST or network:*", pattern)
			case grants.Network.Bound:
				grants.Network.Hosts = append(grants.Network.Hosts, rest)
			}
		default:
			set = append(set, pattern)
		}
	}
	var err error
	grants.Permissions, err = capability.ParseSet(set)
	return grants, err
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
	grants, err := Declared(t)
	if err != nil {
		return NoGrants(), err
	}
	grants.Secrets = slices.DeleteFunc(slices.Clone(grants.Secrets), func(s string) bool { return !p.MayHave(s, ref) })
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
		most, err := grant(patterns, grants.Secrets)
		if err != nil {
			return NoGrants(), grantError(ref, i == 1, err)
		}
		if grants, err = grants.Within(most); err != nil {
			return NoGrants(), grantError(ref, i == 1, err)
		}
	}
	if caller != nil {
		if grants, err = grants.Within(*caller); err != nil {
			return NoGrants(), err
		}
	}
	grants.Network = grants.Network.Narrow(p.Floor().Network)
	return grants, nil
}
