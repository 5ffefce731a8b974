package starlark_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/primitivetest"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

const echo = "def main(params):\n    return params['v']\n"

func TestPrimitive(t *testing.T) {
	s := subject(t)
	primitivetest.Test(t, primitivetest.Subject{
		Primitive: s,
		Value: func(t testing.TB, v any) *primitive.Action {
			return action(t, echo, map[string]any{"v": v})
		},
		Fails: func(t testing.TB, reason string) *primitive.Action {
			return action(t, "def main(params):\n    fail(params['why'])\n", map[string]any{"why": reason})
		},
		Stream: func(t testing.TB, n int) (*primitive.Action, []byte) {
			text := strings.Repeat("0123456789", n/10+1)
			return action(t, echo, map[string]any{"v": text}), []byte(`"` + text + "\"\n")
		},
		Forever: forever,
		Wrong:   wrong(),
		Tries:   tries(),
	})
}

// forever makes an action that doesn't end.
func forever(t testing.TB) primitivetest.Endless {
	dir := sandboxtest.Dir(t)
	a := action(t,
		"def main(params):\n    print('x')\n    fs.write('begun', '')\n    for i in range(1 << 60):\n        pass\n",
		nil)
	a.Config["steps"] = int64(1 << 50)
	return primitivetest.Endless{
		Action: granted(a, dir, nil, []string{"."}),
		Begun: func() bool {
			_, err := os.Stat(filepath.Join(dir, "begun"))
			return err == nil
		},
		Left: func() []string { return alive(t) },
	}
}

// with returns an action with another value in its configuration.
func with(name string, v any) func(testing.TB) *primitive.Action {
	return func(t testing.TB) *primitive.Action {
		a := action(t, echo, nil)
		a.Config[name] = v
		return a
	}
}

func wrong() map[string]func(testing.TB) *primitive.Action {
	return map[string]func(testing.TB) *primitive.Action{
		"no file":                      with("file", nil),
		"a file that is no whole path": with("file", "tool.star"),
		"a file that isn't there":      with("file", filepath.Join(os.TempDir(), "rye-none", "none.star")),
		"a file that is a directory":   with("file", os.TempDir()),
		"a function that is no text":   with("function", int64(1)),
		"a function without a name":    with("function", ""),
		"parameters that are no text":  with("params", map[string]any{}),
		"parameters that are no JSON":  with("params", "{"),
		"steps that are none":          with("steps", int64(0)),
		"steps that are no number":     with("steps", "many"),
		"a path of the sandbox's that is no place": func(t testing.TB) *primitive.Action {
			a := action(t, echo, nil)
			a.Sandbox.Level, a.Sandbox.Read = floor.Landlock, append(a.Sandbox.Read, "/proc")
			return a
		},
	}
}

// tries are attempts that must be denied, with the help of the system or without.
func tries() map[string]primitivetest.Try {
	list := map[string]primitivetest.Try{}
	for _, level := range []floor.Level{floor.Limits, floor.Landlock} {
		list["write a file at "+level.String()] = func(t testing.TB, allow bool) (*primitive.Action, func() bool) {
			dir := put(t, sandboxtest.Dir(t), map[string]string{"docs/a.txt": "a", "b.txt": "b"})
			a := action(t, "def main(params):\n    fs.write('docs/new.txt', 'x')\n", nil)
			granted(a, dir, []string{"b.txt"}, nil)
			if allow {
				granted(a, dir, nil, []string{"docs"})
			}
			return a, func() bool {
				_, err := os.Stat(filepath.Join(dir, "docs", "new.txt"))
				return err == nil
			}
		}
		list["read a file at "+level.String()] = func(t testing.TB, allow bool) (*primitive.Action, func() bool) {
			dir := put(t, sandboxtest.Dir(t), map[string]string{"secret/key": "secret", "out/a": "a"})
			a := action(t, "def main(params):\n    fs.write('out/copy', fs.read('secret/key'))\n", nil)
			read := []string(nil)
			if allow {
				read = []string{"secret/key"}
			}
			return granted(a, dir, read, []string{"out"}), func() bool {
				b, _ := os.ReadFile(filepath.Join(dir, "out", "copy"))
				return string(b) == "secret"
			}
		}
	}
	return list
}

