package parse

import (
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/value"
)

func problemsOf(d *Doc) []string {
	var list []string
	for _, p := range d.Problems {
		list = append(list, told(p))
	}
	return list
}

// Every problem of a file, as told. A file of no problems is a row without any.
func TestProblems(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	const open = `<directive name="a" version="1.0.0">`
	for _, tt := range []struct {
		parser, file string
		want         []string
	}{
		// Every shape.
		{"yaml", "", nil},
		{"yaml", "a: \xff", []string{"1:4 the byte 0xff is not UTF-8"}},
		{"yaml", "\ufeffé: 1\r\nü\xc3", []string{"2:2 the byte 0xc3 is not UTF-8"}},
		{"yaml", "\xff\xfea\x00", []string{"1:1 the byte 0xff is not UTF-8"}},
		{"markdown_xml", "a\n\x00b", []string{"2:1 a NUL byte stands in the text"}},
		{"comment_header", strings.Repeat("\n", MaxFile+1),
			[]string{"0:0 the file has 8388609 bytes, more than the 8388608 that are read"}},
		{"python_ast", "A = 1", nil},

		// YAML.
		{"yaml", "a: 1\n...\n", nil},
		{"yaml", "---\na: 1\n", nil},
		{"yaml", "%YAML 1.2\n---\na: 1\n", []string{"1:0 leave the line %YAML out"}},
		{"yaml", "<!-- rye:signed:x -->\n\n  a: 1\n  b: 2\n", nil},
		{"yaml", "<!-- one --> a: [\n", []string{"1:0 expected a value"}},
		{"yaml", "text\n", []string{"1:1 expected fields, as in name: value, not a text"}},
		{"yaml", "12\n", []string{"1:1 expected fields, as in name: value, not a number"}},
		{"yaml", "true\n", []string{"1:1 expected fields, as in name: value, not a truth value"}},
		{"yaml", "null\n", nil},
		{"yaml", "a: b: c\n", []string{`1:0 ": " can't stand here: put the text in quotes, or check the indentation`}},
		{"yaml", "a: 1\nb: @x\n", []string{"2:0 a value can't begin with this character: put it in quotes"}},
		{"yaml", "a: 1\nb: 'x\n", []string{"2:0 found unexpected end of stream"}},
		{"yaml", "x: 1\na:\n  - 1\n  - 2\n   b: 1\n",
			[]string{`5:0 ": " can't stand here: put the text in quotes, or check the indentation`}},
		{"yaml", "x: 1\na:\n - 1\n b: 1\n",
			[]string{"4:0 expected an item, as in - value, indented like those above"}},
		{"yaml", "x: {a: 1\ny: 2\n", []string{`2:0 expected "," or "}"; the mapping may begin lines above`}},
		{"yaml", "a: 1\n--- [\n", []string{"2:0 expected a value"}},
		{"yaml", "a: \"\x01\" \x7f\n",
			[]string{"1:5 the character U+0001 can't stand in YAML; in double quotes write \\u0001"}},
		{"yaml", "a: \u2028b\n",
			[]string{"1:4 the character U+2028 can't stand in YAML; in double quotes write \\u2028"}},
		{"yaml", "a: 0x" + strings.Repeat("f", 1001), []string{"1:4 a number has more than 1000 digits [a]"}},
		{"yaml", "a: ! 5\nb: [é, ! 5, ! [1], \"!\"]\nc: !\n  d: x!\n! e: f", []string{
			"1:4 the tag ! isn't read; a text stands in quotes, a number without [a]",
			"2:8 the tag ! isn't read; a text stands in quotes, a number without [b[1]]",
			"2:13 the tag ! isn't read; a text stands in quotes, a number without [b[2]]",
			"3:4 the tag ! isn't read; a text stands in quotes, a number without [c]",
			"5:1 the tag ! isn't read; a text stands in quotes, a number without [e]"}},
		{"yaml", "a: [12:30, -1:2:30, 1_0:5]\nb: [1:60, 0:5, '1:30', 1:a, 1:300, 1:-2]\n", []string{
			"1:5 12:30 is a text here and a number in base 60 to other readers: put it in quotes [a[0]] (warning)",
			"1:12 -1:2:30 is a text here and a number in base 60 to other readers: put it in quotes [a[1]] (warning)",
			"1:21 1_0:5 is a text here and a number in base 60 to other readers: put it in quotes [a[2]] (warning)"}},
		{"yaml", "? \n: 1\n", []string{"1:2 a key is missing"}},
		{"yaml", "a: " + strings.Repeat("[", 102) + strings.Repeat("]", 102), []string{
			"1:104 values stand in each other more than 100 deep [a" + strings.Repeat("[0]", 100) + "]"}},
		{"yaml", strings.Repeat("[", 20000), []string{"1:0 exceeded max depth of 10000"}},
		{"yaml", "a: [" + strings.Repeat("1,", 100_000) + "]",
			[]string{"1:200001 the YAML has more than 100000 values [a[99998]]"}},
		{"yaml", "a: " + strings.Repeat("b", 1<<20),
			[]string{"1:1 the YAML has 1048579 bytes, more than the 1048576 that are read"}},
		{"yaml", strings.Repeat("k", 70) + ": .inf",
			[]string{"1:73 .inf is a number that JSON doesn't have [" + strings.Repeat("k", 60) + "…]"}},
		{"yaml", strings.Repeat("é", 70) + ": .inf",
			[]string{"1:73 .inf is a number that JSON doesn't have [" + strings.Repeat("é", 30) + "…]"}},

		// Knowledge.
		{"markdown_frontmatter", "", nil},
		{"markdown_frontmatter", "# Text\n", nil},
		{"markdown_frontmatter", "---\n---\n", nil},
		{"markdown_frontmatter", "---\n- a\n---\n", []string{"2:1 expected fields, as in name: value, not a list"}},
		{"markdown_frontmatter", "Text\n\n```yaml\nid: a\n", []string{"3:1 no line ``` closes this fence"}},
		{"markdown_frontmatter", "Text\n```yaml\nid: a\n b: c\n```\n", []string{
			`4:0 ": " can't stand here: put the text in quotes, or check the indentation`}},
		{"markdown_frontmatter", "note: a\n- b\n", nil},
		{"markdown_frontmatter", "<!-- open\nnote: a\n", nil},

		// Directives.
		{"markdown_xml", "",
			[]string{"1:1 no directive found: expected a line ```xml, or <directive at the beginning"}},
		{"markdown_xml", "<!-- a -->\n\nText\n",
			[]string{"3:1 no directive found: expected a line ```xml, or <directive at the beginning"}},
		{"markdown_xml", "<?xml version",
			[]string{"1:1 no directive found: expected a line ```xml, or <directive at the beginning"}},
		{"markdown_xml", "<directives/>",
			[]string{"1:1 no directive found: expected a line ```xml, or <directive at the beginning"}},
		{"markdown_xml", "<directive/>", nil},
		{"markdown_xml", "<directive", []string{"1:1 the XML ends within what begins here"}},
		{"markdown_xml", "<directive\n>", []string{"1:1 <directive> has no end tag </directive>"}},
		{"markdown_xml", "```xml\n```\n", []string{"2:1 expected an element <directive>"}},
		{"markdown_xml", "```xml\n<tool/>\n```\n", []string{"2:1 expected an element <directive>, not <tool>"}},
		{"markdown_xml", "```xml\n<directive/> x\n <directive/>\n```\n", []string{
			"2:14 text stands outside the element", "3:2 a second element <directive> follows <directive>"}},
		{"markdown_xml",
			"```xml\n<!DOCTYPE a [<!ENTITY b \"c\">]>\n<directive><metadata><author>&b;</author></metadata></directive>\n```\n",
			[]string{
				"2:1 document types aren't read",
				`3:30 "&" doesn't begin an entity of XML here: write &amp; for the character`}},
		{"markdown_xml", "```xml\n<?xml version=\"1.1\"?>\n<directive/>\n```\n",
			[]string{`2:21 unsupported version "1.1"; only version 1.0 is supported`}},
		{"markdown_xml", "```xml\n<?xml encoding=\"latin-1\"?>\n<directive/>\n```\n",
			[]string{`2:1 XML is read in UTF-8 only`}},
		{"markdown_xml", open + "<!-- open", []string{"1:37 the XML ends within what begins here"}},
		{"markdown_xml", open + "\n<a>\n</b>\n</a>\n</c></directive>", []string{
			"3:1 </b> stands where </a> is missing, for <a> in line 2",
			"4:1 </a> ends no element that is open", "5:1 </c> ends no element that is open"}},
		{"markdown_xml", open + "<a><b></a></directive>",
			[]string{"1:43 </a> stands where </b> is missing, for <b> in line 1"}},
		{"markdown_xml", "```xml\n</x>\n```", []string{"2:1 </x> ends no element that is open",
			"2:1 expected an element <directive>"}},
		{"markdown_xml", open + "\n<a b='1' c=2/><d e/></directive>", []string{
			"2:12 unquoted or missing attribute value in element", "2:19 attribute name without = in element"}},
		{"markdown_xml", open + "\n<template>\n</templates></directive>",
			[]string{"2:1 <template> has no end tag </template>"}},
		{"markdown_xml", open + strings.Repeat("<a>", 100),
			[]string{"1:334 elements stand in each other more than 100 deep"}},
		{"markdown_xml", open + strings.Repeat("<a/>", 100_000) + "</directive>",
			[]string{"1:400033 the XML has more than 100000 elements"}},
		{"markdown_xml", "```xml\n" + open + strings.Repeat(" ", 1<<20) + "</directive>\n```",
			[]string{"2:1 the XML has more than the 1048576 bytes that are read"}},
		{"markdown_xml", open + "<a>" + strings.Repeat("é", 1<<19) + "</a></directive>",
			[]string{"1:1 the XML has more than the 1048576 bytes that are read"}},
		{"markdown_xml", open + "</directive>" + strings.Repeat("é", 1<<19), nil},
		{"markdown_xml", open + "<a x='" + strings.Repeat("é", 1<<19) + "'></a></directive>",
			[]string{"1:1 the XML has more than the 1048576 bytes that are read"}},
		{"markdown_xml", `<directive name="a" name="b" version="1" x:y="z"/>`, []string{
			"1:21 the attribute name stands in <directive> a second time",
			"1:42 the attribute x:y of <directive> isn't read (warning)"}},
		{"markdown_xml", open + "<metadata><name>b</name></metadata></directive>",
			[]string{`1:47 "name" stands here a second time, after line 1 [name]`}},
		{"markdown_xml", open + "<metadata/>\n<metadata/></directive>",
			[]string{"2:1 a second <metadata> isn't read, after line 1 [metadata]"}},
		{"markdown_xml", open + "<outputs><success/></outputs><outputs/></directive>", []string{
			"1:46 <success> in <outputs> isn't read [outputs] (warning)",
			"1:66 a second <outputs> isn't read, after line 1 [outputs]"}},
		{"markdown_xml", open + "<permissions/><model/></directive>", []string{
			"1:37 <permissions> belongs into <metadata> and isn't read here [permissions]",
			"1:51 <model> belongs into <metadata> and isn't read here [model]"}},
		{"markdown_xml", open +
			"<metadata><model/><model_class/><limits a='1'>x<a>2</a></limits></metadata></directive>", []string{
			`1:55 "model" stands here a second time, after line 1 [model]`,
			"1:83 text in <limits> isn't read [limits] (warning)",
			`1:84 "a" stands here a second time, after line 1 [limits.a]`}},
		{"markdown_xml", open + "<metadata><permissions>all</permissions></metadata></directive>", []string{
			`1:60 the text "all" in <permissions> grants nothing [permissions]`}},
		{"markdown_xml", open +
			"<metadata><permissions><load>*<tool>a</tool></load></permissions></metadata></directive>", []string{
			`1:66 the text "*" stands beside the elements of <load> [permissions]`}},
		{"markdown_xml", open +
			"<hooks><hook event='a'><do/><do/></hook></hooks><metadata><hooks/></metadata></directive>", []string{
			`1:65 "do" stands here a second time, after line 1 [hooks[0].do]`,
			`1:95 "hooks" stands here a second time, after line 1 [hooks]`}},
		{"markdown_xml", open +
			"<execute primary='x'><param name='a' value='1'/><param name='a'>2</param></execute></directive>",
			[]string{
				`1:46 "primary" stands here a second time, after line 1 [actions[0].primary]`,
				`1:85 "a" stands here a second time, after line 1 [actions[0].params.a]`}},

		// Headers.
		{"comment_header", "", nil},
		{"comment_header", "#!/bin/sh\necho\n# ---\n# a: 1\n# ---\n", nil},
		{"comment_header", "//---\n//a: 1\n//---\n", nil},
		{"comment_header", "# ---\n# ---\n", nil},
		{"comment_header", "# ---\n", []string{"1:1 no second line # --- ends this header"}},
		{"comment_header", "<!-- ---\na: 1\n-->\n",
			[]string{"1:1 no second line --- ends the header in this comment"}},
		{"comment_header", "/*\n * ---\n * a: 1\n * - b\n * --- */\n",
			[]string{"4:0 expected a key, as in name: value, indented like those above"}},
		{"comment_header", "-- ---\n-- é: .inf\n-- ---\n",
			[]string{"2:7 .inf is a number that JSON doesn't have [é]"}},
		{"comment_header", "# ---\n" + strings.Repeat("# x\n", 1<<20),
			[]string{"2:3 the YAML has 1048578 bytes, more than the 1048576 that are read"}},
		{"comment_header", "/* ---\n" + strings.Repeat("x\n", 1<<20),
			[]string{"2:1 the YAML has 1048578 bytes, more than the 1048576 that are read"}},
		{"comment_header", "/*", nil},
		{"comment_header", "--- x\n# ---\n", nil},
	} {
		name := tt.parser + "/" + clip(tt.file)
		p, _ := ByName(tt.parser)
		d := p.Parse([]byte(tt.file))
		if got := problemsOf(d); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
		if d.Fields == nil || d.Fields.Kind != value.Map {
			t.Errorf("%s: no fields", name)
		}
	}
}

