package declared

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/manifest/jcs"
)

// A found is what was read of a test's text, and what was wrong with it.
type found struct {
	tool      *Tool
	directive *Directive
	problems  string
	invalid   bool
}

func read(t testing.TB, text string, decode func(*found, *fields.Reader)) found {
	t.Helper()
	v, problems := parse.YAML([]byte(text), value.Pos{Line: 1, Column: 1})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r := &fields.Report{At: value.Pos{Line: 1, Column: 1}}
	var f found
	decode(&f, &fields.Reader{Report: r, Fields: v})
	for _, p := range r.Sorted() {
		if p.Warning {
			f.problems += "warning: "
		}
		f.problems += p.Error() + "\n"
		f.invalid = f.invalid || !p.Warning
	}
	return f
}

func readTool(t testing.TB, text string) found {
	t.Helper()
	const fine = "version: 1.0.0\ntool_type: x\ncategory: ''\ndescription: d\n"
	return read(t, fine+text, func(f *found, r *fields.Reader) { f.tool = ReadTool(r) })
}

func readDirective(t testing.TB, text string) found {
	t.Helper()
	return read(t, "name: d\n"+text, func(f *found, r *fields.Reader) { f.directive = ReadDirective(r) })
}

func TestLimits(t *testing.T) {
	m := readTool(t,
		"executor_id: x\nlimits: {max_spend: '1.000000001', turns: 5, max_turns: '5', tokens: 1e3, duration_seconds: 0.25, depth: null, spend_currency: usd}\n")
	if m.invalid {
		t.Fatal(m.problems)
	}
	for name, want := range map[string]int64{"spend": 1000000001, "turns": 5, "tokens": 1000,
		"duration_seconds": 250000} {
		if got, ok := Limit(m.tool.Limits, name); got != want || !ok {
			t.Errorf("%s: got %d, %v", name, got, ok)
		}
	}
	for _, name := range []string{"depth", "spawns", "other"} {
		if got, ok := Limit(m.tool.Limits, name); ok {
			t.Errorf("%s: got %d", name, got)
		}
	}
	if _, ok := Limit(nil, "turns"); ok {
		t.Error("a limit of nothing")
	}
	for text, want := range map[string]string{
		"{turns: 5, max_turns: 6}":      "line 6, column 20: the limit turns is given twice: turns is 5, max_turns is 6\n",
		"{max_turns: x}":                "line 6, column 21: Field 'limits.max_turns' must be an integer, got 'x'\n",
		"{spend: [1]}":                  "line 6, column 17: Field 'limits.spend' must be a number, got list\n",
		"{spend: 1000000.000000001}":    "line 6, column 17: Field 'limits.spend' must be <= 1000000, got 1000000.000000001\n",
		"{turns: ''}":                   "line 6, column 17: Field 'limits.turns' must be an integer, got ''\n",
		"{processes: 0}":                "line 6, column 21: Field 'limits.processes' must be >= 1, got 0\n",
		"{cpu_seconds: 1.5}":            "line 6, column 23: Field 'limits.cpu_seconds' must be an integer, got 1.5\n",
		"{memory_mib: 16777217}":        "line 6, column 22: Field 'limits.memory_mib' must be <= 16777216, got 16777217\n",
		"{depth: -1}":                   "line 6, column 17: Field 'limits.depth' must be >= 0, got -1\n",
		"{memory_mb: 5}":                "line 6, column 10: unknown limit 'memory_mb'; did you mean \"memory_mib\"?\n",
		"{turn: 3}":                     "line 6, column 10: unknown limit 'turn'; did you mean \"turns\"?\n",
		"3":                             "line 6, column 9: Field 'limits' must be an object, got int\n",
		"{turns: 1e999}":                "line 6, column 17: Field 'limits.turns' is a number that is out of range: 1e999\n",
		"{duration_seconds: 0.1234567}": "line 6, column 28: Field 'limits.duration_seconds' must have at most 6 decimals, got 0.1234567\n",
	} {
		m := readTool(t, "executor_id: x\nlimits: "+text)
		if got := m.problems; got != want {
			t.Errorf("%s: got\n%swant\n%s", text, got, want)
		}
	}
	m = readTool(t,
		"executor_id: x\nlimits: {written_mib: 1, processes: 1000000, max_output_mib: '1048576', open_files: 2e1, memory_mib: 16777216, cpu_seconds: 315360000, depth: 0}\n")
	if got, want := m.problems+fmt.Sprint(Plain(m.tool.Limits)),
		"map[cpu_seconds:315360000 depth:0 memory_mib:16777216 open_files:20 output_mib:1048576 processes:1000000 written_mib:1]"; got != want {
		t.Errorf("got %s", got)
	}
	for _, rule := range toolLimits[:len(toolLimits)-len(commonLimits)] {
		if n, ok := Limit(m.tool.Limits, rule.name); !ok || n < 1 {
			t.Errorf("%s: got %d", rule.name, n)
		}
		if got, want := readDirective(t, "version: 1.0.0\nlimits: {"+rule.name+": 3}\n").problems,
			"line 3, column 10: unknown limit '"+rule.name+"'\n"; !strings.HasPrefix(got, want[:len(want)-1]) {
			t.Errorf("a directive's: %s", got)
		}
	}
	if m := readTool(t, "executor_id: x\nlimits: {}\n"); m.invalid || m.tool.Limits != nil ||
		m.tool.Grants().Limits != nil {
		t.Errorf("got %+v", m)
	}
}

