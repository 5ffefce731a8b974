package template

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
)

// hostile is what an attacker sends in the hope that it is read as more than data.
var hostile = []string{
	"$(rm -rf /)", "`whoami`", "; ls", "&& id", "| tee x", "a\nb", "a b\tc", "'quoted'", `"quoted"`, `\`, "*", "~",
	"%s%n",
	"{param}", "{tool_path}", "{params_json}", "{{x}}", "${HOME}", "${HOME:-$(x)}", "${VAR:-{x}}", "$${X}", "$HOME",
	"-rf", "--config=/etc", "--",
	"", " ", "é\u202e", "\x00", "../../etc/passwd", "http://[::1]/", "a?b=c&d#e", "@file", "=", "\r\nX-Evil: 1", "{",
	"}", "${", "$", "{x",
	strings.Repeat("A", 2<<20),
}

func lookup(m map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

func TestExpand(t *testing.T) {
	variables := lookup(map[string]string{"A": "1", "EMPTY": "", "_X9": "x", "T": "{n}${A}"})
	names := lookup(map[string]string{"n": "v", "per-page": "9", "t": "${A}{n}"})
	for _, c := range []struct{ text, want string }{
		{"", ""}, {"plain", "plain"}, {"${A}", "1"}, {"a${A}b${A}", "a1b1"}, {"${EMPTY}", ""}, {"${EMPTY:-d}", "d"},
		{"${NONE:-d e}", "d e"},
		{"${NONE:-}", ""}, {"${NONE:-$(x)}", "$(x)"}, {"${A:-d}", "1"}, {"${_X9}", "x"}, {"$A", "$A"}, {"$$", "$$"},
		{"$${A}", "${A}"}, {"$$${A}", "$${A}"},
		{"$${A:-x}", "${A:-x}"}, {"{n}", "v"}, {"{per-page}", "9"}, {"a{n}b{n}", "avbv"}, {"{{n}}", "{n}"},
		{"{{{n}}}", "{{n}}"}, {"{{n}", "{v"}, {"{n}}", "v}"},
		{"{}", "{}"}, {"{ n }", "{ n }"}, {"{1}", "{1}"}, {`{"a":{"b":1}}`, `{"a":{"b":1}}`}, {"{n", "{n"},
		{"n}", "n}"}, {"{", "{"}, {"${", "${"},
		{"${state.x}", "${state.x}"}, {"${n}", "${n}"}, {"${{n}}", "${{n}}"}, {"$${n}", "$${n}"},
		{"${{ n }}", "${{ n }}"}, {"${Home}", "${Home}"},
		// What was filled in is not read again.
		{"${T}", "{n}${A}"}, {"{t}", "${A}{n}"}, {"{t}{n}", "${A}{n}v"}, {"${{n}", "${{n}"}, {"{n}${A}{n}", "v1v"},
		{"é{n}", "év"},
	} {
		got, err := Expand(c.text, variables, names)
		if err != nil || got != c.want {
			t.Errorf("Expand(%q) = %q, %v; want %q", c.text, got, err, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"é${NONE}", `column 2 of the template: the variable "NONE" is not set and has no default, as in ${NONE:-…}`},
		{"{none}", `column 1 of the template: unknown name "none"; write {{none}} for the literal text`},
		{"x{n}{awk}", `column 5 of the template: unknown name "awk"; write {{awk}} for the literal text`},
		{"${A", `column 1 of the template: invalid ${A: expected ${A} or ${A:-default}, or $${A for the literal text`},
		{"${A%.*}",
			`column 1 of the template: invalid ${A: expected ${A} or ${A:-default}, or $${A for the literal text`},
		{"${A.b}",
			`column 1 of the template: invalid ${A: expected ${A} or ${A:-default}, or $${A for the literal text`},
		{"${A:-${B}}", `column 1 of the template: the default of ${A is unterminated or contains a brace`},
		{"${A:-x", `column 1 of the template: the default of ${A is unterminated or contains a brace`},
	} {
		got, err := Expand(c.text, variables, names)
		if err == nil || err.Error() != c.want {
			t.Errorf("Expand(%q) = %q, %v; want %s", c.text, got, err, c.want)
		}
	}
	if _, err := Expand("${A}{n}", nil, nil); err == nil {
		t.Error("without anything known a variable was found")
	}
	if got, err := Expand("${A:-x}", nil, nil); got != "x" || err != nil {
		t.Error(got, err)
	}
	if _, err := Expand("{n}", nil, nil); err == nil {
		t.Error("without anything known a name was found")
	}
}

func config(t testing.TB, links ...string) *Config {
	t.Helper()
	var all []Link
	for i, text := range links {
		v, problems := parse.YAML([]byte(text), value.Pos{Line: 1, Column: 1})
		if len(problems) > 0 {
			t.Fatal(problems[0])
		}
		all = append(all, Link{fmt.Sprintf("link%d", i), v})
	}
	c, err := Merge(all...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func declares(names ...string) func(string) bool {
	return func(name string) bool {
		for _, n := range names {
			if n == name {
				return true
			}
		}
		return false
	}
}

func names() Names {
	return Names{
		Variables: map[string]string{"RYE_PYTHON": "/usr/bin/python3", "HOME": "/home/x"},
		Kernel: map[string]string{"tool_path": "/run/(1)/t.py", "project_path": "/p",
			"params_json": `{"a":"{tool_path}${HOME}"}`},
		Params: map[string]any{"n": 5.0, "f": 0.5, "b": true, "s": "a b", "null": nil, "list": []any{"x", 1.0},
			"map":     map[string]any{"k": "{n}"},
			"command": "evil", "tool_path": "evil", "timeout": 7.0, "undeclared": "evil", "dots": "..",
			"odd": "a/b?c=d&e f+ü#%"},
		Declares: declares("n", "f", "b", "s", "null", "list", "map", "command", "tool_path", "timeout", "absent",
			"dots", "odd", "body", "server"),
	}
}

func TestFill(t *testing.T) {
	for _, c := range []struct {
		links []string
		want  map[string]any
		used  string
	}{
		{[]string{"", "command: x", "command: z\nargs: [a]"}, map[string]any{"command": "x", "args": []any{"a"}},
			"[]"},
		{[]string{"cwd: null", "cwd: /x"}, map[string]any{"cwd": "/x"}, "[]"},
		{[]string{`command: "${RYE_PYTHON}"` + "\n" +
			`args: ["-I", "{tool_path}", "--params", "{params_json}", "x={n}", "{n}"]`},
			map[string]any{"command": "/usr/bin/python3",
				"args": []any{"-I", "/run/(1)/t.py", "--params", `{"a":"{tool_path}${HOME}"}`, "x=5", 5.0}}, "[]"},
		// Names alone keep their type.
		{[]string{
			`body: {m1: "{n}", f: "{f}", b: "{b}", z: "{null}", l: "{list}", m: "{map}", t: "{f}/{b}/{n}", i: 3, g: 1.5, no1: null, yes1: true}`},
			map[string]any{"body": map[string]any{"m1": 5.0, "f": 0.5, "b": true, "z": nil, "l": []any{"x", 1.0},
				"m": map[string]any{"k": "{n}"}, "t": "0.5/true/5",
				"i": int64(3), "g": 1.5, "no1": nil, "yes1": true}}, "[]"},
		// The caller's values don't stand in front of what a link or the kernel says.
		{[]string{`args: ["{command}", "{tool_path}"]`, "command: good"},
			map[string]any{"command": "good", "args": []any{"good", "/run/(1)/t.py"}}, "[command]"},
		// Within an entry of its name a name is the parameter.
		{[]string{`timeout: "{timeout}"`, "timeout: 300"}, map[string]any{"timeout": 7.0}, "[]"},
		{[]string{`args: ["{timeout}"]`, "timeout: 300"},
			map[string]any{"args": []any{int64(300)}, "timeout": int64(300)}, "[timeout]"},
		// One that says that it is of the parameters is, whatever else has it.
		{[]string{
			`args: ["{params.command}", "{params.tool_path}", "{params.timeout}", "{params.}", "{{params.n}}", "{other.n}"]`,
			"command: good"},
			map[string]any{"command": "good", "args": []any{"evil", "evil", 7.0, "{params.}", "{params.n}",
				"{other.n}"}}, "[]"},
		{[]string{`url: "https://h/{params.odd}"`, "params.odd: x"},
			map[string]any{"url": "https://h/a%2Fb%3Fc%3Dd%26e%20f%2B%C3%BC%23%25", "params.odd": "x"}, "[]"},
		// Entries refer to others, of whatever link.
		{[]string{`server: {url: "{base}/x", k: "{n}"}` + "\nbase: https://{n}",
			`args: ["{base}"]` + "\n" + `copy: "{server}"`},
			map[string]any{"base": "https://5", "server": map[string]any{"url": "https://5/x", "k": 5.0},
				"copy": map[string]any{"url": "https://5/x", "k": 5.0},
				"args": []any{"https://5"}}, "[base server]"},
		// A declared parameter that wasn't given leaves its entry out.
		{[]string{`body: {a: "{absent}", in: {b: "{absent}", c: 1}}` + "\n" + `timeout: "{absent}"` + "\n" +
			`x: "{timeout}"`},
			map[string]any{"body": map[string]any{"in": map[string]any{"c": int64(1)}}}, "[timeout]"},
		// Addresses.
		{[]string{`url: "https://h/{s}/{odd}?q={n}&e={tool_path}"`},
			map[string]any{
				"url": "https://h/a%20b/a%2Fb%3Fc%3Dd%26e%20f%2B%C3%BC%23%25?q=5&e=%2Frun%2F%281%29%2Ft.py"}, "[]"},
		{[]string{`url: "{base}/{odd}"` + "\n" + `base: "https://h/{s}"` + "\n" +
			`headers: {x: "{base}", z: "{url}"}`},
			map[string]any{"url": "https://h/a%20b/a%2Fb%3Fc%3Dd%26e%20f%2B%C3%BC%23%25", "base": "https://h/a b",
				"headers": map[string]any{"x": "https://h/a b",
					"z": "https://h/a%20b/a%2Fb%3Fc%3Dd%26e%20f%2B%C3%BC%23%25"}}, "[base url]"},
		// A parameter that went through another entry is still the caller's.
		{[]string{`url: "https://h/{server}"` + "\n" + `server: "{odd}"`},
			map[string]any{"url": "https://h/a%2Fb%3Fc%3Dd%26e%20f%2B%C3%BC%23%25", "server": "a/b?c=d&e f+ü#%"},
			"[server]"},
		{[]string{`url: "{odd}"`}, map[string]any{"url": "a/b?c=d&e f+ü#%"}, "[]"},
	} {
		got, err := config(t, c.links...).Fill(names())
		if err != nil {
			t.Errorf("%q: %v", c.links, err)
			continue
		}
		if !reflect.DeepEqual(got.Config, c.want) || fmt.Sprint(got.Used) != c.used {
			t.Errorf("%q:\n got %#v %v\nwant %#v %s", c.links, got.Config, got.Used, c.want, c.used)
		}
	}
}

func TestFillErrors(t *testing.T) {
	for _, c := range []struct{ link, want string }{
		{`args: [a, "{none}"]`,
			`config "args[1]" of "link0", line 1: column 1 of the template: unknown name "none"; write {{none}} for the literal text`},
		{`args: ["{undeclared}"]`,
			`config "args[0]" of "link0", line 1: column 1 of the template: unknown name "undeclared"; write {{undeclared}} for the literal text`},
		{`args: ["{params.undeclared}"]`,
			`config "args[0]" of "link0", line 1: column 1 of the template: unknown name "params.undeclared"; write {{params.undeclared}} for the literal text`},
		{`args: ["{params.absent}"]`,
			`config "args[0]" of "link0", line 1: column 1 of the template: the parameter "absent" was not given`},
		{`args: ["{absent}"]`,
			`config "args[0]" of "link0", line 1: column 1 of the template: the parameter "absent" was not given`},
		{`x: {k: "a{absent}"}`,
			`config "x.k" of "link0", line 1: column 2 of the template: the parameter "absent" was not given`},
		{"x: \"{absent}\"\nargs: [\"{x}\"]",
			`config "args[0]" of "link0", line 2: column 1 of the template: the parameter "absent" was not given`},
		{`command: "${NONE}"`,
			`config "command" of "link0", line 1: column 1 of the template: the variable "NONE" is not set and has no default, as in ${NONE:-…}`},
		{`command: "${NONE"`,
			`config "command" of "link0", line 1: column 1 of the template: invalid ${NONE: expected ${NONE} or ${NONE:-default}, or $${NONE for the literal text`},
		{`x: "a{list}"`,
			`config "x" of "link0", line 1: {list} is not a string, number or boolean, so it can't be part of a longer text`},
		{`x: "a{null}"`,
			`config "x" of "link0", line 1: {null} is not a string, number or boolean, so it can't be part of a longer text`},
		{`url: "http://h/{dots}/x"`,
			`config "url" of "link0", line 1: the parameter "dots" is "..", which would change the path of the URL`},
		{"a: \"{b}\"\nb: [\"{c}\"]\nc: \"x{a}\"", `config "c" of "link0", line 3: circular reference: a → b → c → a`},
		{"x: 9007199254740993",
			`config "x" of "link0", line 1: line 1, column 4: the integer 9007199254740993 is beyond what JSON's readers agree about`},
	} {
		_, err := config(t, c.link).Fill(names())
		if err == nil || err.Error() != c.want {
			t.Errorf("%q:\n got %v\nwant %s", c.link, err, c.want)
		}
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("%q: a %T", c.link, err)
		}
	}
	// Without a tool that declares anything no parameter is known.
	n := names()
	n.Declares = nil
	if _, err := config(t, `x: "{n}"`).Fill(n); err == nil {
		t.Error("an undeclared parameter was filled in")
	}
	_, err := Merge(Link{"l", &value.Value{Kind: value.List}})
	if err == nil || err.Error() != `config of "l": the configuration must be an object, not array` {
		t.Error(err)
	}
}

// Whatever a caller sends stays one argument, byte for byte, and no part of anything else.
func TestHostileValues(t *testing.T) {
	c := config(t, `args: ["--x", "{p}", "pre{p}post"]`+"\n"+`input_data: "{params_json}"`+"\n"+
		`body: {p: "{p}", l: ["{p}"]}`+"\n"+`url: "https://h/{p}-{params_json}/end"`,
		`command: "${RYE_PYTHON}"`+"\n"+`cwd: "{project_path}"`)
	for _, p := range hostile {
		n := names()
		n.Declares = declares("p")
		n.Params = map[string]any{"p": p, "command": p, "cwd": p, "args": p, "url": p, "tool_path": p, "env": p,
			"timeout": p}
		n.Kernel["params_json"] = p
		f, err := c.Fill(n)
		if err != nil {
			t.Fatalf("%.40q: %v", p, err)
		}
		if want := []any{"--x", p, "pre" + p + "post"}; !reflect.DeepEqual(f.Config["args"], want) {
			t.Errorf("%.40q: args are %.200q", p, f.Config["args"])
		}
		if f.Config["command"] != "/usr/bin/python3" || f.Config["cwd"] != "/p" || f.Config["input_data"] != p ||
			len(f.Config) != 6 {
			t.Errorf("%.40q: %.200v", p, f.Config)
		}
		if body := f.Config["body"].(map[string]any); body["p"] != p || body["l"].([]any)[0] != p {
			t.Errorf("%.40q: the body is %.200v", p, body)
		}
		address := f.Config["url"].(string)
		if mid := strings.TrimSuffix(strings.TrimPrefix(address, "https://h/"), "/end"); strings.ContainsAny(mid,
			"/?#&=@: \r\n\x00") {
			t.Errorf("%.40q: the address is %.200q", p, address)
		}
	}
	// Environment values are data as well.
	for _, p := range hostile {
		n := names()
		n.Variables["RYE_PYTHON"] = p
		f, err := config(t, `args: ["${RYE_PYTHON}", "x${RYE_PYTHON}"]`).Fill(n)
		if err != nil || !reflect.DeepEqual(f.Config["args"], []any{p, "x" + p}) {
			t.Errorf("%.40q: %.200v %v", p, f, err)
		}
	}
}

// A few entries can stand for more than any memory holds.
func TestLimits(t *testing.T) {
	var text, lists, chain strings.Builder
	for i := range 30 {
		fmt.Fprintf(&text, "a%d: \"{a%d}{a%d}\"\n", i, i+1, i+1)
		fmt.Fprintf(&lists, "a%d: [\"{a%d}\", \"{a%d}\"]\n", i, i+1, i+1)
	}
	text.WriteString("a30: xxxxxxxxxxxxxxxx\n")
	lists.WriteString("a30: x\n")
	for i := range 40 {
		fmt.Fprintf(&chain, "a%02d: \"{a%02d}\"\n", i, i+1)
	}
	chain.WriteString("a40: x\n")
	for name, c := range map[string]*Config{"text": config(t, text.String()), "lists": config(t, lists.String())} {
		if _, err := c.Fill(names()); err == nil ||
			!strings.HasSuffix(err.Error(), "the filled-in configuration exceeds 67108864 bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := config(t, chain.String()).Fill(names()); err == nil ||
		!strings.HasSuffix(err.Error(), "names lead to names more than 32 deep") {
		t.Error(err)
	}
	n := names()
	n.Params["s"] = strings.Repeat("x", 1<<20)
	n.Params["list"] = []any{n.Params["s"], map[string]any{"k": n.Params["s"]}}
	for _, item := range []string{`"{s}"`, `"{list}"`} {
		if _, err := config(t, "x: ["+strings.Repeat(item+", ", 70)+"]").Fill(n); err == nil {
			t.Errorf("70 MiB of %s were filled in", item)
		}
	}
	deep := &value.Value{Kind: value.Text, Text: "x"}
	for range 100 {
		deep = &value.Value{Kind: value.List, Items: []*value.Value{deep}}
	}
	c, err := Merge(Link{"l", &value.Value{Kind: value.Map, Map: []value.Entry{{Key: "x", Value: deep}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fill(names()); err == nil || !strings.HasSuffix(err.Error(), "nested more than 64 deep") {
		t.Error(err)
	}
	many := make([]*value.Value, 0, 1000)
	for range 1000 {
		many = append(many, &value.Value{Kind: value.Text, Text: "{s}{s}"})
	}
	c, _ = Merge(Link{"l", &value.Value{Kind: value.Map,
		Map: []value.Entry{{Key: "x", Value: &value.Value{Kind: value.List, Items: many}}}}})
	if _, err := c.Fill(n); err == nil {
		t.Error("2 GiB were filled in")
	}
}

// Escaping a text and filling it gives the text; no template makes a panic, and none fills more than once.
func FuzzExpand(f *testing.F) {
	for _, s := range append(hostile[:len(hostile)-1], "${A:-b}{n}$${A}{{n}}", "{params.n}{{params.n}}", "{{{n}}}",
		"$$${A}") {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, text, v string) {
		of := lookup(map[string]string{"A": v, "n": v})
		once, err := Expand(text, of, of)
		// The place holder has the form of no template: if the value mattered to the reading, replacing it would
		// differ.
		const mark = "\x00"
		if strings.Contains(text, mark) || v == "" {
			return
		}
		of = lookup(map[string]string{"A": mark, "n": mark})
		marked, err2 := Expand(text, of, of)
		if (err == nil) != (err2 == nil) || err == nil && strings.ReplaceAll(marked, mark, v) != once {
			t.Errorf("%q with %q is %q, with a mark %q; %v, %v", text, v, once, marked, err, err2)
		}
		if pieces, err := split(text); err == nil {
			if got, err := Expand(escaped(pieces), of, of); err != nil || got != unfilled(pieces) {
				t.Errorf("%q is escaped as %q and filled as %q, %v", text, escaped(pieces), got, err)
			}
		}
	})
}

// unfilled writes pieces down as they would be read.
func unfilled(pieces []piece) string { return written(pieces, "${", "{", "}") }

// escaped writes pieces down so that they are text.
func escaped(pieces []piece) string { return written(pieces, "$${", "{{", "}}") }

func written(pieces []piece, variableOpen, nameOpen, nameClose string) string {
	var b strings.Builder
	for _, p := range pieces {
		switch {
		case p.kind == variable && p.hasDefault:
			b.WriteString(variableOpen + p.text + ":-" + p.other + "}")
		case p.kind == variable:
			b.WriteString(variableOpen + p.text + "}")
		case p.kind == name:
			b.WriteString(nameOpen + p.text + nameClose)
		}
	}
	return b.String()
}

// No configuration makes a panic, and filling changes nothing that it was given.
func FuzzFill(f *testing.F) {
	f.Add([]byte("command: \"${RYE_PYTHON}\"\nargs: [\"{n}\", \"{a}\"]\na: \"{b}\"\nb: {c: [\"{a}\"]}"), "x")
	f.Add([]byte("url: \"https://h/{s}\"\nurl2: \"{url}\""), "../..")
	f.Fuzz(func(t *testing.T, file []byte, s string) {
		v, problems := parse.YAML(file, value.Pos{Line: 1, Column: 1})
		if len(problems) > 0 || v == nil || v.Kind != value.Map {
			return
		}
		c, err := Merge(Link{"l", v})
		if err != nil {
			t.Fatal(err)
		}
		n := names()
		n.Params["s"] = s
		params := maps.Clone(n.Params)
		if _, err := c.Fill(n); err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("%T: %v", err, err)
			}
		}
		if !reflect.DeepEqual(params, n.Params) {
			t.Error("the parameters were changed")
		}
	})
}

func BenchmarkFill(b *testing.B) {
	c := config(b, "", `command: "${RYE_PYTHON}"`+"\n"+
		`args: ["-I", "-S", "-B", "-u", "-X", "utf8", "{tool_path}/_launch.py", script, "{tool_path}", "{project_path}"]`+
		"\n"+`cwd: "{project_path}"`+"\n"+`input_data: "{params_json}"`+"\n"+"timeout: 300")
	n := names()
	for b.Loop() {
		if _, err := c.Fill(n); err != nil {
			b.Fatal(err)
		}
	}
}

// TestUnknown: Unknown reports exactly what Fill refuses whatever its names are.
func TestUnknown(t *testing.T) {
	text := func(s string) *value.Value { return &value.Value{Kind: value.Text, Text: s} }
	for s, want := range map[string]string{
		"": "", "a": "", "{{a}}": "", "{ a}": "", "{p} {params.p} {k} {e} ${V:-x}": "",
		"{a}":          `column 1 of the template: unknown name "a"; write {{a}} for the literal text`,
		"x {params.a}": `column 3 of the template: unknown name "params.a"; write {{params.a}} for the literal text`,
		"{params.e}":   `column 1 of the template: unknown name "params.e"; write {{params.e}} for the literal text`,
		"{own}":        `column 1 of the template: unknown name "own"; write {{own}} for the literal text`,
	} {
		own := &value.Value{Kind: value.Map, Map: []value.Entry{{Key: "own", Value: text(s)}}}
		below := &value.Value{Kind: value.Map, Map: []value.Entry{{Key: "e", Value: text("1")}}}
		c, err := Merge(Link{"tool:a", own}, Link{"tool:b", below})
		if err != nil {
			t.Fatal(err)
		}
		declares := func(name string) bool { return name == "p" }
		got := ""
		for _, e := range c.Unknown("tool:a", []string{"k"}, declares) {
			got += e.Err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
		_, err = c.Fill(Names{Variables: map[string]string{}, Kernel: map[string]string{"k": "1"},
			Params: map[string]any{"p": "1"}, Declares: declares})
		if (err != nil) != (want != "") {
			t.Errorf("%q: filled it is %v", s, err)
		}
		if len(c.Unknown("tool:b", nil, declares)) > 0 {
			t.Errorf("%q: an entry of another link is reported", s)
		}
	}
}

// FuzzLiteral: whatever a text is, as a literal it is filled in as itself, also with a name behind it.
func FuzzLiteral(f *testing.F) {
	for _, s := range append(hostile[:len(hostile)-1], "${A:-b}{n}$${A}{{n}}", "{params.n}{{params.n}}", "{{{n}}}",
		"$$${A}", "${{n}}", "${n}{n}", "${A{n}", "{${A}}", "{{${A", "$$${${A}") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		of := lookup(map[string]string{"A": "1", "n": "v"})
		if got, err := Expand(Literal(text), of, of); err != nil || got != text {
			t.Errorf("%q as a literal is %q, which is filled in as %q, %v", text, Literal(text), got, err)
		}
		if strings.HasSuffix(text, "$") || strings.HasSuffix(text, "{") {
			return
		}
		if got, err := Expand(Literal(text)+"{n}", of, of); err != nil || got != text+"v" {
			t.Errorf("%q with a name behind it is filled in as %q, %v", text, got, err)
		}
	})
}