// TestLimits: each limit ends the script, and its memory stays within bounds.
func TestLimits(t *testing.T) {
	const each = "def main(params):\n"
	for name, test := range map[string]struct{ text, ended string }{
		"a loop":              {each + "    for i in range(1 << 60):\n        pass\n", "steps"},
		"a loop outside":      {"for i in range(1 << 60):\n    pass\n" + each + "    pass\n", "steps"},
		"a comprehension":     {each + "    return len([0 for i in range(1 << 40) if False])\n", "steps"},
		"a list that doubles": {each + "    x = [0]\n    for i in range(100):\n        x += x\n", "memory"},
		"a dict that grows": {each + "    x = {}\n    for i in range(1 << 40):\n        x[i] = str(i)\n",
			"memory"},
		"a text that doubles": {each + "    x = 'x'\n    for i in range(100):\n        x += x\n", "memory"},
		"a text of 10 GiB":    {each + "    return len('x' * (10 << 30))\n", "memory"},
		"a text of 1 GiB":     {each + "    return len('x' * ((1 << 30) - 1))\n", "memory"},
		"a list of 10 G":      {each + "    return len([1] * (10 << 30))\n", "memory"},
		"texts put together":  {each + "    x = 'x' * (1 << 20)\n    return len(x.replace('x', x))\n", "memory"},
		"texts joined": {each + "    x = 'x' * (1 << 20)\n    return len(x.join(['y'] * (1 << 20)))\n",
			"memory"},
		"numbers that grow": {each + "    x = 3\n    for i in range(60):\n        x = x * x\n", "timeout"},
		"a value nested deep": {each +
			"    x = []\n    for i in range(800000):\n        x = [x]\n    return str(x)\n", "memory"},
		"JSON nested deep":       {each + "    json.decode('[' * 5000000)\n", "memory"},
		"prints":                 {each + "    for i in range(1 << 60):\n        print('x' * 1000)\n", "output"},
		"a value of 20 MiB":      {each + "    return 'x' * (20 << 20)\n", "output"},
		"loading takes of steps": {"load('_loop.star', 'x')\n" + each + "    pass\n", "steps"},
	} {
		t.Run(name, func(t *testing.T) {
			a := action(t, test.text, nil)
			put(t, a.Dir, map[string]string{"_loop.star": "x = 1\nfor i in range(1 << 60):\n    pass\n"})
			most := int64(128 << 20)
			if name == "a value nested deep" {
				most = 48 << 20 // each step of its way down takes longer than the last
			}
			a.Sandbox.Limits.Memory = most
			a.Config["steps"] = int64(12_000_000)
			if test.ended == "output" {
				a.Sandbox.Limits.Memory = 2 * most // with the race detector what is written needs more than that
			}
			if test.ended == "timeout" {
				a.Config["timeout"] = int64(2)
			}
			to := new(sink)
			r := run(t, a, to)
			if r.Ended != test.ended || !r.Failed {
				t.Errorf("ended by %q, %+v\n%.1000s", r.Ended, r, to.text[primitive.Stderr].String())
			}
			if rss := r.Usage["max_rss"]; rss > 2*most {
				t.Errorf("it had %d MiB", rss>>20)
			}
		})
	}
}

// Recursion is an error of the script.
func TestRecursion(t *testing.T) {
	r := run(t, action(t, "def f(n):\n    return f(n + 1)\ndef main(params):\n    return f(0)\n", nil), nil)
	if r.Ended != "" || !strings.Contains(r.Failure, "called recursively") {
		t.Errorf("%+v", r)
	}
}

// TestSink: prints are passed on, and the value is one line.
func TestSink(t *testing.T) {
	a := action(t, "def main(params):\n    print('one', 2)\n    return {'b': 1, 'a': (2.5, None)}\n", nil)
	to := new(sink)
	if r := run(t, a, to); r.Failed || r.Level < floor.Limits || len(r.Enforced) == 0 {
		t.Errorf("%+v", r)
	}
	if out, errs := to.text[0].String(), to.text[1].String(); out != `{"a":[2.5,null],"b":1}`+"\n" ||
		errs != "one 2\n" {
		t.Errorf("printed %q and %q", out, errs)
	}
	r := run(t, action(t, echo, map[string]any{"v": int64(1)}), &sink{full: errFull})
	if !r.Failed || r.Ended != "cancelled" || !strings.Contains(r.Failure, errFull.Error()) {
		t.Errorf("%+v", r)
	}
}