func TestRisk(t *testing.T) {
	for text, want := range map[string]Risk{
		"":                                  Destructive,
		"pure: true":                        Read,
		"pure: false":                       Destructive,
		"effects: []":                       Destructive,
		"effects: [none]":                   Read,
		"effects: [':Network']":             Write,
		"effects: filesystem-read, process": Infra,
		"effects: [read, money]":            Money,
		"effects: [teleport]":               Destructive,
		"effects: {a: b}":                   Destructive,
		"effects: [pure]\npure: true":       Read,
		"risk: money":                       Money,
		"risk: read\neffects: [network]":    Read,
		"risk: 3":                           Destructive,
		"risk: reed":                        Destructive,
	} {
		m := readTool(t, "executor_id: null\n"+text+"\n")
		if m.tool.Risk != want || m.tool.Grants().Risk != want.String() {
			t.Errorf("%s: got %v", text, m.tool.Risk)
		}
	}
	if got := readTool(t, "executor_id: null\npure: true\nrisk: write\n").
		problems; got != "line 7, column 7: a tool that is pure has no other risk than read, this one has write\n" {
		t.Errorf("got %s", got)
	}
	if got := readTool(t, "executor_id: null\nrisk: read\neffects: [network]\n").
		problems; got != "warning: line 6, column 7: the risk is declared as read, the effects as write\n" {
		t.Errorf("got %s", got)
	}
	for text, want := range map[string]string{
		"risk: read":                   "warning: line 5, column 16: the risk is read, and files are written\n",
		"effects: [none]":              "warning: line 5, column 16: the risk is read, and files are written\n",
		"pure: true":                   "line 5, column 16: a tool that is pure writes no files\n",
		"pure: true\nrisk: read":       "line 5, column 16: a tool that is pure writes no files\n",
		"risk: write":                  "",
		"tags: [says nothing of risk]": "",
	} {
		if got := readTool(t, "files: {write: [docs]}\nexecutor_id: null\n"+text+"\n").problems; got != want {
			t.Errorf("%s: got %s", text, got)
		}
	}
	if got := readTool(t, "files: {read: [docs], write: []}\nexecutor_id: null\npure: true\n").problems; got != "" {
		t.Errorf("got %s", got)
	}
	if got := Risk(9).String(); got != "risk 9" {
		t.Errorf("got %s", got)
	}
}

func TestNetworkAndSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"none": "none", "all": "all", "[]": "none",
		"[b.example, a.example:443, '*.c.example', b.example]": "*.c.example, a.example:443, b.example",
		"some":   "line 6, column 10: Field 'network' must be none, all or a list of hosts, got 'some'\n",
		"{a: b}": "line 6, column 10: Field 'network' must be none, all or a list of hosts, got a dict\n",
		"['a.example:99999999', 'a..b', '-a', 3]": "line 6, column 11: Field 'network[0]' must be a host, as in api.example.com, \"*.example.com\" or \"example.com:443\", got 'a.example:99999999'\n" +
			"line 6, column 33: Field 'network[1]' must be a host, as in api.example.com, \"*.example.com\" or \"example.com:443\", got 'a..b'\n" +
			"line 6, column 41: Field 'network[2]' must be a host, as in api.example.com, \"*.example.com\" or \"example.com:443\", got '-a'\n" +
			"line 6, column 47: Field 'network[3]' must be a host, as in api.example.com, \"*.example.com\" or \"example.com:443\", got 3\n",
	} {
		m := readTool(t, "executor_id: null\nnetwork: "+text+"\n")
		got := m.tool.Network.String()
		if m.invalid {
			got = m.problems
		}
		if got != want {
			t.Errorf("%s: got %s", text, got)
		}
	}
	if got := readTool(t, "executor_id: null\npackages: [a]\n").
		problems; got != "line 6, column 11: Field 'packages' must be a string, got list\n" {
		t.Error(got)
	}
	if got := readTool(t, "executor_id: null\npackages: ../a\n").problems; !strings.HasPrefix(got,
		"line 6, column 11: Field 'packages' is no path from the tool's directory") {
		t.Error(got)
	}
	if m := readTool(t,
		"executor_id: null\npackages: lib/_requirements.txt\n"); m.tool.Packages != "lib/_requirements.txt" ||
		m.invalid {
		t.Errorf("got %q", m.tool.Packages)
	}
	for text, want := range map[string]string{
		"plugin: [a]":  "line 6, column 9: Field 'plugin' must be a string, got list",
		"plugin: ../a": "line 6, column 9: Field 'plugin' is not the id of a bundle",
	} {
		if got := readTool(t, "executor_id: null\n"+text+"\n").problems; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
	if m := readTool(t, "executor_id: null\nplugin: plugins/demo\n"); m.tool.Plugin != "plugins/demo" || m.invalid {
		t.Errorf("got %q, %s", m.tool.Plugin, m.problems)
	}
	if got := readTool(t, "executor_id: null\nsecrets: token\n").
		problems; got != "line 6, column 10: Field 'secrets' must be an array, got str\n" {
		t.Errorf("got %s", got)
	}
	if m := readTool(t, "executor_id: null\nsecrets: [b, a, b]\n"); fmt.Sprint(m.tool.Secrets) != "[a b]" ||
		m.invalid {
		t.Errorf("got %v", m.tool.Secrets)
	}
}

