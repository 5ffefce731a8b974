package model

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/capability"
)

const head = "version: 1.0.0\ntool_type: extractor\nexecutor_id: null\n"

func TestExtractorProblems(t *testing.T) {
	const added = head + "directory: prompts\nextensions: [.md]\nparser: markdown_frontmatter\n"
	for _, c := range []struct{ id, text, want string }{
		{"x/prompt_extractor", "", `line 1, column 1: Field 'tool_type' must be one of ['extractor'], got None
line 1, column 1: the kind 'prompt' needs a directory: it isn't one of the kernel's
line 1, column 1: Missing required field: extensions
`},
		{"x/prompt_extractor", added, ""},
		{"x/prompt_extractor", added + "kind: recipe\n", ""},
		{"x/Prompt_extractor", added,
			"line 1, column 1: \"Prompt\" is not a kind: expected a lower-case letter, then a-z 0-9 -, at most 32\n"},
		{"x/prompt_extractor", added + "kind: bundle\n",
			"line 7, column 7: \"bundle\" is what a document is called: no item is of that kind\n"},
		{"x/prompt_extractor", added + "kind: 3\n", "line 7, column 7: Field 'kind' must be a string, got int\n"},
		{"x/prompt_extractor", strings.Replace(added, "extractor\n", "runtime\n", 1),
			"line 2, column 12: Field 'tool_type' must be one of ['extractor'], got 'runtime'\n"},
		{"x/prompt_extractor", strings.Replace(added, "null", "rye/x", 1),
			"line 3, column 14: an extractor isn't run: Field 'executor_id' must be null, got 'rye/x'\n"},
		{"x/prompt_extractor", added + "directry: x\nq: 1\n",
			"line 7, column 1: an extractor has no field 'directry'; did you mean \"directory\"?\nline 8, column 1: an extractor has no field 'q'\n"},

		// directories
		{"x/prompt_extractor", strings.Replace(added, "prompts", "tools", 1),
			"line 4, column 12: 'tools' can't be the directory of a kind: it is that of tool\n"},
		{"x/prompt_extractor", strings.Replace(added, "prompts", "Knowledge", 1),
			"line 4, column 12: 'Knowledge' can't be the directory of a kind: it is that of knowledge\n"},
		{"x/prompt_extractor", strings.Replace(added, "prompts", "KEYS", 1),
			"line 4, column 12: 'KEYS' can't be the directory of a kind: it is reserved\n"},
		{"x/prompt_extractor", strings.Replace(added, "prompts", "vendor", 1),
			"line 4, column 12: 'vendor' can't be the directory of a kind: it is reserved\n"},
		{"x/prompt_extractor", strings.Replace(added, "prompts", "a/b", 1),
			"line 4, column 12: 'a/b' can't be the directory of a kind: expected one name of letters, digits, . _ -\n"},
		{"x/prompt_extractor", strings.Replace(added, "prompts", "..", 1),
			"line 4, column 12: '..' can't be the directory of a kind: what begins with \"_\" or \".\" holds no items\n"},
		{"x/prompt_extractor", strings.Replace(added, "prompts", "aux", 1),
			"line 4, column 12: 'aux' can't be the directory of a kind: expected one name of letters, digits, . _ -\n"},
		{"x/prompt_extractor", strings.Replace(added, "prompts", "[x]", 1),
			"line 4, column 12: Field 'directory' must be a string, got list\n"},
		{"x/tool_extractor", head + "directory: prompts\nextensions: [.py]\n",
			"warning: line 1, column 1: the extractor demands nothing of a tool: the schema that is built in holds\nline 4, column 12: the directory of tool is tools, not 'prompts'\n"},
		{"x/tool_extractor", head +
			"directory: tools\nextensions: [.py]\nvalidation_schema: {fields: {name: {type: string}}}\n", ""},
		{"x/tool_extractor", head + "extensions: [.py]\n",
			"warning: line 1, column 1: the extractor demands nothing of a tool: the schema that is built in holds\n"},

		// extensions, comments
		{"x/prompt_extractor", strings.Replace(added, "[.md]", "[.md, md, .MD, '.', .json, .md, 3]", 1), `line 5, column 19: Field 'extensions[1]' must be an extension, as in .md: a dot, then lower-case letters and digits, at most 16, got 'md'
line 5, column 23: Field 'extensions[2]' must be an extension, as in .md: a dot, then lower-case letters and digits, at most 16, got '.MD'
line 5, column 28: Field 'extensions[3]' must be an extension, as in .md: a dot, then lower-case letters and digits, at most 16, got '.'
warning: line 5, column 33: files with .json are not items: they are left out
warning: line 5, column 40: the extension .md is listed twice
line 5, column 45: Field 'extensions[6]' must be a string, got int
`},
		{"x/prompt_extractor", strings.Replace(added, "[.md]", "[.json]", 1),
			"line 5, column 13: no extension is left\nwarning: line 5, column 14: files with .json are not items: they are left out\n"},
		{"x/prompt_extractor", strings.Replace(added, "[.md]", "[]", 1),
			"line 5, column 13: Missing required field: extensions\n"},
		{"x/prompt_extractor", strings.Replace(added, "[.md]", ".md", 1),
			"line 5, column 13: Field 'extensions' must be an array, got str\n"},
		{"x/prompt_extractor", strings.Replace(added, "[.md]", "["+strings.Repeat(".a,", 51)+"]", 1),
			"line 5, column 13: Field 'extensions' has 51 entries, more than 50\n"},
		{"x/prompt_extractor", strings.Replace(added, "[.md]", "[.md, .foo]", 1),
			"warning: line 1, column 1: files with .foo can't be signed: say their comments in comment\n"},
		{"x/prompt_extractor", strings.Replace(added, "[.md]", "[.md, .foo]", 1) + "comment: {.foo: '%', .md: '#', .bar: '#'}\n", `line 7, column 17: Field 'comment..foo' must be one of ['#', '//', '<!--', '--'], got '%'
line 7, column 27: how comments stand in files with .md can't be changed
line 7, column 32: the extension '.bar' is not listed in extensions
`},
		{"x/prompt_extractor", strings.Replace(added, "[.md]", "[.md, .foo]", 1) + "signature_format: {prefix: ';', after: true, after_shebang: 1, suffix: [x]}\n", `line 7, column 28: Field 'signature_format.prefix' must be one of ['#', '//', '<!--', '--'], got ';'
line 7, column 33: Field 'signature_format.after' is unknown
line 7, column 61: Field 'signature_format.after_shebang' must be a boolean, got int
line 7, column 72: Field 'signature_format.suffix' must be a string, got list
`},
		{"x/prompt_extractor", strings.Replace(added, "[.md]", "[.md, .foo]",
			1) + "signature_format: {prefix: '//'}\n", ""},

		// parsers
		{"x/prompt_extractor", strings.Replace(added, "markdown_frontmatter", "markdown_fm", 1),
			"line 6, column 9: Field 'parser' must be one of ['comment_header', 'markdown_frontmatter', 'markdown_xml', 'python_ast', 'yaml'] or a pattern, got 'markdown_fm'; did you mean \"markdown_xml\"?\n"},
		{"x/prompt_extractor", strings.Replace(added, "markdown_frontmatter", "yml", 1),
			"line 6, column 9: Field 'parser' must be one of ['comment_header', 'markdown_frontmatter', 'markdown_xml', 'python_ast', 'yaml'] or a pattern, got 'yml'; did you mean \"yaml\"?\n"},
		{"x/prompt_extractor", strings.Replace(added, "parser: markdown_frontmatter\n", "", 1),
			"line 1, column 1: files with .md need a parser: one of comment_header, markdown_frontmatter, markdown_xml, python_ast, yaml, or a pattern\n"},
		{"x/prompt_extractor", strings.Replace(added, "markdown_frontmatter", "{.txt: yaml}", 1),
			"line 6, column 9: files with .md need a parser: one of comment_header, markdown_frontmatter, markdown_xml, python_ast, yaml, or a pattern\nline 6, column 10: the extension '.txt' is not listed in extensions\n"},
		{"x/prompt_extractor", strings.Replace(added, "markdown_frontmatter", "[yaml]", 1),
			"line 6, column 9: Field 'parser' must be one of ['comment_header', 'markdown_frontmatter', 'markdown_xml', 'python_ast', 'yaml'] or a pattern, got a list\n"},
		{"x/tool_extractor", head +
			"extensions: [.py, .sh]\nparser: {.py: comment_header}\nvalidation_schema: {fields: {name: {type: string}}}\n",
			"line 5, column 15: files with .py are read by python_ast: that can't be changed\n"},
		{"x/tool_extractor", head +
			"extensions: [.txt]\ncomment: {.txt: '#'}\nparser: {pattern: {fields: {executor_id: '^# (.*)$'}}}\nvalidation_schema: {fields: {name: {type: string}}}\n",
			"line 6, column 9: the fields of a tool aren't found by patterns\n"},
		{"x/prompt_extractor", strings.Replace(added, "markdown_frontmatter",
			"{pattern: {fields: {risk: '^# (.*)$', permissions: '^(.*)$'}}}", 1),
			"line 6, column 29: no pattern may give the field 'risk'\nline 6, column 47: no pattern may give the field 'permissions'\n"},

		// rules
		{"x/tool_extractor", head + "extensions: [.py]\nextraction_rules:\n  executor_id: {type: path, key: runner}\n  permissions: {type: path, key: __may__}\n  risk: {type: filename}\n  summary: {type: path, key: __summary__}\n  network: {key: __network__}\n  secrets: {type: path}\n  limits: 3\n  pure: {type: env, key: x, kay: 3}\nvalidation_schema: {fields: {name: {type: string}}}\n", `line 6, column 3: no rule may say where the field 'executor_id' comes from
line 7, column 3: no rule may say where the field 'permissions' comes from
line 8, column 3: no rule may say where the field 'risk' comes from
line 11, column 12: Field 'extraction_rules.secrets' missing required key 'key'
line 12, column 11: Field 'extraction_rules.limits' must be an object, got int
line 13, column 3: no rule may say where the field 'pure' comes from
line 13, column 16: Field 'extraction_rules.pure.type' must be one of ['path', 'filename'], got 'env'
line 13, column 29: Field 'extraction_rules.pure.kay' is unknown; did you mean "key"?
`},
		{"x/knowledge_extractor", head + "extensions: [.md]\nextraction_rules:\n  title: {type: path, key: heading}\n  id: {type: filename}\n  entry_type: {type: filename}\nvalidation_schema: {fields: {id: {type: string}}}\n", `line 6, column 3: no rule may say where the field 'title' comes from
line 8, column 3: no rule may say where the field 'entry_type' comes from
`},

		// weights, schema
		{"x/prompt_extractor", added + "search_fields: {title: -1, name: x, description: 1001, content: 0.0000001, tags: 1e999}\n", `line 7, column 24: Field 'search_fields.title' must be a number from 0 to 1000 with at most 6 decimals, got -1
line 7, column 34: Field 'search_fields.name' must be a number, got str
line 7, column 50: Field 'search_fields.description' must be a number from 0 to 1000 with at most 6 decimals, got 1001
line 7, column 65: Field 'search_fields.content' must be a number from 0 to 1000 with at most 6 decimals, got 0.0000001
line 7, column 82: Field 'search_fields.tags' must be a number from 0 to 1000 with at most 6 decimals, got 1e999
`},
		{"x/prompt_extractor", added + "validation_schema: {field: {}, fields: []}\n",
			"line 7, column 21: Field 'validation_schema.field' is unknown; did you mean \"fields\"?\nline 7, column 40: Field 'validation_schema.fields' must be an object, got list\n"},
		{"x/prompt_extractor", added + `validation_schema:
  fields:
    a: {type: strng, require: true}
    b: string
    c: {type: string, required: yes, enum: [], format: kebab}
    d: {type: integer, min: x, max: "3"}
    e: {type: array, items: {type: object, required: 3}}
    f: {type: array, items: 3}
    g: {type: object, properties: {h: {type: 3}}}
`, `line 9, column 15: Field 'validation_schema.fields.a.type' must be one of ['any', 'string', 'semver', 'integer', 'number', 'boolean', 'object', 'array'], got 'strng'; did you mean "string"?
line 9, column 22: Field 'validation_schema.fields.a.require' is unknown; did you mean "required"?
line 10, column 8: Field 'validation_schema.fields.b' must be an object, got str
warning: line 11, column 33: yes is the text "yes" here and true to other readers: write "yes" or true
line 11, column 33: Field 'validation_schema.fields.c.required' must be a boolean, got str
line 11, column 44: Field 'validation_schema.fields.c.enum' must be a list of values, got a list
line 11, column 56: Field 'validation_schema.fields.c.format' must be one of ['snake_case', 'semver'], got 'kebab'
line 12, column 29: Field 'validation_schema.fields.d.min' must be a number, got 'x'
line 12, column 37: Field 'validation_schema.fields.d.max' must be a number, got '3'
line 13, column 54: Field 'validation_schema.fields.e.items.required' must be a boolean, got int
line 14, column 29: Field 'validation_schema.fields.f.items' must be an object, got int
line 15, column 46: Field 'validation_schema.fields.g.properties.h.type' must be one of ['any', 'string', 'semver', 'integer', 'number', 'boolean', 'object', 'array'], got 3
`},
	} {
		k, problems := ReadExtractor(yamlDoc(t, c.text), c.id)
		if got := told(problems); got != c.want {
			t.Errorf("%s\n%s\ngot\n%swant\n%s", c.id, c.text, got, c.want)
		}
		broken := false
		for line := range strings.Lines(c.want) {
			broken = broken || !strings.HasPrefix(line, "warning: ")
		}
		if broken != (k == nil) {
			t.Errorf("%s\n%s\nkind %v", c.id, c.text, k)
		}
	}
}