// TestFailures: every way in which a script can fail.
func TestFailures(t *testing.T) {
	for text, want := range map[string]string{
		"def main(params):\n    return {'success': False, 'error': 'because'}\n":  "because",
		"def main(params):\n    fail('because')\n":                                "because",
		"load('_more.star', 'x')\ndef main(params):\n    pass\n":                  "because",
		"def main(params):\n    fail('an excessive repeat of it')\n":              "an excessive repeat of it",
		"def main(params):\n    fail('the repeat count 7 is too large')\n":        "the repeat count 7 is too large",
		"def main(params):\n    return params['excessive repeat']\n":              `tool.star:2:18: key "excessive repeat" not in dict`,
		"def main(params):\n    return params['none']\n":                          `tool.star:2:18: key "none" not in dict`,
		"def f(x):\n    return 1 // x\ndef main(params):\n    return f(0)\n":      "tool.star:2:14: floored division by zero",
		"def main(params)\n    pass\n":                                            "tool.star:2:1: got newline, want ':'",
		"def other(params):\n    pass\n":                                          "tool.star has no function main",
		"main = 1\n":                                                              "tool.star has no function main",
		"def main(params):\n    return fs.read('a')\n":                            "tool.star:2:12: undefined: fs (no file of the project was granted: the tool lists those it needs under files:)",
		"def main(params):\n    return time.now()\n":                              "tool.star:2:12: undefined: time",
		"def main(params):\n    return len\n":                                     "the result contains a builtin_function_or_method, which is not a JSON value",
		"def main(params):\n    return {1: 2}\n":                                  "the result contains a key of type int: keys must be strings",
		"def main(params):\n    return 1 << 60\n":                                 "the result contains an integer beyond 2^53, which JSON can't hold: convert it with str()",
		"def main(params):\n    return float('nan')\n":                            "the result contains nan, which is not a number in JSON",
		"def main(params):\n    return struct(a='\\u00ff'[:1])\n":                 "the result contains a string that is not valid UTF-8",
		"def main(params):\n    x = []\n    x.append(x)\n    return x\n":          "the result is nested more than 60 levels deep",
		"def main(params):\n    return [0] * 300000\n":                            "the result has more than 262044 values",
		"load('../tool.star', 'x')\n":                                             `tool.star:1:1: cannot load ../tool.star: "../tool.star" is outside the tool's own directory`,
		"load('/etc/a.star', 'x')\n":                                              `tool.star:1:1: cannot load /etc/a.star: "/etc/a.star" is outside the tool's own directory`,
		"load('_none.star', 'x')\n":                                               `tool.star:1:1: cannot load _none.star: "_none.star" is not one of the tool's own files: no such file or directory`,
		"load('_link.star', 'x')\n":                                               `tool.star:1:1: cannot load _link.star: "_link.star" is not one of the tool's own files: path escapes from parent`,
		"load('_data.json', 'x')\n":                                               `tool.star:1:1: cannot load _data.json: "_data.json": expected the name of a .star file`,
		"load('tool.star', 'x')\n":                                                `tool.star:1:1: cannot load tool.star: "tool.star" is already being loaded: the files load each other`,
		"load('_round.star', 'x')\n":                                              "the files load each other",
		"def main(params):\n    return re.search('(', 'x')\n":                     "missing closing )",
		"def main(params):\n    x = 1\n    for i in range(3):\n        x = x.y\n": "int has no .y field or method",
	} {
		a := action(t, text, map[string]any{})
		put(t, a.Dir, map[string]string{"_more.star": "fail('because')\n", "_round.star": "load('_again.star', 'x')\n",
			"_again.star": "load('_round.star', 'x')\n"})
		if err := os.Symlink(sandboxtest.Self(t), filepath.Join(a.Dir, "_link.star")); err != nil {
			t.Fatal(err)
		}
		r := here(t, a)
		if !r.Failed || r.Ended != "" || !strings.Contains(r.Failure, want) || r.Exit != 0 {
			t.Errorf("%s\n%+v\nwant %s", text, r, want)
		}
		if object, _ := r.Value.(map[string]any); object["success"] != false || object["error"] != r.Failure {
			t.Errorf("%s\nthe value is %v", text, r.Value)
		}
	}
	// Where one function calls another, standard error says how it came to that.
	to := new(sink)
	run(t, action(t, "def f(x):\n    return 1 // x\ndef main(params):\n    return f(0)\n", nil), to)
	if errs := to.text[1].String(); !strings.Contains(errs, "tool.star:4:13: in main") {
		t.Errorf("standard error is %q", errs)
	}
}

