package locks

import (
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/catalogs"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/update"
)

// allowFlags are the flags of rye add that give rights to a plugin's servers, as those of rye mcp add do.
type allowFlags struct {
	Read    []string `placeholder:"[SERVER:]DIR" sep:"none" help:"Let a plugin's server read a directory of the project (repeatable)."`
	Write   []string `placeholder:"[SERVER:]DIR" sep:"none" help:"Let it write a directory of the project (repeatable)."`
	Network []string `placeholder:"[SERVER:]HOST" sep:"none" help:"Let it reach a host; all for every host (repeatable)."`
	Secret  []string `placeholder:"[SERVER:]NAME[=VAR]" sep:"none" help:"Pass it a secret as a variable (repeatable)."`
}

// allow returns the rights of the flags for the plugin of a bundle's id, nil without flags.
func (c *allowFlags) allow(id string) *update.Allow {
	allow := &update.Allow{Plugin: id}
	for _, flag := range []struct {
		kind   string
		values []string
	}{{"files:read:", c.Read}, {"files:write:", c.Write}, {network, c.Network}, {project.Secret, c.Secret}} {
		for _, value := range flag.values {
			prefix := ""
			server, rest, named := strings.Cut(value, ":")
			if isPort := flag.kind == network && strings.Trim(rest, "0123456789") == ""; named && !isPort {
				prefix, value = server+":", rest
			}
			if flag.kind == network && value == "all" {
				value = "*"
			}
			allow.Rights = append(allow.Rights, prefix+flag.kind+value)
		}
	}
	if len(allow.Rights) == 0 {
		return nil
	}
	return allow
}

// network begins the right to reach a host.
const network = "network:"

// refuse refuses the flags where what is added has no servers of a plugin.
func (c *allowFlags) refuse(what string) error {
	if c.allow("") == nil {
		return nil
	}
	return fault.New(fault.Validation,
		"--read, --write, --network and --secret are for the servers of a plugin, and %s", what).Try("rye help add")
}

// printRights shows the rights of servers that were changed in rye.yaml.
func printRights(t *cli.Terminal, rights []update.Right, dry bool) {
	for _, right := range rights {
		if len(right.Rights) == 0 {
			verb := cli.DryVerb(dry, "allows nothing to", "would allow nothing to")
			t.Printf("%s  %s: the server has changed\n", verb, right.Server)
			continue
		}
		t.Printf("%s  %s  %s\n", cli.DryVerb(dry, "allows", "would allow"), right.Server,
			strings.Join(right.Rights, " "))
	}
}

// noteRights names the line of the policy without which a stranger's server has no rights.
func noteRights(l *paths.Lock, rights []update.Right) {
	if l.Trust == nil {
		return
	}
	for _, right := range rights {
		if _, granted := l.Trust.Root.Side.Policy.Grants(right.Server + "/x"); granted || len(right.Rights) == 0 {
			continue
		}
		grants := slices.DeleteFunc(slices.Clone(right.Rights), func(right string) bool {
			return strings.HasPrefix(right, project.Secret)
		})
		l.App.Term.Note("if another person signed the plugin, these count only as far as your policy.yaml says: %s",
			catalogs.GrantsText(catalogs.ServerGrants(right.Server, grants)))
	}
}
