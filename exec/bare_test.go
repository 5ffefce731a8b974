package exec_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
)

// A bareProbe needs no files, directories or environment, unless its configuration says so.
type bareProbe struct{ *probe }

func (bareProbe) Bare(config map[string]any) bool { return config["count"] == nil }

// TestBare: only a call that needs nothing of its own goes without an environment. One that declares variables, gets
// secrets, names its files, or is only asked for, is prepared in full: it would run without what it was promised.
func TestBare(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		dry   bool
		bare  bool
	}{
		"nothing":         {nil, false, true},
		"its parameters":  {[]string{`config: {p: "{params_json}"}`}, false, true},
		"variables":       {[]string{`env_config: {env: {A: b}}`}, false, false},
		"a secret":        {[]string{"secrets: [acme-token]"}, false, false},
		"its file":        {[]string{`config: {p: "{tool_path}"}`}, false, false},
		"a default":       {[]string{"config: {p: '${A:-none}'}"}, false, false},
		"an anchor":       {[]string{"anchor: {enabled: true, mode: auto, markers_any: [x], root: tool_dir}"}, false, false},
		"asked for alone": {nil, true, false},
		"the primitive":   {[]string{"config: {count: 3}"}, false, false},
	} {
		w := newWorld(t)
		w.policy = allowing
		w.with(c.lines...)
		w.secrets()
		w.kernel.Primitives[probing] = bareProbe{w.probe}
		asked := call(x, map[string]any{})
		asked.Dry = c.dry
		p := w.prepare(asked)
		if bare := len(p.Env) == 0; bare != c.bare || p.Config == nil {
			t.Errorf("%s: its environment is %q", name, p.Env)
		}
		if name == "variables" && !slices.Contains(p.Env, "A=b") {
			t.Errorf("its environment is %q", p.Env)
		}
		if r, err := p.Run(t.Context(), nil); !c.dry && (err != nil || r == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var _ primitive.Bare = bareProbe{}

// TestGraphRefused: a state graph isn't run as a tool, where none of its limits would hold: the error has the command
// that runs it.
func TestGraphRefused(t *testing.T) {
	w := newWorld(t)
	w.library["tools/"+graph.Runtime+".yaml"] = w.library["tools/rye/core/hello.yaml"]
	w.library["tools/"+graph.Runtime+".yaml"].Data = []byte(tool(graph.Runtime, probing))
	w.put(map[string]string{".ai/tools/acme/x.yaml": strings.Replace(tool("acme/x", graph.Runtime,
		"config: {start: a, nodes: {a: {type: return}}}"), "tool_type: test", "tool_type: graph", 1)})
	w.signed(x, alice)
	_, err := w.kernel.Prepare(t.Context(), w.base(), call(x, map[string]any{}))
	if err == nil || fault.CodeOf(err) != fault.Validation ||
		!slices.Equal(fault.Of(err).Hint, []string{"rye run " + x}) {
		t.Errorf("%v", err)
	}
}
