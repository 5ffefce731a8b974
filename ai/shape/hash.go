package shape

import (
	"slices"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

// An Interface is the input, output and error of an item: three JSON Schemas, as values that package jcs reads. nil
// is a missing schema.
type Interface struct{ Input, Output, Error any }

// Hash returns the interface hash. A schema that isn't a JSON value is an error.
func (i Interface) Hash() (cas.Digest, error) {
	members := map[string]any{}
	for name, schema := range map[string]any{"input": i.Input, "output": i.Output, "error": i.Error} {
		if schema != nil {
			members[name] = schema
		}
	}
	return hash(members)
}

// Grants are the permissions and limits that an item asks for.
type Grants struct {
	Permissions []string // capabilities
	Limits      any      // an object: name → number
	Risk        string   // read, write, infra, money or destructive
	RiskNote    string   `json:"-"` // of a tool that declares no risk; not in the hash
	Secrets     []string // names
	Network     any      // nil or "none", "all", or a list of hosts
	Files       any      // nil, or an object: read, write → list of paths below the project's root, "." for all
}

// Hash returns the grants hash. It ignores the order of lists, duplicates, the spelling of a capability, and paths
// below another of their list. Null, an empty list and the network "none" count as missing. Invalid permissions,
// limits, networks and files are errors.
func (g Grants) Hash() (cas.Digest, error) {
	members := map[string]any{}
	set, err := capability.ParseSet(g.Permissions)
	if err != nil {
		return cas.Digest{}, err
	}
	limits, err := limitsOf(g.Limits)
	if err != nil {
		return cas.Digest{}, err
	}
	net, err := networkOf(g.Network)
	if err != nil {
		return cas.Digest{}, err
	}
	touched, err := filesOf(g.Files)
	if err != nil {
		return cas.Digest{}, err
	}
	if list := set.Strings(); len(list) > 0 {
		members["permissions"] = values(list)
	}
	if len(limits) > 0 {
		members["limits"] = limits
	}
	if g.Risk != "" {
		members["risk"] = g.Risk
	}
	if list := sorted(g.Secrets); len(list) > 0 {
		members["secrets"] = values(list)
	}
	if v := net.value(); v != nil {
		members["network"] = v
	}
	if v := touched.value(); v != nil {
		members["files"] = v
	}
	return hash(members)
}

func hash(members map[string]any) (cas.Digest, error) {
	text, err := jcs.Append(nil, members)
	if err != nil {
		return cas.Digest{}, err
	}
	return cas.Sum(text), nil
}

// badGrants returns the error for malformed grants.
func badGrants(part, reason string) error {
	return fault.New(fault.Validation, "%s: %s", part, reason).On("field", part)
}

func limitsOf(v any) (map[string]any, error) {
	limits, ok := v.(map[string]any)
	if v != nil && !ok {
		return nil, badGrants("limits", "expected an object")
	}
	return limits, nil
}

// A network is the reachable hosts: all, or a list.
type network struct {
	all   bool
	hosts []string // sorted
}

func networkOf(v any) (network, error) {
	switch v := v.(type) {
	case nil:
		return network{}, nil
	case string:
		if v == "all" || v == "none" {
			return network{all: v == "all"}, nil
		}
	case []string, []any:
		hosts, ok := texts(v)
		if !ok {
			return network{}, badGrants("network", "a host that is no text")
		}
		return network{hosts: sorted(hosts)}, nil
	}
	return network{}, badGrants("network", `expected "none", "all" or a list of hosts`)
}

// value returns the network as JSON, nil for none.
func (n network) value() any {
	switch {
	case n.all:
		return "all"
	case len(n.hosts) > 0:
		return values(n.hosts)
	}
	return nil
}

// covers reports whether n reaches everything that o reaches. It compares hosts as they are spelled.
func (n network) covers(o network) bool {
	if n.all || o.all {
		return n.all
	}
	for _, host := range o.hosts {
		if _, found := slices.BinarySearch(n.hosts, host); !found {
			return false
		}
	}
	return true
}

// sorted returns the texts sorted and without duplicates.
func sorted(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return slices.Compact(texts)
}

// texts returns a list of texts, nil for null; ok is false if v is anything else.
func texts(v any) (list []string, ok bool) {
	switch v := v.(type) {
	case nil:
	case []string:
		return v, true
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, false
			}
			list = append(list, s)
		}
	default:
		return nil, false
	}
	return list, true
}

func values(texts []string) []any {
	list := make([]any, len(texts))
	for i, s := range texts {
		list[i] = s
	}
	return list
}
