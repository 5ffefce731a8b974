package model

import (
	"strings"
	"testing"
	"unicode"
)

// TestNothingRepaints: what is said of a file has nothing in it that a terminal acts on or that turns text around,
// whatever stands in the file.
func TestNothingRepaints(t *testing.T) {
	const esc, bidi = `\e[2J`, "\u202e\u200b\U000e0041"
	for _, c := range [][2]string{
		{"tools/a.yaml", "executor_id: null\na: !%1b%5b2J x\n"},
		{"tools/a.yaml", "executor_id: null\na: !<tag:%e2%80%ae> x\n"},
		{"tools/a.yaml", "executor_id: null\n\"" + esc + "\": &" + bidi + " 1\n"},
		{"tools/a.yaml", "executor_id: null\na: *" + bidi + "\n"},
		{"tools/a.yaml", "executor_id: null\na: &a" + bidi + " 1\n"},
		{"tools/a.yaml", "executor_id: null\n\"" + esc + "\": yes\n"},
		{"tools/a.yaml", "executor_id: null\n\"" + esc + "\": 017\n"},
		{"tools/a.yaml", "executor_id: null\n\"" + esc + "\": 1\n\"" + esc + "\": 2\n"},
		{"tools/a.yaml", "executor_id: null\n" + bidi + ": {a: 1, a: 2}\n"},
		{"tools/a.yaml", "executor_id: null\nenv_config: {env: {\"" + esc + bidi + "\": []}}\n"},
		{"tools/a.yaml", "executor_id: null\nlimits: {\"" + esc + bidi + "\": 1, \"max_" + esc + "\": 2}\n"},
		{"tools/a.yaml", "executor_id: null\nanchor: {\"" + esc + bidi + "\": 1, env_paths: {\"" + esc + "\": {\"" +
			esc + "\": 1}}}\n"},
		{"tools/a.yaml", "executor_id: null\nchild_constraints: {\"" + esc + bidi + "\": {\"" + esc +
			"\": 1, range: \"" + esc + "\"}}\n"},
		{"tools/a.yaml", "executor_id: null\ninput_schema: {properties: {\"" + esc + bidi + "\": {type: \"" + esc +
			"\", pattern: 1, \"" + esc + "\": 1}}}\n"},
		{"tools/a.yaml", "executor_id: \"" + esc + "\"\nversion: \"" + esc + "\"\nname: \"" + bidi + "\"\nrisk: \"" +
			esc + "\"\neffects: [\"" + esc + "\"]\nnetwork: [\"" + esc + "\"]\n" +
			"secrets: [\"" + esc + "\"]\npermissions: [\"" + esc + "\", \"rye.execute.tool." + bidi +
			"\"]\ncategory: \"" + esc + "\"\ninputs: [\"" + esc + "\"]\n"},
		{"tools/a.yaml", "executor_id: null\nfiles: {read: [\"" + esc + bidi + "\"], write: [\".git/" + esc +
			"\", \".ai/" + bidi + "\", .ai/é], \"" + esc + "\": 1}\n"},
		{"tools/a.yaml", "executor_id: null\n\x1b: [\n"},
		{"tools/a.yaml", "executor_id: null\na: @" + bidi + "\n"},
		{"tools/a.yaml", "executor_id: null\na: " + bidi + "1_000: b\n"},
		{"tools/a.py", "__executor_id__ = None\nCONFIG = {'\\x1b[2J': 1, '\\x1b[2J': 2}\nLIMITS = {'\\x1b': 1}\n"},
		{"tools/a.py", "__executor_id__ = None\nA = \x1b\n"},
		{"tools/a.py", "__executor_id__ = None\nA = " + bidi + "\n"},
		{"tools/a.py", "# coding: \x1b[2J\n__executor_id__ = None\n"},
		{"tools/a.py", "__executor_id__ = None\n__version__ = '\\x1b'\n__limits__ = {'" + bidi +
			"': 1}\nℌ = 1\nℌ = f()\n"},
		{"tools/a.py", "__executor_id__ = None\nCONFIG = '\\N{" + bidi + "}'\n__ℌ__ = 1\n__ℌ__ = 2\n"},
		{"tools/a.sh", "# ---\n# executor_id: null\n# \"" + esc + "\": no\n# ---\n"},
		{"directives/a.md", "<directive name='\x1b[2J'></directive>"},
		{"directives/a.md", "<directive " + bidi + "='a'></directive>"},
		{"directives/a.md", "<directive a\u200d\u200c='a'><b\u200d></directive>"},
		{"directives/a.md",
			"<directive name='a\u202e'><metadata><limits max_\u200dx='1\u202e' max_turns='\u202e'/><permissions><\u00ad/>\u202e<execute><a\u200d>\u202e</a\u200d>x</execute></permissions></metadata></directive>"},
		{"directives/a.md",
			"<directive name='a'><inputs><input name='\u202e' required='\u202e' type='\u202e'/></inputs><hooks><hook a\u200d='1' a\u200d='2'/></hooks></directive>"},
		{"directives/a.md", "<directive>&\u202e;</directive>"},
		{"directives/a.md", "<directive></dir\u200dective>"},
		{"directives/a.md", "<a\u200d/>\n<directive/>"},
		{"directives/a.md", "```xml\n<a\u200d/>\n<directive/><\u200db/>\n```\n"},
		{"knowledge/a.md", "---\nid: \"" + esc + "\"\ntitle: [1]\nreferences: {\"" + esc + "\": 1}\ntags: [\"" + esc +
			"\", 1]\n\"" + esc + "\": on\n---\n"},
	} {
		k := kindOf(t, c[0])
		m := k.Read(Ref{k.Name, "a"}, c[0], []byte(c[1]))
		if len(m.Problems) == 0 {
			t.Errorf("nothing is wrong with %q", c[1])
		}
		for _, p := range m.Problems {
			if s := p.Error() + " " + p.Field; strings.ContainsFunc(s, func(r rune) bool {
				return r < ' ' || !unicode.IsPrint(r)
			}) {
				t.Errorf("%s says %q", c[0], s)
			}
		}
	}
	for _, text := range []string{
		"\"" + esc + "\": 1\n", "kind: \"" + esc + "\"\n", "directory: \"" + esc + "\"\n",
		"extensions: [\"" + esc + "\"]\n",
		"extensions: [.x]\nparser: {.x: {pattern: {fields: {\"" + esc + "\": \"(" + esc + "\", b: \"[" + esc +
			"\"}, \"" + esc + "\": 1}}, \"" + esc + "\": 1}\n",
		"extensions: [.x]\ncomment: {\"" + esc + "\": 1}\nextraction_rules: {\"" + esc + "\": {type: \"" + esc +
			"\", \"" + esc + "\": 1}}\n",
		"search_fields: {\"" + esc + "\": x}\nvalidation_schema: {fields: {\"" + esc + "\": {type: \"" + esc +
			"\", \"" + esc + "\": 1}}, \"" + esc + "\": 1}\n",
	} {
		_, problems := ReadExtractor(yamlDoc(t, text), "x/y_extractor")
		for _, p := range problems {
			if s := p.Error() + " " + p.Field; strings.ContainsFunc(s, func(r rune) bool {
				return r < ' ' || !unicode.IsPrint(r)
			}) {
				t.Errorf("of an extractor it says %q", s)
			}
		}
	}
}

// TestMarkerFarAway: what the parsers read as the marker of a kind is not passed over by the quick look.
func TestMarkerFarAway(t *testing.T) {
	space := strings.Repeat(" ", 100)
	for path, text := range map[string]string{
		"tools/a.yaml":   "executor_id" + space + ": null\n",
		"tools/a.py":     "__executor_id__" + space + "= None\n",
		"tools/b.py":     "x = 1\n\f__executor_id__ = None\n",
		"tools/a.sh":     "# ---\n# executor_id" + space + ": null\n# ---\n",
		"knowledge/a.md": "---\nid" + space + ": a\n---\n",
	} {
		k := kindOf(t, path)
		if m := k.Read(Ref{k.Name, "a"}, path, []byte(text)); !m.Marked || !k.Marked(path, []byte(text)) {
			t.Errorf("%s: the file is an item, %v, and may be one, %v", path, m.Marked, k.Marked(path, []byte(text)))
		}
	}
}
