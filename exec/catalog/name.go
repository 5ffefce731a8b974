package catalog

import (
	"cmp"
	"errors"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

func compare(a, b string) int { return cmp.Compare(a, b) }

// The directories of servers and of their tools in ids.
const (
	ServersDir = "mcp/servers"
	toolsDir   = "mcp"
)

// CheckName refuses a name that no server can have: it is one segment of an id, and not the one that servers lie
// under.
func CheckName(name string) error {
	why := ""
	switch {
	case strings.Contains(name, "/"):
		why = "is more than one segment"
	case len(name) > 64 || strings.Trim(name, idCharacters) != "":
		why = "must be at most 64 letters, digits, '.', '_' and '-', beginning with a letter or digit"
	case portable.CheckID(name) != nil:
		why = reason(portable.CheckID(name))
	case portable.Fold(name) == "servers":
		why = "is the directory of servers"
	default:
		return nil
	}
	return fault.New(fault.Validation, "invalid server name %q: it %s", name, why).On("name",
		name).Try("rye help mcp add")
}

const idCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// maxName is how much of a tool's name is in an error.
const maxName = 100

// reason returns why an id is invalid, without the id.
func reason(err error) string {
	if e, ok := errors.AsType[*portable.Error](err); ok {
		return e.Detail
	}
	return err.Error()
}

// ServerRef is the ref of a server.
func ServerRef(name string) model.Ref { return model.Ref{Kind: "tool", ID: ServersDir + "/" + name} }

// Segment returns the last segment of a tool's id: its name with each character that an id doesn't allow as "_". A
// name that doesn't begin with a letter or a digit gets an "x" before it.
func Segment(tool string) string {
	out := strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, tool)
	if strings.TrimLeft(out[:min(1, len(out))], "._-") == "" {
		out = "x" + out
	}
	return out
}

// ToolRef is the ref of a server's tool.
func ToolRef(server, tool string) model.Ref {
	return model.Ref{Kind: "tool", ID: toolsDir + "/" + server + "/" + Segment(tool)}
}

// checkNames returns, for each tool that can't become an item because of its name, why.
func checkNames(server string, tools []Definition) map[string]error {
	wrong, has := map[string]error{}, map[string]string{}
	for _, d := range tools {
		name := d.Name()
		ref := ToolRef(server, name)
		if err := portable.CheckID(ref.ID); err != nil {
			wrong[name] = fault.New(fault.Validation, "the tool %q can't be an item: %q %s", fault.Clip(name, maxName),
				fault.Clip(ref.ID, maxName), reason(err))
			continue
		}
		folded := portable.Fold(ref.ID)
		if other, twice := has[folded]; twice {
			for _, n := range []string{other, name} {
				wrong[n] = fault.New(fault.Ambiguous, "the tools %q and %q would both be %s",
					fault.Clip(other, maxName), fault.Clip(name, maxName), ref)
			}
			continue
		}
		has[folded] = name
	}
	return wrong
}
