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
	Permissions []capability.Capability
	Limits      *value.Value // normalized, see Limit; nil without limits
	Network     Network
	Files       Files
	// the tool's list of registry packages: a path from its directory, or ""
	Packages string
	Pure     bool
	Secrets  []string // names
	Tags     []string
}

// A Risk is the worst effect of a call. Risks are ordered.
type Risk uint8

// The risks.
const (
	Read Risk = iota
	Write
	Infra
	Money
	Destructive
)

var riskNames = []string{"read", "write", "infra", "money", "destructive"}

// String returns the name of a risk.
func (r Risk) String() string {
	if int(r) < len(riskNames) {
		return riskNames[r]
	}
	return fmt.Sprintf("risk %d", uint8(r))
}

// ParseRisk parses the name of a risk.
func ParseRisk(name string) (Risk, bool) {
	i := slices.Index(riskNames, name)
	return Risk(max(i, 0)), i >= 0
}

// effectRisk returns the risk of an effect. Unknown effects have the highest.
func effectRisk(effect string) Risk {
	word := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(effect)), ":")
	if r, ok := ParseRisk(word); ok {
		return r
	}
	switch word {
	case "none", "pure", "compute", "filesystem-read":
		return Read
	case "filesystem", "filesystem-write", "network", "http", "io":
		return Write
	case "system", "process":
		return Infra
	}
	return Destructive
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
	d := &reader{r}
	t := &Tool{
		Name: d.Text("name"), Version: d.Version(), Description: d.Text("description"), Category: d.Text("category"),
		Type:   d.Text("tool_type"),
		Config: d.Object("config"), ConfigSchema: d.schema("config_schema"), EnvConfig: d.Object("env_config"),
		Anchor: d.anchor(), ChildConstraints: d.Object("child_constraints"),
		Input: d.schema("input_schema"), Output: d.schema("output_schema"), Error: d.schema("error_schema"),
		Answer: d.answer(), Examples: d.examples(), Inputs: d.List("inputs", d.Fields.Get("inputs")),
		Outputs:     d.List("outputs", d.Fields.Get("outputs")),
		Permissions: d.permissions(), Limits: d.limits(toolLimits), Network: d.network(), Files: d.files(),
		Packages: d.packages(),
		Pure:     d.Bool("pure", d.Fields.Get("pure")),
		Secrets:  d.secrets(), Tags: d.Words("tags"),
	}
	d.executor(t)
	d.envConfig(t.EnvConfig)
	d.verifyDeps()
	t.Constraints = d.constraints(t.ChildConstraints)
	t.Risk = d.risk(t.Pure)
	d.writes(t)
	return t
}

// executor reads the executor of the tool.
func (d *reader) executor(t *Tool) {
	const name = "executor_id"
	v := d.Fields.Get(name)
	switch {
	case v == nil:
		if !d.Has("") { // otherwise the file is malformed, and may have it
			d.Once(d.Fields, name, "Missing required field: %s", name)
		}
	case v.Kind == value.Null:
		t.Primitive = true
	case v.Kind != value.Text:
		d.Once(v, name, "Field '%s' must be a string, got %s", name, fields.TypeName(v))
	case v.Text == "":
		d.Once(v, name, "Missing required field: %s", name)
	default:
		if err := portable.CheckID(v.Text); err != nil {
			d.Once(v, name, "Field '%s' is not the id of a tool: %v", name, err)
			return
		}
		t.Executor = v.Text
	}
}

// risk returns the declared risk, or else that of the worst declared effect. A tool without both has the highest.
func (d *reader) risk(pure bool) Risk {
	effects, worst := d.Words("effects"), Read
	for _, e := range effects {
		worst = max(worst, effectRisk(e))
	}
	v := d.Fields.Get("risk")
	declared, ok := ParseRisk(v.String())
	switch {
	case v.IsNull() && d.Fields.Get("effects").IsNull() && pure:
		return Read
	case v.IsNull() && (len(effects) == 0 || d.Has("effects")):
		return Destructive
	case v.IsNull():
		declared = worst
	case v.Kind != value.Text:
		d.Once(v, "risk", "Field 'risk' must be a string, got %s", fields.TypeName(v))
		return Destructive
	case !ok:
		d.Once(v, "risk", "Field 'risk' must be one of ['read', 'write', 'infra', 'money', 'destructive'], got %s%s",
			fields.Show(v), fields.Suggest(v.Text, riskNames))
		return Destructive
	case declared < worst:
		d.Warn(v, "risk", "the risk is declared as %s, the effects as %s", declared, worst)
	}
	if pure && declared > Read {
		d.Bad(fields.OrElse(v, d.Fields.Get("pure")), "pure",
			"a tool that is pure has no other risk than read, this one has %s", declared)
	}
	return declared
}

