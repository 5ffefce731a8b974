package project

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/policy/floor"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// Secret begins a right to have a secret: secret:NAME, or secret:NAME=VARIABLE for a process that has it in another
// variable than all others. The other rights are as in the policy's grants: files:read:PATH, files:write:PATH,
// network:HOST.
const Secret = "secret:"

// maxName is the most characters of a secret's name, and of a variable's.
const maxName = 64

// checkRight refuses a text that isn't a right of a plugin's server.
func checkRight(right string) error {
	what, rest, _ := strings.Cut(right, ":")
	switch what {
	case "files":
		how, path, _ := strings.Cut(rest, ":")
		if path != Own {
			if err := portable.Check(path); err != nil {
				return err
			}
		}
		switch {
		case how == "write" && !shape.Writable(path):
			return fmt.Errorf("tools can't write to .git, rye.lock, rye.yaml, or to .ai except .ai/outputs")
		case how == "read" || how == "write":
			return nil
		}
	case "network":
		if rest == "*" || floor.IsHost(rest) {
			return nil
		}
	case "secret":
		name, variable, named := strings.Cut(rest, "=")
		if portable.Spelled(name, portable.Letters+portable.Digits, "._-", maxName) &&
			(!named || portable.Spelled(variable, portable.Letters+"_", portable.Digits, maxName)) {
			return nil
		}
	}
	return fmt.Errorf("expected files:read:PATH, files:write:PATH, network:HOST or secret:NAME=VARIABLE, not %q",
		right)
}

// readAllow reads the rights of a plugin's servers.
func readAllow(section *yamltree.Node) (map[string][]string, error) {
	if section.Shape != yamltree.Mapping {
		return nil, section.Errorf("expected servers under %q, as in allow: {db: [\"network:db.example.com\"]}",
			section.Key)
	}
	all := make(map[string][]string, len(section.Kids))
	for _, n := range section.Kids {
		if err := portable.CheckID(n.Key); err != nil || strings.Contains(n.Key, "/") {
			return nil, n.Errorf("%q is not the last segment of a server's id, as in db", n.Key)
		}
		rights, err := n.ItemWords()
		if err != nil {
			return nil, err
		}
		for i, right := range rights {
			if err := checkRight(right); err != nil {
				return nil, n.Kids[i].Errorf("%s", err)
			}
		}
		all[n.Key] = rights
	}
	return all, nil
}

// SetAllow sets the rights of a server of a required plugin, or removes its entry if there are none.
func (p *Project) SetAllow(id, server string, rights []string) (*Project, error) {
	requirement, ok := p.Requirement(id)
	if !ok {
		return nil, p.required(id)
	}
	if _, had := requirement.Allow[server]; !had && len(rights) == 0 {
		return p, nil
	}
	return p.change(func(root *yamltree.Node) {
		n := root.Get("requires").Get(id)
		switch {
		case len(rights) > 0:
			sorted := slices.Compact(slices.Sorted(slices.Values(rights)))
			n.Entry("allow", requireKeys...).Entry(server).SetList(sorted)
		case len(requirement.Allow) == 1:
			n.Drop("allow", true)
		default:
			n.Get("allow").Drop(server, true)
		}
	})
}
