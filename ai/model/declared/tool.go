package declared

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
)

// A Tool is the declarations of a tool in any language.
type Tool struct {
	Name, Version, Description, Category string

	Type      string // tool_type: python, runtime, primitive, http, graph, …
	Executor  string // the id of the tool that runs this one, or ""
	Primitive bool   // executor_id is null: the kernel runs it

	// Objects, nil if absent.
	Config, ConfigSchema, EnvConfig, Anchor, ChildConstraints, Input, Output, Error *value.Value

	// Answer is the function in the tool's own file that turns the primitive's output into the result; "" if the
	// output is the result.
	Answer string

	Examples    []Example
	Constraints []Constraint // parsed ChildConstraints
	Inputs      []string     // names that a link needs from the one below it
	Outputs     []string
	Risk        Risk
	NoRisk      bool // no risk, effects or pure is declared: Risk is Destructive; see DeriveRisk
	Permissions []capability.Capability
	Limits      *value.Value // normalized, see Limit; nil without limits
	Network     Network
	Files       Files
	// the tool's list of registry packages: a path from its directory, or ""
	Packages string
	// Plugin is the id of the bundle of a plugin whose files the tool runs with, "" for none. Only an item of that
	// bundle, or one made of the plugin for this project, can name it.
	Plugin  string
	Pure    bool
	Secrets []string // names
	Tags    []string
}

// A Network is the hosts that a tool wants to reach. The zero Network is none.
type Network struct {
	All   bool
	Hosts []string // as in "api.example.com", "*.example.com:443"; sorted
}

// String returns "none", "all" or the hosts with commas.
func (n Network) String() string {
	switch {
	case n.All:
		return "all"
	case len(n.Hosts) == 0:
		return "none"
	}
	return strings.Join(n.Hosts, ", ")
}

// A Constraint is a tool's requirement on the version of a child, a tool that it runs.
type Constraint struct {
	Child    string // its id
	Min, Max string // inclusive; "" for no bound
	Range    string // as in the file; "" allows all
	allowed  semver.Range
}

// Allows reports whether a version of the child is allowed. An invalid version never is.
func (c Constraint) Allows(version string) bool {
	return manifest.CheckVersion(version) == nil &&
		(c.Min == "" || manifest.CompareVersions(version, c.Min) >= 0) &&
		(c.Max == "" || manifest.CompareVersions(version, c.Max) <= 0) &&
		(c.Range == "" || c.allowed.Contains(version))
}

// A reader reads the declarations of an item from its fields. No project can replace it, as it can a schema.
type reader struct{ *fields.Reader }

// ReadTool reads a tool's declarations, and reports all problems of its fields.
func ReadTool(r *fields.Reader) *Tool {
	reader := &reader{r}
	tool := &Tool{
		Name: reader.Text("name"), Version: reader.Version(), Description: reader.Text("description"),
		Category: reader.Text("category"),
		Type:     reader.Text("tool_type"),
		Config:   reader.Object("config"), ConfigSchema: reader.schema("config_schema"),
		EnvConfig: reader.Object("env_config"),
		Anchor:    reader.anchor(), ChildConstraints: reader.Object("child_constraints"),
		Input: reader.schema("input_schema"), Output: reader.schema("output_schema"),
		Error:  reader.schema("error_schema"),
		Answer: reader.answer(), Examples: reader.examples(),
		Inputs:      reader.List("inputs", reader.Fields.Get("inputs")),
		Outputs:     reader.List("outputs", reader.Fields.Get("outputs")),
		Permissions: reader.permissions(), Limits: reader.limits(toolLimits), Network: reader.network(),
		Files:    reader.files(),
		Packages: reader.packages(),
		Plugin:   reader.plugin(),
		Pure:     reader.Bool("pure", reader.Fields.Get("pure")),
		Secrets:  reader.secrets(), Tags: reader.Words("tags"),
	}
	reader.executor(tool)
	reader.envConfig(tool.EnvConfig)
	reader.verifyDeps()
	tool.Constraints = reader.constraints(tool.ChildConstraints)
	reader.risk(tool)
	reader.writes(tool)
	return tool
}

// executor reads the executor of the tool.
func (d *reader) executor(tool *Tool) {
	const name = "executor_id"
	val := d.Fields.Get(name)
	switch {
	case val == nil:
		if !d.Has("") { // otherwise the file is malformed, and may have it
			d.Once(d.Fields, name, "Missing required field: %s", name)
		}
	case val.Kind == value.Null:
		tool.Primitive = true
	case val.Kind != value.Text:
		d.Once(val, name, "Field '%s' must be a string, got %s", name, fields.TypeName(val))
	case val.Text == "":
		d.Once(val, name, "Missing required field: %s", name)
	default:
		if err := portable.CheckID(val.Text); err != nil {
			d.Once(val, name, "Field '%s' is not the id of a tool: %v", name, err)
			return
		}
		tool.Executor = val.Text
	}
}

// network reads none, all, or a list of hosts.
func (d *reader) network() Network {
	val := d.Fields.Get("network")
	switch {
	case val.IsNull() || val.String() == "none":
		return Network{}
	case val.String() == "all":
		return Network{All: true}
	case val.Kind != value.List:
		d.Once(val, "network", "Field 'network' must be none, all or a list of hosts, got %s", fields.Show(val))
		return Network{}
	}
	var n Network
	for i, item := range val.Items {
		if !isHost(item.String()) {
			path := fmt.Sprintf("network[%d]", i)
			d.Bad(item, path,
				`Field '%s' must be a host, as in api.example.com, "*.example.com" or "example.com:443", got %s`, path,
				fields.Show(item))
			continue
		}
		n.Hosts = append(n.Hosts, item.Text)
	}
	slices.Sort(n.Hosts)
	n.Hosts = slices.Compact(n.Hosts)
	return n
}