// TestExtractorCantSwitchOff reads bad items by an extractor that demands next to nothing.
func TestExtractorCantSwitchOff(t *testing.T) {
	k, problems := ReadExtractor(yamlDoc(t, head+
		"extensions: [.yaml]\nvalidation_schema: {fields: {name: {type: any}}}\n"), "x/tool_extractor")
	if k == nil {
		t.Fatal(told(problems))
	}
	m := k.Read(Ref{"tool", "a"}, "tools/a.yaml",
		[]byte("executor_id: [x]\nversion: one\npermissions: [x]\nlimits: {turns: -1}\nrisk: low\nconfig: 3\n"))
	_, noCapability := capability.Parse("x")
	want := `line 1, column 14: Field 'executor_id' must be a string, got list
line 2, column 10: Field 'version' must be semver format (X.Y.Z), got 'one'
line 3, column 15: Field 'permissions[0]': ` + noCapability.Error() + `
line 4, column 17: Field 'limits.turns' must be >= 0, got -1
line 5, column 7: Field 'risk' must be one of ['read', 'write', 'infra', 'money', 'destructive'], got 'low'
line 6, column 9: Field 'config' must be an object, got int
`
	if got := told(m.Problems); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for _, text := range []string{"executor_id: ''\n", "version: 1.0.0\n", "executor_id: a//b\n"} {
		if m := k.Read(Ref{"tool", "a"}, "tools/a.yaml", []byte(text)); !m.Invalid() || m.Tool.Primitive {
			t.Errorf("%q is valid", text)
		}
	}
}

// TestExtractorOfItem reads extractors as tools, and then as what they are.
func TestExtractorOfItem(t *testing.T) {
	builtin := Builtin()
	tool := builtin[slices.IndexFunc(builtin, func(k *Kind) bool { return k.Name == toolKind })]
	for _, text := range []string{head + "extensions: [.yaml]\n",
		head + "extensions: [.txt]\ndirectory: notes\nparser: pattern\n", head} {
		m := tool.Read(Ref{"tool", "x/y_extractor"}, "tools/x/y_extractor.yaml", []byte(text))
		if !m.IsExtractor() {
			t.Fatalf("no extractor:\n%s", text)
		}
		got, also := m.Extractor()
		want, problems := ReadExtractor(yamlDoc(t, text), "x/y_extractor")
		if told(also) != told(problems) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot %v, %s\nwant %v, %s", text, got, told(also), want, told(problems))
		}
	}
	if m := tool.Read(Ref{"tool", "a"}, "tools/a.yaml",
		[]byte("version: 1.0.0\nexecutor_id: null\n")); m.IsExtractor() {
		t.Error("any tool is an extractor")
	}
}