// TestSame: equal calls give equal results, and nothing tells one run from another.
func TestSame(t *testing.T) {
	text := `load("lib/_a.star", "a")
def main(params):
    d = {x: hash(x) for x in "the quick brown fox".split(" ")}
    return [a(params["n"]), d, sha256("1:hello")[:6], json.encode(struct(x=1)), math.floor(2.5), list(set([1, 2, 1]))]
`
	first := ""
	for range 3 {
		a := action(t, text, map[string]any{"n": int64(2)})
		put(t, a.Dir, map[string]string{"lib/_a.star": "load('_b.star', 'b')\ndef a(n):\n    return n + b\n",
			"lib/_b.star": "b = 40\n"})
		to := new(sink)
		run(t, a, to)
		got := to.text[0].String()
		if !strings.HasPrefix(got, "[42,") || !strings.Contains(got, `"d31abf"`) || first != "" && got != first {
			t.Errorf("%s%s", first, got)
		}
		first = got
	}
}

func TestNames(t *testing.T) {
	for text, want := range map[string]string{
		"re.search('b(.)(x)?', 'abcd')":                   `["bc","c",null]`,
		"re.search('x', 'abcd')":                          `null`,
		"re.find_all('[a-z]', 'a1b2c3')":                  `[["a"],["b"],["c"]]`,
		"re.find_all('[a-z]', 'a1b2c3', most=2)":          `[["a"],["b"]]`,
		"re.sub('(a)b', '${1}c', 'abab')":                 `"acac"`,
		"re.split(', *', 'a, b,c')":                       `["a","b","c"]`,
		"[re.search(str(i), '7') for i in range(200)][7]": `["7"]`,
		"math.pi > 3":                            `true`,
		"json.decode('{\"a\": [1, 2.5, null]}')": `{"a":[1,2.5,null]}`,
		"sha256('')[:8]":                         `"e3b0c442"`,
		"struct(b=1, a=struct())":                `{"a":{},"b":1}`,
	} {
		r := here(t, action(t, "def main(params):\n    return "+text+"\n", nil))
		if got, err := jcs.Append(nil, r.Value); err != nil || string(got) != want {
			t.Errorf("%s is %s, %s; want %s", text, got, r.Failure, want)
		}
	}
	for _, text := range []string{"re.search(1)", "re.search('(', '')", "re.find_all('(', '')", "re.find_all()",
		"re.sub('(', '', '')", "re.sub()", "re.split('(', '')",
		"re.split()", "sha256(1)", "fail()"} {
		if r := here(t, action(t, "def main(params):\n    return "+text+"\n", nil)); !r.Failed {
			t.Errorf("%s is %v", text, r.Value)
		}
	}
}

// TestNoFiles: without a grant there are no files.
func TestNoFiles(t *testing.T) {
	dir := put(t, sandboxtest.Dir(t), map[string]string{"a": "a"})
	a := granted(action(t, "def main(params):\n    return fs.read('a')\n", nil), dir, []string{"a"}, nil)
	if r := run(t, a, nil); r.Failed || r.Value != "a" {
		t.Fatalf("%+v", r)
	}
	a.Files = primitive.Files{}
	if r := run(t, a, nil); !strings.Contains(r.Failure, "undefined: fs") {
		t.Errorf("%+v", r)
	}
}

// TestNoSelf: without a guest program nothing runs.
func TestNoSelf(t *testing.T) {
	s := subject(t)
	s.Self = nil
	if r, err := s.Run(t.Context(), action(t, echo, nil), nil); err == nil {
		t.Errorf("%+v", r)
	}
	// Another program doesn't answer as a guest.
	s = subject(t)
	s.Self = []string{sandboxtest.Self(t), "-test.run=^$"}
	if r, err := s.Run(t.Context(), action(t, echo, nil), nil); err != nil || !r.Failed ||
		!strings.Contains(r.Failure, "invalid frame") {
		t.Errorf("%+v, %v", r, err)
	}
}

func BenchmarkCall(b *testing.B) {
	s, a := subject(b), action(b, echo, map[string]any{"v": int64(1)})
	for b.Loop() {
		if r, err := s.Run(b.Context(), a, nil); err != nil || r.Failed {
			b.Fatal(fmt.Sprint(r, err))
		}
	}
}