// isHost reports whether a policy accepts s as a host, too.
func isHost(s string) bool {
	host, port, found := strings.Cut(strings.TrimPrefix(s, "*."), ":")
	if host == "" || len(s) > 260 || found && (!fields.IsDigits(port) || len(port) > 5 || port[0] == '0') {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || label[0] == '-' || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}

// packages reads the path of a package list. Those who read the list check its name.
func (d *reader) packages() string {
	val := d.Fields.Get("packages")
	switch {
	case val.IsNull():
		return ""
	case val.Kind != value.Text:
		d.Once(val, "packages", "Field 'packages' must be a string, got %s", fields.TypeName(val))
		return ""
	}
	if err := portable.Check(val.Text); err != nil {
		d.Bad(val, "packages", "Field 'packages' is no path from the tool's directory, as in _requirements.txt: %v",
			err)
		return ""
	}
	return val.Text
}

// plugin reads the id of the bundle whose files the tool runs with.
func (d *reader) plugin() string {
	val := d.Fields.Get("plugin")
	switch {
	case val.IsNull():
		return ""
	case val.Kind != value.Text:
		d.Once(val, "plugin", "Field 'plugin' must be a string, got %s", fields.TypeName(val))
		return ""
	}
	if err := portable.CheckID(val.Text); err != nil {
		d.Bad(val, "plugin", "Field 'plugin' is not the id of a bundle, as in plugins/demo: %v", err)
		return ""
	}
	return val.Text
}

// secrets reads the names of the secrets that the tool gets.
func (d *reader) secrets() []string {
	v := d.Fields.Get("secrets")
	if !v.IsNull() && v.Kind != value.List {
		d.Once(v, "secrets", "Field 'secrets' must be an array, got %s", fields.TypeName(v))
		return nil
	}
	names := d.List("secrets", v)
	for _, name := range names {
		if !isWord(name) {
			at := v.Items[slices.IndexFunc(v.Items, func(o *value.Value) bool { return o.String() == name })]
			d.Bad(at, "secrets", "the name of a secret is letters, digits, . _ -, at most 64: not %s",
				fields.Single(name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isWord reports whether a policy accepts s as the name of a secret, too.
func isWord(s string) bool { return portable.Spelled(s, portable.Letters+portable.Digits, "._-", 64) }

// constraints reads the versions of children that a tool accepts.
func (d *reader) constraints(v *value.Value) []Constraint {
	if v == nil {
		return nil
	}
	var list []Constraint
	for i := range v.Map {
		entry := &v.Map[i]
		path := "child_constraints." + fields.Clip(entry.Key)
		if err := portable.CheckID(entry.Key); err != nil {
			d.Add(entry.At, false, path, "Field '%s' is not about the id of a tool: %v", path, err)
			continue
		}
		if entry.Value.Kind != value.Map {
			d.Bad(entry.Value, path, "Field '%s' must be an object, got %s", path, fields.TypeName(entry.Value))
			continue
		}
		d.Unknown(path, entry.Value, "max_version", "min_version", "range")
		constraint := Constraint{Child: entry.Key}
		constraint.Min = d.bound(path+".min_version", entry.Value.Get("min_version"))
		constraint.Max = d.bound(path+".max_version", entry.Value.Get("max_version"))
		if constraint.Min != "" && constraint.Max != "" &&
			manifest.CompareVersions(constraint.Min, constraint.Max) > 0 {
			d.Bad(entry.Value.Get("max_version"), path+".max_version", "Field '%s.max_version' must be >= %s, got %s",
				path, constraint.Min, constraint.Max)
		}
		if r := entry.Value.Get("range"); !r.IsNull() {
			var err error
			if constraint.allowed, err = semver.Parse(r.String()); r.Kind != value.Text || err != nil {
				d.badRange(path+".range", r, err)
			}
			constraint.Range = r.Text // an invalid range allows nothing
		}
		list = append(list, constraint)
	}
	return list
}

func (d *reader) badRange(path string, v *value.Value, err error) {
	if v.Kind != value.Text {
		d.Bad(v, path, "Field '%s' must be a string (semver), got %s", path, fields.TypeName(v))
		return
	}
	d.Bad(v, path, "Field '%s': %v", path, err)
}

// bound returns a bound of versions, even an invalid one: nothing is compared with it, because the item is invalid.
func (d *reader) bound(path string, val *value.Value) string {
	switch {
	case val.IsNull():
		return ""
	case val.Kind != value.Text:
		d.Bad(val, path, "Field '%s' must be a string (semver), got %s", path, fields.TypeName(val))
		return ""
	case manifest.CheckVersion(val.Text) != nil:
		d.Bad(val, path, "Field '%s' must be semver format (X.Y.Z), got %s", path, fields.Single(val.Text))
		return ""
	}
	return val.Text
}

// Interface returns the schemas of a tool. Without an input schema, the input's is that of its configuration, which
// parameters override.
func (t *Tool) Interface() shape.Interface {
	input := cmp.Or(t.Input, t.ConfigSchema)
	return shape.Interface{Input: Plain(input), Output: Plain(t.Output), Error: Plain(t.Error)}
}

// Grants returns the grants that a tool asks for.
func (t *Tool) Grants() shape.Grants {
	grants := shape.Grants{Permissions: Canonical(t.Permissions), Limits: Plain(t.Limits), Risk: t.Risk.String(),
		Secrets: t.Secrets, Files: t.Files.grant()}
	switch {
	case t.Network.All:
		grants.Network = "all"
	case len(t.Network.Hosts) > 0:
		hosts := make([]any, len(t.Network.Hosts))
		for i, h := range t.Network.Hosts {
			hosts[i] = h
		}
		grants.Network = hosts
	}
	return grants
}
