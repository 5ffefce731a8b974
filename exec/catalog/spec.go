package catalog

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/secret"
)

// The transports.
const (
	Stdio = "stdio"
	HTTP  = "http"
)

// serverType is the type of the items of servers.
const serverType = "mcp_server"

// A Spec is a user's declaration of a server and its grants.
type Spec struct {
	Transport string
	Command   string // stdio: a program, by a name or a path
	Args      []string
	Env       map[string]string
	URL       string // http
	Headers   map[string]string
	Timeout   int // seconds; 0 for the runtime's
	Grants
	Risk        string // of the server, and of its tools that announce nothing else; "" for write
	Description string

	// Plugin is the id of the bundle of a plugin with whose files the server runs, and Cwd its directory; "" for no
	// plugin, and the project's directory.
	Plugin, Cwd string

	// Texts are entries of the configuration that the texts above name: characters that couldn't stand before a name.
	Texts map[string]string

	// Lib is a directory beside the item whose files the item's signature covers, and Packages a list of packages in
	// it; "" for none.
	Lib, Packages string

	// Python reports whether the server has the variable RYE_PYTHON with the machine's Python. A version manager's
	// script in PATH is none: which Python it starts depends on the directory.
	Python bool
}

// python is a command, and pythonConfig what sets its variable.
const python = "${RYE_PYTHON}"

var pythonConfig = map[string]any{"interpreter": map[string]any{"type": "system_binary", "binary": "python3",
	"var": "RYE_PYTHON"}}

// Grants are the grants of a server and of each of its tools.
type Grants struct {
	Read, Write []string // of the project
	Network     []string // hosts; "all" alone for every one
	Secrets     []string // by name
	Limits      any      // an object, as items have it; nil for none
}

// Patterns returns the grants as the policy's section grants has them. It says nothing of secrets.
func (g *Grants) Patterns() (all []string) {
	for _, path := range g.Read {
		all = append(all, "files:read:"+path)
	}
	for _, path := range g.Write {
		all = append(all, "files:write:"+path)
	}
	for _, host := range g.Network {
		if host == "all" {
			host = "*"
		}
		all = append(all, "network:"+host)
	}
	return all
}

// Check refuses a specification that no item could have.
func (s *Spec) Check() error {
	switch s.Transport {
	case Stdio:
		if s.Command == "" {
			return fault.New(fault.Validation, "no command: a server on stdio is a program").Try("rye help mcp add")
		}
		if s.URL != "" || len(s.Headers) > 0 {
			return fault.New(fault.Validation, "a server on stdio has no URL and no headers").Try("rye help mcp add")
		}
	case HTTP:
		u, err := url.Parse(s.URL)
		if err == nil && u.User != nil {
			// and a password, perhaps
			return fault.New(fault.Validation, "the URL contains a user: expected https://HOST/PATH").
				Try("rye help mcp add")
		}
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Fragment != "" {
			return fault.New(fault.Validation, "invalid URL %q: expected https://HOST/PATH, without user and fragment",
				s.URL).Try("rye help mcp add")
		}
		if s.Command != "" || len(s.Args) > 0 || len(s.Env) > 0 {
			return fault.New(fault.Validation, "a server by HTTP has no command and no variables").
				Try("rye help mcp add")
		}
	default:
		return fault.New(fault.Validation, "unknown transport %q", s.Transport).Because("expected stdio or http")
	}
	return nil
}

// AddHost adds the host of the URL to those that the server's tools may reach.
func (s *Spec) AddHost() {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || slices.Equal(s.Network, []string{"all"}) || slices.Contains(s.Network, u.Host) {
		return
	}
	s.Network = append(slices.Clone(s.Network), u.Host)
}