func TestFiles(t *testing.T) {
	for text, want := range map[string]string{
		"null":                    "[] [] null",
		"{}":                      "[] [] null",
		"{read: [], write: null}": "[] [] null",
		"{read: [.]}":             `["."] [] {"read":["."]}`,
		"{read: [b/c, ., a], write: [docs/api, a b, docs, docs-old, docs]}":             `["."] ["a b" "docs" "docs-old"] {"read":["."],"write":["a b","docs","docs-old"]}`,
		"{read: [.ai, rye.lock, .gitattributes], write: [., .ai/outputs/x, .aii, é/ü]}": `[".ai" ".gitattributes" "rye.lock"] ["."] {"read":[".ai",".gitattributes","rye.lock"],"write":["."]}`,
		"{write: [.ai/outputs, .ai/outputs/x, .gitignore, sub/rye.lock]}":               `[] [".ai/outputs" ".gitignore" "sub/rye.lock"] {"write":[".ai/outputs",".gitignore","sub/rye.lock"]}`,
		"all":       "line 6, column 8: Field 'files' must be an object, got str\n",
		"{read: .}": "line 6, column 15: Field 'files.read' must be an array, got str\n",
		"{red: []}": "line 6, column 9: Field 'files.red' is unknown; did you mean \"read\"?\n",
		"{read: [3, /a, a/../b, ./a, a/, '', 'a\\b', con, 'C:/x', ~/x]}": `line 6, column 16: Field 'files.read[0]' must be a string, got int
line 6, column 19: Field 'files.read[1]' is no path below the root of the project, as in docs, docs/api.md or ".": path "/a" is absolute, expected a relative path
line 6, column 23: Field 'files.read[2]' is no path below the root of the project, as in docs, docs/api.md or ".": path "a/../b": ".." is not a name
line 6, column 31: Field 'files.read[3]' is no path below the root of the project, as in docs, docs/api.md or ".": path "./a": "." is not a name
line 6, column 36: Field 'files.read[4]' is no path below the root of the project, as in docs, docs/api.md or ".": path "a/" has an empty segment
line 6, column 40: Field 'files.read[5]' is no path below the root of the project, as in docs, docs/api.md or ".": path "" is empty
line 6, column 44: Field 'files.read[6]' is no path below the root of the project, as in docs, docs/api.md or ".": path "a\\b" has '\\' in it, which some systems don't allow in a name
line 6, column 51: Field 'files.read[7]' is no path below the root of the project, as in docs, docs/api.md or ".": path "con" is a device on Windows
line 6, column 56: Field 'files.read[8]' is no path below the root of the project, as in docs, docs/api.md or ".": path "C:/x": "C:" has ':' in it, which some systems don't allow in a name
`,
		"{write: [.ai, .ai/tools, .ai/outputsx, .AI/outputs, .ai/Outputs, .Git, .git/config, Rye.lock, rye.yaml]}": `line 6, column 17: Field 'files.write[0]' is '.ai', and tools write nothing in .ai but .ai/outputs, nor .git, rye.lock and rye.yaml
line 6, column 22: Field 'files.write[1]' is '.ai/tools', and tools write nothing in .ai but .ai/outputs, nor .git, rye.lock and rye.yaml
line 6, column 33: Field 'files.write[2]' is '.ai/outputsx', and tools write nothing in .ai but .ai/outputs, nor .git, rye.lock and rye.yaml
line 6, column 47: Field 'files.write[3]' is '.AI/outputs', and tools write nothing in .ai but .ai/outputs, nor .git, rye.lock and rye.yaml
line 6, column 60: Field 'files.write[4]' is '.ai/Outputs', and tools write nothing in .ai but .ai/outputs, nor .git, rye.lock and rye.yaml
line 6, column 73: Field 'files.write[5]' is no path below the root of the project, as in docs, docs/api.md or ".": path ".Git" is the directory of a git repository
line 6, column 79: Field 'files.write[6]' is no path below the root of the project, as in docs, docs/api.md or ".": path ".git/config": ".git" is the directory of a git repository
line 6, column 92: Field 'files.write[7]' is 'Rye.lock', and tools write nothing in .ai but .ai/outputs, nor .git, rye.lock and rye.yaml
line 6, column 102: Field 'files.write[8]' is 'rye.yaml', and tools write nothing in .ai but .ai/outputs, nor .git, rye.lock and rye.yaml
`,
	} {
		m := readTool(t, "executor_id: null\nfiles: "+text+"\n")
		grant, err := jcs.Append(nil, m.tool.Grants().Files)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%q %q %s", m.tool.Files.Read, m.tool.Files.Write, grant)
		if m.invalid {
			got = m.problems
		}
		if got != want {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

func TestManyFiles(t *testing.T) {
	list := func(n int) string {
		paths := make([]string, n)
		for i := range paths {
			paths[i] = fmt.Sprintf("d%02d", i)
		}
		return "executor_id: null\nfiles: {read: [" + strings.Join(paths, ", ") + "]}\n"
	}
	if m := readTool(t, list(64)); m.invalid || len(m.tool.Files.Read) != 64 {
		t.Errorf("got %d paths, %s", len(m.tool.Files.Read), m.problems)
	}
	if m := readTool(t, list(65)); m.tool.Files.Read != nil ||
		m.problems != "line 6, column 15: Field 'files.read' must have at most 64 entries, got 65\n" {
		t.Errorf("got %d paths, %s", len(m.tool.Files.Read), m.problems)
	}
}

func TestConstraints(t *testing.T) {
	m := readTool(t, `executor_id: null
child_constraints:
  a/both: {min_version: 1.2.0, max_version: 2.0.0}
  a/range: {range: "^1.2"}
  a/none: {}
  a/wrong: {range: "one"}
`)
	of := map[string]Constraint{}
	for _, c := range m.tool.Constraints {
		of[c.Child] = c
	}
	for _, c := range []struct {
		child, version string
		want           bool
	}{
		{"a/both", "1.2.0", true}, {"a/both", "2.0.0", true}, {"a/both", "2.0.1", false},
		{"a/both", "1.2.0-rc.1", false}, {"a/both", "", false}, {"a/both", "1.5", false},
		{"a/range", "1.9.9", true}, {"a/range", "2.0.0", false}, {"a/none", "0.0.1", true}, {"a/none", "x", false},
		{"a/wrong", "1.0.0", false},
	} {
		if got := of[c.child].Allows(c.version); got != c.want {
			t.Errorf("%s %s: got %v", c.child, c.version, got)
		}
	}
	if strings.Count(m.problems, "\n") != 1 || !m.invalid {
		t.Error(m.problems)
	}
}

func TestTool(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"executor_id: null", ""},
		{"a: 1", "line 1, column 1: Missing required field: executor_id\n"},
		{"executor_id: ''", "line 5, column 14: Missing required field: executor_id\n"},
		{"executor_id: 3", "line 5, column 14: Field 'executor_id' must be a string, got int\n"},
		{"executor_id: a b",
			"line 5, column 14: Field 'executor_id' is not the id of a tool: path \"a b\" is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by \"/\"\n"},
		{"executor_id: x\nanswer: [main]", `line 6, column 9: Field 'answer' must be a string, got list
`},
		{"executor_id: x\nanswer: a.b", `line 6, column 9: Field 'answer' must be the name of a function, got 'a.b'
`},
		{"executor_id: x\nanswer: 1a", `line 6, column 9: Field 'answer' must be the name of a function, got '1a'
`},
		{"executor_id: x\nanchor: {enabled: 1, mode: x, root: w, markers_any: z, lib: [], cwd: {}, env_paths: [], q: 1}", `line 6, column 19: Field 'anchor.enabled' must be a boolean, got int
line 6, column 28: Field 'anchor.mode' must be one of ['auto', 'always', 'never'], got 'x'
line 6, column 37: Field 'anchor.root' must be one of ['tool_dir', 'tool_parent', 'project_path'], got 'w'
line 6, column 53: Field 'anchor.markers_any' must be an array, got str
line 6, column 61: Field 'anchor.lib' must be a string, got list
line 6, column 70: Field 'anchor.cwd' must be a string, got dict
line 6, column 85: Field 'anchor.env_paths' must be an object, got list
line 6, column 89: Field 'anchor.q' is unknown
`},
		{"executor_id: x\nanchor: {env_paths: {A: {prepend: [1], appendd: []}, B: 3}}", `line 6, column 36: Field 'anchor.env_paths.A.prepend[0]' must be a string, got int
line 6, column 40: Field 'anchor.env_paths.A.appendd' is unknown; did you mean "append"?
line 6, column 57: Field 'anchor.env_paths.B' must be an object, got int
`},
		{"executor_id: x\nverify_deps: {enabled: x, scope: all, recursive: 1, extensions: .py, exclude_dirs: [1]}", `line 6, column 24: Field 'verify_deps.enabled' must be a boolean, got str
line 6, column 34: Field 'verify_deps.scope' must be one of ['anchor', 'tool_dir', 'tool_siblings', 'tool_file'], got 'all'
line 6, column 50: Field 'verify_deps.recursive' must be a boolean, got int
line 6, column 65: Field 'verify_deps.extensions' must be an array, got str
line 6, column 85: Field 'verify_deps.exclude_dirs[0]' must be a string, got int
`},
		{"executor_id: x\nenv_config: {interpreter: {type: 1, var: [], fallback: 2}, env: {A: [1], B: 2}}", `line 6, column 34: Field 'env_config.interpreter.type' must be a string, got int
line 6, column 42: Field 'env_config.interpreter.var' must be a string, got list
line 6, column 56: Field 'env_config.interpreter.fallback' must be a string, got int
line 6, column 69: Field 'env_config.env.A' must be a string, got list
`},
		{"executor_id: x\nenv_config: {interpreter: x, env: w}",
			"line 6, column 27: Field 'env_config.interpreter' must be an object, got str\nline 6, column 35: Field 'env_config.env' must be an object, got str\n"},
		{"executor_id: x\nchild_constraints: {a: {range: 3, min_version: 1, max_version: []}, 'b c': {}, c: []}", `line 6, column 32: Field 'child_constraints.a.range' must be a string (semver), got int
line 6, column 48: Field 'child_constraints.a.min_version' must be a string (semver), got int
line 6, column 64: Field 'child_constraints.a.max_version' must be a string (semver), got list
line 6, column 69: Field 'child_constraints.b c' is not about the id of a tool: path "b c" is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by "/"
line 6, column 83: Field 'child_constraints.c' must be an object, got list
`},
		{"executor_id: x\npermissions: {a: b}", "line 6, column 14: Field 'permissions' must be an array, got dict\n"},
	} {
		if got := readTool(t, c.text); got.problems != c.want {
			t.Errorf("%s\ngot\n%swant\n%s", c.text, got.problems, c.want)
		}
	}
}

func TestSchemas(t *testing.T) {
	deep := strings.Repeat("{items: ", 40) + "{}" + strings.Repeat("}", 40)
	for text, want := range map[string]string{
		"{type: object, properties: {a: true, b: {type: [string, 'null']}}, required: [a], additionalProperties: false, $defs: {x: {}}}":             "",
		"{anyOf: [{type: integer, minimum: 1, maximum: 1}], enum: [1], items: [{}, {}], pattern: '^a', minLength: 0, uniqueItems: true, x-own: [1]}": "",
		"true":                                "Field 'input_schema' must be an object, got bool",
		"{type: []}":                          "Field 'input_schema.type' must name a type",
		"{type: strin}":                       "Field 'input_schema.type' must be one of ['string', 'integer', 'number', 'boolean', 'object', 'array', 'null'], got 'strin'; did you mean \"string\"?",
		"{type: [string, 3]}":                 "Field 'input_schema.type' must be one of ['string', 'integer', 'number', 'boolean', 'object', 'array', 'null'], got 3",
		"{properties: [a]}":                   "Field 'input_schema.properties' must be an object, got list",
		"{properties: {a: 3}}":                "Field 'input_schema.properties.a' must be a schema, got int",
		"{additionalProperties: 3}":           "Field 'input_schema.additionalProperties' must be a schema, got int",
		"{anyOf: {}}":                         "Field 'input_schema.anyOf' must be a list of schemas, got a dict",
		"{items: 3}":                          "Field 'input_schema.items' must be a schema, got int",
		"{enum: []}":                          "Field 'input_schema.enum' must be a list of values, got a list",
		"{required: a}":                       "Field 'input_schema.required' must be an array, got str",
		"{required: [1]}":                     "Field 'input_schema.required[0]' must be a string, got int",
		"{properties: {a: {required: true}}}": "warning: Field 'input_schema.properties.a.required' is not a list of names and means nothing",
		"{minimum: a}":                        "Field 'input_schema.minimum' must be a number, got 'a'",
		"{minLength: -1}":                     "Field 'input_schema.minLength' must be an integer from 0 on, got -1",
		"{maxItems: 1.5}":                     "Field 'input_schema.maxItems' must be an integer from 0 on, got 1.5",
		"{uniqueItems: 1}":                    "Field 'input_schema.uniqueItems' must be a boolean, got 1",
		"{pattern: 1}":                        "Field 'input_schema.pattern' must be a string, got 1",
		"{minimum: 2, maximum: 1.5}":          "Field 'input_schema.maximum' must be >= 2, got 1.5",
		"{minItems: 2, maxItems: 1}":          "Field 'input_schema.maxItems' must be >= 2, got 1",
		deep: "Field 'input_schema" + strings.Repeat(".items",
			32) + "' is deeper than 32 schemas in each other",
	} {
		got := readTool(t, "executor_id: null\ninput_schema: "+text+"\n").problems
		_, message, _ := strings.Cut(got, "Field")
		if message != "" {
			message = strings.TrimSuffix("Field"+message, "\n")
			if strings.HasPrefix(got, "warning") {
				message = "warning: " + message
			}
		}
		if message != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestDirective(t *testing.T) {
	d := readDirective(t, `version: 1.0.0
inputs:
  - {name: a, type: int, default: "5", required: "TRUE"}
  - {name: b, type: float, default: " 1.5 "}
  - {name: c, type: boolean, default: "true", required: "false"}
  - {name: d, type: list, default: "[1, 2]"}
  - {name: e, type: any, default: x}
  - {name: f, default: x, required: true}
  - {name: g, type: number, default: 3}
  - {name: h, type: dict, default: null}
outputs: [{name: z, type: str, description: Last}, {name: yy}]
permissions: [rye.search.*, "execute:tool:a/b", rye.search.*]
limits: {max_turns: 3}
hooks: [{id: x, params: ""}, {event: e, when: {path: a}}]
`)
	if d.problems != "" {
		t.Fatal(d.problems)
	}
	if got := fmt.Sprint(Plain(d.directive.Inputs[0].Default), Plain(d.directive.Inputs[1].Default),
		Plain(d.directive.Inputs[2].Default), Plain(d.directive.Inputs[3].Default), d.directive.Inputs[0].Required,
		d.directive.Inputs[2].Required, d.directive.Inputs[7].Default); got != "5 1.5 true [1 2] true false " {
		t.Errorf("got %s", got)
	}
	face := d.directive.Interface()
	if got := fmt.Sprint(
		face.Input); got !=
		"map[properties:map[a:map[default:5 type:integer] b:map[default:1.5 type:number] c:map[default:true type:boolean] d:map[default:[1 2] type:array] "+
			"e:map[default:x] f:map[default:x type:string] g:map[default:3 type:number] h:map[type:object]] required:[a f] type:object]" {
		t.Errorf("got %s", got)
	}
	if got := fmt.Sprint(face.Output); got !=
		"map[properties:map[yy:map[] z:map[description:Last type:string]] required:[yy z] type:object]" {
		t.Errorf("got %s", got)
	}
	if got := fmt.Sprint(d.directive.Grants()); got !=
		"{[execute:tool:a/b search:*:*] map[turns:3]   [] <nil> <nil>}" {
		t.Errorf("got %s", got)
	}
	if face := readDirective(t, "version: 1.0.0").directive.Interface(); face.Input != nil || face.Output != nil {
		t.Errorf("got %+v", face)
	}
	for _, c := range []struct{ text, want string }{
		{"inputs: x", "line 2, column 9: Field 'inputs' must be an array, got str\n"},
		{"inputs: [x]", "line 2, column 10: Field 'inputs[0]' must be an object\n"},
		{"inputs: [{name: 3}]", "line 2, column 17: Field 'inputs[0].name' must be a string, got int\n"},
		{"inputs: [{name: a b}]",
			"line 2, column 17: Field 'inputs[0].name' must be a letter or underscore, then letters, digits, _ . -, got 'a b'\n"},
		{"inputs: [{name: ''}]", "line 2, column 17: Field 'inputs[0]' missing required key 'name'\n"},
		{"inputs: [{name: a, required: 3}]",
			"line 2, column 30: Field 'inputs[0].required' must be a boolean, got int\n"},
		{"inputs: [{name: a, required: maybe}]",
			"line 2, column 30: Field 'inputs[0].required' must be a boolean, got str\n"},
		{"inputs: [{name: a, type: integer, default: 1e99}]",
			"line 2, column 44: Field 'inputs[0].default' must be of the type integer, got 1e99\n"},
		{"inputs: [{name: a, type: integer, default: '1e99'}]",
			"line 2, column 44: Field 'inputs[0].default' must be of the type integer, got '1e99'\n"},
		{"inputs: [{name: a, type: object, default: '{a: ['}]",
			"line 2, column 43: Field 'inputs[0].default' must be of the type object, got '{a: ['\n"},
		{"inputs: [{name: a, default: 3}]",
			"line 2, column 29: Field 'inputs[0].default' must be of the type string, got 3\n"},
		{"inputs: [{name: a, type: 3}]",
			"line 2, column 26: Field 'inputs[0].type' must be one of string, integer, number, boolean, object, array, any, got 3\n"},
		{"inputs: [{name: a}, {name: a}]", "line 2, column 21: the input 'a' is declared twice\n"},
		{"outputs: [{name: a}, {name: a, type: strng}, {}]", "line 2, column 22: the output 'a' is declared twice\n" +
			"line 2, column 38: Field 'outputs[1].type' must be one of string, integer, number, boolean, object, array, any, got 'strng'; did you mean \"string\"?\n" +
			"line 2, column 46: Field 'outputs[2]' missing required key 'name'\n"},
		{"hooks: [{when: 3, event: [x], params: [], inputs: 3}]",
			"line 2, column 9: Field 'hooks[0]' missing required key 'event' (or 'id')\nline 2, column 16: Field 'hooks[0].when' must be a string or an object, got int\n" +
				"line 2, column 26: Field 'hooks[0].event' must be a string, got list\nline 2, column 39: Field 'hooks[0].params' must be an object, got list\nline 2, column 51: Field 'hooks[0].inputs' must be an object, got int\n"},
		{"hooks: [" + strings.Repeat("{id: x}, ", 501) + "]",
			"line 2, column 8: Field 'hooks' has 501 entries, more than 500\n"},
		{"permissions: [" + strings.Repeat("a, ", 501) + "]",
			"line 2, column 14: Field 'permissions' has 501 entries, more than 256\n"},
		{"tools: a", "line 2, column 8: Field 'tools' must be an array, got str\n"},
		{"tools: [3, a/*, '', a b, a, a]", "line 2, column 9: Field 'tools[0]' must be a string, got int\n" +
			"line 2, column 12: Field 'tools[1]' must be the id of a tool, got 'a/*'\nline 2, column 17: Field 'tools[2]' must be the id of a tool, got ''\n" +
			"line 2, column 21: Field 'tools[3]' must be the id of a tool, got 'a b'\nline 2, column 29: the tool 'a' is offered twice\n"},
		{"tools: [" + strings.Repeat("a, ", 101) + "]",
			"line 2, column 8: Field 'tools' has 101 entries, more than 100\n"},
		{"tools: [a/b, c]\npermissions: [rye.execute.tool.a.*]",
			"warning: line 2, column 14: the model can't call c: no permission covers execute:tool:c\n"},
		{"model: fast", "line 2, column 8: Field 'model' must be an object, got str\n"},
		{"limits: {spend_currency: EUR}",
			"line 2, column 26: Field 'limits.spend_currency' must be one of ['USD'], got 'EUR'\n"},
	} {
		if got := readDirective(t, c.text); got.problems != c.want {
			t.Errorf("%s\ngot\n%swant\n%s", c.text, got.problems, c.want)
		}
	}
}

func TestExamples(t *testing.T) {
	m := readTool(t, `executor_id: x
examples:
  - {name: all, params: {a: [1, null]}, files: {a/b.txt: x}, result: null, error: TIMEOUT, exit: 0, expect_files: {c: "", d: null}}
  - {name: status, exit: 3}
  - {name: plain}
`)
	if m.problems != "" {
		t.Fatal(m.problems)
	}
	list := m.tool.Examples
	if len(list) != 3 {
		t.Fatalf("got %+v", list)
	}
	for _, e := range list {
		if e.Wrong != nil {
			t.Errorf("%s: %v", e.Name, e.Wrong)
		}
	}
	all := list[0]
	if got := fmt.Sprintf("%v %v %v %v %s %d %d %q %v", all.Params, all.Files, all.Result, all.Gives, all.Error,
		all.Exit, len(all.After), *all.After["c"], all.After["d"] == nil); got !=
		"map[a:[1 <nil>]] map[a/b.txt:x] <nil> true TIMEOUT 0 2 \"\" true" {
		t.Errorf("got %s", got)
	}
	if e := list[1]; e.Exit != 3 || e.Error != "EXECUTION_FAILED" || e.Gives {
		t.Errorf("got %+v", e)
	}
	if e := list[2]; e.Exit != -1 || e.Error != "" || e.Gives || e.After != nil {
		t.Errorf("got %+v", e)
	}
	if got := readTool(t, "executor_id: x\nexamples: null\n").tool.Examples; got != nil {
		t.Errorf("got %+v", got)
	}
}

func TestExamplesWrong(t *testing.T) {
	many := func(n int, of string) string { return strings.TrimSuffix(strings.Repeat(of+", ", n), ", ") }
	files := ""
	for i := range 257 {
		files += fmt.Sprintf("f%d: x, ", i)
	}
	for text, want := range map[string]string{
		"3":                                 "examples: Field 'examples' must be an array, got int",
		"[" + many(257, "{name: a}") + "]":  "examples: Field 'examples' must have at most 256 entries, got 257",
		"[x]":                               "examples[0]: Field 'examples[0]' must be an object, got str",
		"[{}]":                              "examples[0].name: Missing required field: examples[0].name",
		"[{name: ''}]":                      "examples[0].name: Missing required field: examples[0].name",
		"[{name: 1}]":                       "examples[0].name: Field 'examples[0].name' must be a string, got int",
		"[{name: a, paramz: {}}]":           "examples[0].paramz: Field 'examples[0].paramz' is unknown; did you mean \"params\"?",
		"[{name: a, params: []}]":           "examples[0].params: Field 'examples[0].params' must be an object, got list",
		"[{name: a, error: 1}]":             "examples[0].error: Field 'examples[0].error' must be the code of an error, got int",
		"[{name: a, error: timeout}]":       "examples[0].error: Field 'examples[0].error' must be the code of an error, as in EXECUTION_FAILED, got 'timeout'",
		"[{name: a, error: TIMEOUTS}]":      "examples[0].error: Field 'examples[0].error' is unknown: no error has the code 'TIMEOUTS'; did you mean \"TIMEOUT\"?",
		"[{name: a, error: _A}]":            "examples[0].error: Field 'examples[0].error' must be the code of an error, as in EXECUTION_FAILED, got '_A'",
		"[{name: a, exit: x}]":              "examples[0].exit: Field 'examples[0].exit' must be an integer, got str",
		"[{name: a, exit: 256}]":            "examples[0].exit: Field 'examples[0].exit' must be from 0 to 255, got 256",
		"[{name: a, files: x}]":             "examples[0].files: Field 'examples[0].files' must be an object, got str",
		"[{name: a, files: {a: null}}]":     "examples[0].files.a: Field 'examples[0].files.a' must be a string, got NoneType",
		"[{name: a, expect_files: {a: 1}}]": "examples[0].expect_files.a: Field 'examples[0].expect_files.a' must be a string, got int",
		"[{name: a, files: {../a: x}}]":     "examples[0].files.../a: Field 'examples[0].files.../a' is no path below the root of the project, as in docs/api.md: ",
		"[{name: a, files: {" + files +
			"}}]": "examples[0].files: Field 'examples[0].files' must have at most 256 entries, got 257",
		"[{name: a}, {name: a}]":               "examples[1].name: two examples have the name 'a'",
		"[{name: a, exit: 999, error: wrong}]": "examples[0].error: ",
	} {
		m := readTool(t, "executor_id: x\nexamples: "+text+"\n")
		var wrong *value.Problem
		for _, e := range m.tool.Examples {
			if wrong == nil {
				wrong = e.Wrong
			}
		}
		switch {
		case m.invalid || !strings.HasPrefix(m.problems, "warning: "):
			t.Errorf("%s: got\n%s", text, m.problems)
		case wrong == nil || !wrong.Warning || wrong.At.Line == 0 ||
			!strings.HasPrefix(wrong.Field+": "+wrong.Message, want):
			t.Errorf("%s: got %+v, want %s", text, wrong, want)
		}
	}
}