// network reads none, all, or a list of hosts.
func (d *reader) network() Network {
	v := d.Fields.Get("network")
	switch {
	case v.IsNull() || v.String() == "none":
		return Network{}
	case v.String() == "all":
		return Network{All: true}
	case v.Kind != value.List:
		d.Once(v, "network", "Field 'network' must be none, all or a list of hosts, got %s", fields.Show(v))
		return Network{}
	}
	var n Network
	for i, item := range v.Items {
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
	v := d.Fields.Get("packages")
	switch {
	case v.IsNull():
		return ""
	case v.Kind != value.Text:
		d.Once(v, "packages", "Field 'packages' must be a string, got %s", fields.TypeName(v))
		return ""
	}
	if err := portable.Check(v.Text); err != nil {
		d.Bad(v, "packages", "Field 'packages' is no path from the tool's directory, as in _requirements.txt: %v", err)
		return ""
	}
	return v.Text
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
		e := &v.Map[i]
		path := "child_constraints." + fields.Clip(e.Key)
		if err := portable.CheckID(e.Key); err != nil {
			d.Add(e.At, false, path, "Field '%s' is not about the id of a tool: %v", path, err)
			continue
		}
		if e.Value.Kind != value.Map {
			d.Bad(e.Value, path, "Field '%s' must be an object, got %s", path, fields.TypeName(e.Value))
			continue
		}
		d.Unknown(path, e.Value, "max_version", "min_version", "range")
		c := Constraint{Child: e.Key}
		c.Min = d.bound(path+".min_version", e.Value.Get("min_version"))
		c.Max = d.bound(path+".max_version", e.Value.Get("max_version"))
		if c.Min != "" && c.Max != "" && manifest.CompareVersions(c.Min, c.Max) > 0 {
			d.Bad(e.Value.Get("max_version"), path+".max_version", "Field '%s.max_version' must be >= %s, got %s",
				path, c.Min, c.Max)
		}
		if r := e.Value.Get("range"); !r.IsNull() {
			var err error
			if c.allowed, err = semver.Parse(r.String()); r.Kind != value.Text || err != nil {
				d.badRange(path+".range", r, err)
			}
			c.Range = r.Text // an invalid range allows nothing
		}
		list = append(list, c)
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
func (d *reader) bound(path string, v *value.Value) string {
	switch {
	case v.IsNull():
		return ""
	case v.Kind != value.Text:
		d.Bad(v, path, "Field '%s' must be a string (semver), got %s", path, fields.TypeName(v))
		return ""
	case manifest.CheckVersion(v.Text) != nil:
		d.Bad(v, path, "Field '%s' must be semver format (X.Y.Z), got %s", path, fields.Single(v.Text))
		return ""
	}
	return v.Text
}

// Interface returns the schemas of a tool. Without an input schema, the input's is that of its configuration, which
// parameters override.
func (t *Tool) Interface() shape.Interface {
	input := cmp.Or(t.Input, t.ConfigSchema)
	return shape.Interface{Input: Plain(input), Output: Plain(t.Output), Error: Plain(t.Error)}
}

// Grants returns the grants that a tool asks for.
func (t *Tool) Grants() shape.Grants {
	g := shape.Grants{Permissions: Canonical(t.Permissions), Limits: Plain(t.Limits), Risk: t.Risk.String(),
		Secrets: t.Secrets, Files: t.Files.grant()}
	switch {
	case t.Network.All:
		g.Network = "all"
	case len(t.Network.Hosts) > 0:
		hosts := make([]any, len(t.Network.Hosts))
		for i, h := range t.Network.Hosts {
			hosts[i] = h
		}
		g.Network = hosts
	}
	return g
}