// A file that is wrong everywhere has 99 reported problems, and is invalid.
func TestManyProblems(t *testing.T) {
	for _, tt := range []struct{ parser, file string }{
		{"yaml", "a: [" + strings.Repeat("no, ", 1000) + "]"},
		{"markdown_xml", "<directive>" + strings.Repeat("& <", 1<<19)},
	} {
		p, _ := ByName(tt.parser)
		d := p.Parse([]byte(tt.file))
		if len(d.Problems) != maxProblems {
			t.Fatalf("%s: %d problems", tt.parser, len(d.Problems))
		}
		last := d.Problems[maxProblems-1]
		if last.Warning || last.Message != "there are more problems than can be told" {
			t.Errorf("%s: the last is %s", tt.parser, told(last))
		}
	}
}

func TestYAML(t *testing.T) {
	for _, tt := range []struct {
		text string
		at   value.Pos
		want string // of the value, or the problem
	}{
		{"a", value.Pos{}, "1:1 string a"},
		{"  a", value.Pos{Line: 3, Column: 5}, "3:7 string a"},
		{"#\na", value.Pos{Line: 3, Column: 5}, "4:1 string a"},
		{"", value.Pos{Line: 3, Column: 5}, "3:5 null "},
		{".nan", value.Pos{Line: 3, Column: 5}, "3:5 .nan is a number that JSON doesn't have"},
		{"é\xff", value.Pos{Line: 3, Column: 5}, "3:6 the byte 0xff is not UTF-8"},
		{"\n\x00", value.Pos{Line: 3, Column: 5}, "4:1 a NUL byte stands in the text"},
		{"\n[", value.Pos{Line: 3, Column: 5}, "4:0 expected a value"},
	} {
		v, problems := YAML([]byte(tt.text), tt.at)
		got := place(v.At) + " " + v.Kind.String() + " " + v.Text
		if len(problems) > 0 {
			got = told(problems[0])
		}
		if got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
	if _, problems := YAML(make([]byte, MaxFile+1), value.Pos{Line: 3, Column: 1}); len(problems) != 1 {
		t.Errorf("too large: %v", problems)
	}
}

func TestNames(t *testing.T) {
	for _, name := range Names() {
		if _, ok := ByName(name); !ok {
			t.Errorf("no parser %q", name)
		}
	}
	if _, ok := ByName("json"); ok {
		t.Error("a parser json")
	}
	if d := (Parser{}).Parse([]byte("a: 1")); len(d.Fields.Map)+len(d.Problems) > 0 || d.Body != "" {
		t.Errorf("the zero parser reads %s", dump(d))
	}
}

func TestPatternSpec(t *testing.T) {
	for _, tt := range []struct {
		spec string
		want []string
	}{
		{"{fields: {a: '(x)'}}", nil},
		{"{fields: {a: '(x)'}, lines: 400, body: none}", nil},
		{"", []string{"1:1 expected a pattern, as in {fields: {version: '^# version: (.*)$'}}"}},
		{"a", []string{"1:1 expected a pattern, as in {fields: {version: '^# version: (.*)$'}}"}},
		{"{lines: 0}", []string{"1:1 a pattern has no fields [fields]",
			"1:9 expected a number of lines from 1 to 400 [lines]"}},
		{"{fields: {a: '(x)'}, lines: 401, body: all, flags: i}", []string{
			"1:29 expected a number of lines from 1 to 400 [lines]", "1:40 expected rest or none [body]",
			`1:45 "flags" is unknown in a pattern, which has fields, lines and body [flags]`}},
		{"{fields: [a], lines: a}", []string{
			"1:10 expected fields, as in {version: '^# version: (.*)$'} [fields]",
			"1:22 expected a number of lines from 1 to 400 [lines]"}},
		{"{fields: {}}", []string{"1:10 expected fields, as in {version: '^# version: (.*)$'} [fields]"}},
		{"fields:\n  a: 1\n  b: '('\n  c: x\n  d: (x)(y)\n  e: (?:x)\n  f: (?=x)\n  g: '" + strings.Repeat("x",
			1001) + "'\n", []string{
			"2:6 expected a regular expression, not a number [fields.a]",
			"3:6 missing closing ): `(` [fields.b]",
			"4:6 expected one group in parentheses, not 0; (?:…) makes none [fields.c]",
			"5:6 expected one group in parentheses, not 2; (?:…) makes none [fields.d]",
			"6:6 expected one group in parentheses, not 0; (?:…) makes none [fields.e]",
			"7:6 invalid or unsupported Perl syntax: `(?=` [fields.f]",
			"8:6 the regular expression has 1001 bytes, more than 1000 [fields.g]"}},
		{"fields: {" + strings.Repeat("a: 1, ", 1) + many("k%d: (x)", 50) + "}",
			[]string{"1:9 a pattern has 51 fields, more than 50 [fields]"}},
	} {
		spec, problems := YAML([]byte(tt.spec), value.Pos{})
		if len(problems) > 0 {
			t.Fatalf("%q: %v", tt.spec, problems)
		}
		p, problems := Pattern(spec)
		if got := problemsOf(&Doc{Problems: problems}); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", clip(tt.spec), strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
		p.Parse([]byte("x\ny\n"))
	}
	if _, problems := Pattern(nil); len(problems) != 1 {
		t.Errorf("no pattern: %v", problems)
	}
}

func many(format string, n int) string {
	var list []string
	for i := range n {
		list = append(list, strings.ReplaceAll(format, "%d", itoa(i)))
	}
	return strings.Join(list, ", ")
}

func TestPattern(t *testing.T) {
	spec, _ := YAML([]byte("{fields: {a: '^a(x?)|b', b: '^b(.*)'}, lines: 3, body: rest}"), value.Pos{})
	p, _ := Pattern(spec)
	for _, tt := range []struct{ file, want, body string }{
		{"a\nbc\nd", "a= b=c", "3:1 d"},
		{"b 1", "b=1", "0:0 "},
		{"\n\n\na", "", "4:1 a"},
		{"// rye:signed:x\ntext", "", "2:1 text"},
		{"b" + strings.Repeat("x", maxLine) + "\nb1", "b=1", "0:0 "},
		{"", "", "0:0 "},
	} {
		d := p.Parse([]byte(tt.file))
		var got []string
		for _, e := range d.Fields.Map {
			got = append(got, e.Key+"="+e.Value.Text)
		}
		if s := strings.Join(got, " "); s != tt.want || place(d.BodyAt)+" "+d.Body != tt.body || len(d.Problems) > 0 {
			t.Errorf("%q: got %q and %q", clip(tt.file), s, place(d.BodyAt)+" "+d.Body)
		}
	}
}