// AddScript lets the server read the file that its program runs: its first argument that isn't a flag, if that is a
// file of the project.
func (s *Spec) AddScript(project fs.FS) {
	at := slices.IndexFunc(s.Args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if at < 0 {
		return
	}
	script := path.Clean(s.Args[at])
	covers := func(dir string) bool {
		dir = path.Clean(dir)
		return dir == "." || dir == script || strings.HasPrefix(script, dir+"/")
	}
	if slices.ContainsFunc(s.Read, covers) || slices.ContainsFunc(s.Write, covers) {
		return
	}
	if info, err := fs.Stat(project, script); err == nil && info.Mode().IsRegular() {
		s.Read = append(slices.Clone(s.Read), script)
	}
}

// append appends the grants as fields of an item.
func (g *Grants) append(text []byte) []byte {
	files := map[string]any{}
	if len(g.Read) > 0 {
		files["read"] = g.Read
	}
	if len(g.Write) > 0 {
		files["write"] = g.Write
	}
	if len(files) > 0 {
		text = appendField(text, "files", files)
	}
	switch {
	case slices.Equal(g.Network, []string{"all"}):
		text = appendField(text, "network", "all")
	case len(g.Network) > 0:
		text = appendField(text, "network", g.Network)
	}
	if len(g.Secrets) > 0 {
		text = appendField(text, "secrets", g.Secrets)
	}
	if g.Limits != nil {
		text = appendField(text, "limits", g.Limits)
	}
	return text
}

// risk returns the risk of a tool by the server's hints. A tool that may write files is never read-only.
func (s *Spec) risk(d Definition) string {
	switch {
	case d.Hint("readOnlyHint") && len(s.Write) == 0:
		return "read"
	case d.Hint("destructiveHint") && !d.Hint("readOnlyHint"):
		return "destructive"
	case s.Risk == "read" && len(s.Write) > 0:
		return defaultRisk
	}
	return cmp.Or(s.Risk, defaultRisk)
}

// defaultRisk is the risk of servers that declare none.
const defaultRisk = "write"

// The texts that a Spec may have: a brace or a dollar sign that a name follows, which would be part of its template.
const (
	Brace  = "brace"
	Dollar = "dollar"
)

// projectDir is the directory in which a server starts that names no other one.
const projectDir = "{project_path}"

// File returns the file of the item of a server at a place, unsigned.
func (s *Spec) File(at Place) []byte {
	var text []byte
	add := func(name string, v any) { text = appendField(text, name, v) }
	add("version", "1.0.0")
	add("tool_type", serverType)
	add("executor_id", "rye/core/runtimes/mcp_"+s.Transport+"_runtime")
	add("category", at.dir())
	add("description", cmp.Or(s.Description, "An MCP server: calling it shows what it announces"))
	add("risk", cmp.Or(s.Risk, defaultRisk))
	text = s.Grants.append(text)
	if s.Plugin != "" {
		add("plugin", s.Plugin)
	}
	if s.Lib != "" {
		add("anchor", map[string]any{"lib": s.Lib})
	}
	if s.Packages != "" {
		add("packages", s.Packages)
	}
	if s.Python {
		add("env_config", pythonConfig)
	}
	config := anyMap(s.Texts)
	config["transport"] = s.Transport
	if s.Transport == Stdio {
		config["command"], config["cwd"] = s.Command, cmp.Or(s.Cwd, projectDir)
		if len(s.Args) > 0 {
			config["args"] = s.Args
		}
		if len(s.Env) > 0 {
			config["env"] = anyMap(s.Env)
		}
	} else {
		config["url"] = s.URL
		if len(s.Headers) > 0 {
			config["headers"] = anyMap(s.Headers)
		}
	}
	if s.Timeout > 0 {
		config["timeout"] = float64(s.Timeout)
	}
	add("config", config)
	add("input_schema", emptyObject)
	return text
}

// emptyObject is the schema of a call without parameters.
var emptyObject = map[string]any{"type": "object", "additionalProperties": false}

func anyMap(m map[string]string) map[string]any {
	out := map[string]any{}
	for name, v := range m {
		out[name] = v
	}
	return out
}

// SpecOf reads the specification of a server from its item.
func SpecOf(m *model.Model) (*Spec, error) {
	if t := m.Tool; t == nil || t.Type != serverType {
		return nil, fault.New(fault.Validation, "%s is not a server: its tool_type is not %s", m.Ref,
			serverType).On("ref", m.Ref.String())
	}
	return SpecOfProgram(m)
}

// SpecOfProgram reads from the item of any program what SpecOf reads from that of a server.
func SpecOfProgram(program *model.Model) (*Spec, error) {
	tool := program.Tool
	v, err := tool.Config.JSON()
	if err != nil {
		return nil, err
	}
	config, _ := v.(map[string]any)
	spec := &Spec{Description: tool.Description, Env: texts(config["env"]), Headers: texts(config["headers"])}
	spec.Transport, _ = config["transport"].(string)
	spec.Command, _ = config["command"].(string)
	spec.URL, _ = config["url"].(string)
	if spec.Cwd, _ = config["cwd"].(string); spec.Cwd == projectDir {
		spec.Cwd = ""
	}
	for _, name := range []string{Brace, Dollar} {
		if text, ok := config[name].(string); ok {
			if spec.Texts == nil {
				spec.Texts = map[string]string{}
			}
			spec.Texts[name] = text
		}
	}
	if risk := tool.Risk.String(); risk != defaultRisk {
		spec.Risk = risk
	}
	list, _ := config["args"].([]any)
	for _, arg := range list {
		spec.Args = append(spec.Args, fmt.Sprint(arg))
	}
	switch n := config["timeout"].(type) {
	case int64:
		spec.Timeout = int(n)
	case float64:
		spec.Timeout = int(n)
	}
	spec.Python = program.Fields.Get("env_config").Get("interpreter").Get("var").String() == "RYE_PYTHON"
	spec.Plugin, spec.Packages, spec.Lib = tool.Plugin, tool.Packages, program.Fields.Get("anchor").Get("lib").String()
	spec.Read, spec.Write = tool.Files.Read, tool.Files.Write
	spec.Secrets, spec.Network = tool.Secrets, tool.Network.Hosts
	if tool.Network.All {
		spec.Network = []string{"all"}
	}
	if limits := program.Fields.Get("limits"); !limits.IsNull() {
		if spec.Limits, err = limits.JSON(); err != nil {
			return nil, err
		}
	}
	return spec, nil
}

func texts(v any) map[string]string {
	m, _ := v.(map[string]any)
	if len(m) == 0 {
		return nil
	}
	out := map[string]string{}
	for name, v := range m {
		out[name] = fmt.Sprint(v)
	}
	return out
}

// An Executable is a field of a server that determines the program it runs, or the address it calls.
type Executable struct {
	Field string `json:"field"`
	Value string `json:"value"`
}

// Executables lists the executable fields of a server.
func (s *Spec) Executables() (all []Executable) {
	add := func(field, value string) {
		if value != "" {
			all = append(all, Executable{field, value})
		}
	}
	add("command", s.Command)
	for i, arg := range s.Args {
		all = append(all, Executable{fmt.Sprintf("args[%d]", i), arg})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		all = append(all, Executable{"env." + name, s.Env[name]})
	}
	add("cwd", s.Cwd)
	add("url", s.URL)
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		all = append(all, Executable{"headers." + name, s.Headers[name]})
	}
	return all
}

// AddSecrets grants secrets to the server: NAME, which a header may use as ${VARIABLE}, or NAME=VARIABLE, which the
// server's process has as that variable.
func (s *Spec) AddSecrets(list []string) error {
	for _, text := range list {
		name, as, named := strings.Cut(text, "=")
		variable, err := secret.Variable(name)
		if err != nil {
			return err
		}
		if !slices.Contains(s.Secrets, name) {
			s.Secrets = append(s.Secrets, name)
		}
		if !named {
			continue
		}
		if s.Transport != Stdio {
			return fault.New(fault.Validation, "--secret %s: a server by HTTP has no variables: use ${%s} in a header",
				text, variable).Try("rye help mcp add")
		}
		if err := env.Check(as, "x"); err != nil {
			return fault.New(fault.Validation, "--secret %s: %v", text, err)
		}
		if _, twice := s.Env[as]; twice {
			return fault.New(fault.Validation, "--secret %s: the variable %q is set already", text, as)
		}
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		s.Env[as] = "${" + variable + "}"
	}
	return nil
}
