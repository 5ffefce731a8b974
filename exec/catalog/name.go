package catalog

import (
	"cmp"
	"errors"
	"path"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

func compare(a, b string) int { return cmp.Compare(a, b) }

// The directories of the servers of rye mcp add and of their tools in ids, and the segment of a plugin's id below
// which its servers are.
const (
	ServersDir = "mcp/servers"
	toolsDir   = "mcp"
	ofPlugin   = "servers"
)

// A Place is where a server and its tools are among the ids of items.
type Place struct {
	Plugin string // the id of the plugin's bundle; "" for a server of rye mcp add
	Server string // the last segment of the server's id
}

// PlaceOf returns the place of the server that a user calls by a name: a segment for a server of rye mcp add, else the
// id of a plugin and a segment, such as plugins/demo/db.
func PlaceOf(name string) Place {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return Place{name[:i], name[i+1:]}
	}
	return Place{Server: name}
}

// Name is what users call the server.
func (p Place) Name() string {
	if p.Plugin == "" {
		return p.Server
	}
	return p.Plugin + "/" + p.Server
}

// dir is the directory of servers in ids.
func (p Place) dir() string {
	if p.Plugin == "" {
		return ServersDir
	}
	return p.Plugin + "/" + ofPlugin
}

// tools is the directory of the server's tools in ids.
func (p Place) tools() string {
	if p.Plugin == "" {
		return toolsDir + "/" + p.Server
	}
	return p.id()
}

func (p Place) id() string { return p.dir() + "/" + p.Server }

// Ref is the ref of the server.
func (p Place) Ref() model.Ref { return model.Ref{Kind: "tool", ID: p.id()} }

// Tool is the ref of one of its tools.
func (p Place) Tool(tool string) model.Ref {
	return model.Ref{Kind: "tool", ID: p.tools() + "/" + Segment(tool)}
}

// Tools is the glob of its tools.
func (p Place) Tools() string { return "tool:" + p.tools() + "/**" }

// Dir is the directory of the server's item in a space.
func (p Place) Dir() string { return path.Join("tools", p.dir()) }

// placeOf returns the place of a server by its item, and false for an item that is no server at such a place.
func placeOf(m *model.Model) (Place, bool) {
	id, plugin := m.Ref.ID, ""
	if m.Tool != nil && m.Tool.Type == serverType {
		plugin = m.Tool.Plugin
	}
	place := Place{plugin, path.Base(id)}
	return place, m.Ref.Kind == "tool" && place.id() == id
}

// mayBe reports whether an id is that of a server or a tool of one, as far as an id alone says.
func mayBe(id string) bool {
	parts := strings.Split(id, "/")
	n := len(parts)
	return n == 3 && parts[0] == toolsDir || n > 2 && parts[n-2] == ofPlugin || n > 3 && parts[n-3] == ofPlugin
}

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

// checkNames returns, for each tool that can't become an item because of its name, why.
func checkNames(at Place, tools []Definition) map[string]error {
	wrong, has := map[string]error{}, map[string]string{}
	for _, d := range tools {
		name := d.Name()
		ref := at.Tool(name)
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
