package parts_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/parts"
	"github.com/rye-build/rye/exec/template"
)

var demo = catalog.PlaceOf("plugins/demo/db")

// item reads the file of a server's item.
func item(t testing.TB, spec *catalog.Spec) *ai.Item {
	t.Helper()
	kinds := model.Builtin()
	i := slices.IndexFunc(kinds, func(k *model.Kind) bool { return k.Name == "tool" })
	it := edit.Draft(ai.File{Ref: demo.Ref(), Kind: kinds[i], Path: demo.Dir() + "/db.yaml"}, spec.File(demo))
	for _, p := range it.Model.Problems {
		t.Errorf("%s: %s\n%s", demo.Ref(), p, it.Bytes)
	}
	return it
}

// The directories have names that would be templates if they were read again.
const (
	root = "/plugin/{plugin_data}/$${A}{{n}}"
	data = "/data/${A}{plugin_root}"
)

// filled is the configuration of a server's item as its primitive gets it.
func filled(t testing.TB, spec *catalog.Spec) map[string]any {
	t.Helper()
	config, err := template.Merge(template.Link{Name: "server", Config: item(t, spec).Model.Tool.Config})
	if err != nil {
		t.Fatal(err)
	}
	out, err := config.Fill(template.Names{
		Variables: map[string]string{"A": "1", "HOME": "/home", "PLUGIN_ROOT": "not this", "DB_TOKEN": "secret"},
		Kernel: map[string]string{"plugin_root": root, "plugin_data": data, "project_path": "/p",
			"params_json": "{}"},
		Params: map[string]any{"n": "no"}, Declares: func(name string) bool { return name == "n" },
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, spec.File(demo))
	}
	for _, name := range out.Used {
		delete(out.Config, name)
	}
	return out.Config
}

// TestSpec: a program of the plugin starts with the plugin's own texts, and what the specification says is expanded.
func TestSpec(t *testing.T) {
	s := &plugin.Server{Name: "db", Type: plugin.Stdio, Command: "./bin/{n} ${A}", Cwd: "./data/{n}",
		Args: []string{"${PLUGIN_ROOT}/x", "${HOME}", "{project_path}"},
		Env:  map[string]string{"DIR": "${PLUGIN_DATA}", "KEEP": "{{n}}"}}
	spec, err := parts.SpecOf("plugins/demo", s, plugin.Wish{Read: []string{"data"}, Write: []string{"out"},
		Network: []string{"db.example.com"}, Secrets: []string{"db-token"}, Risk: "infra",
		Timeout: 90})
	if err != nil {
		t.Fatal(err)
	}
	it := item(t, spec)
	tool := it.Model.Tool
	if tool.Plugin != "plugins/demo" || tool.Category != "plugins/demo/servers" || tool.Risk.String() != "infra" ||
		!slices.Equal(tool.Files.Read, []string{"data"}) || !slices.Equal(tool.Files.Write, []string{"out"}) ||
		!slices.Equal(tool.Network.Hosts, []string{"db.example.com"}) ||
		!slices.Equal(tool.Secrets, []string{"db-token"}) {
		t.Errorf("%s", it.Bytes)
	}
	got := filled(t, spec)
	env := got["env"].(map[string]any)
	if got["command"] != root+"/bin/{n} ${A}" || got["timeout"] != int64(90) || got["cwd"] != root+"/data/{n}" ||
		!slices.Equal(got["args"].([]any), []any{root + "/x", "${HOME}", "{project_path}"}) ||
		!maps.Equal(env, map[string]any{"DIR": data, "KEEP": "{{n}}", "PLUGIN_ROOT": root, "PLUGIN_DATA": data,
			"DB_TOKEN": "secret"}) {
		t.Errorf("%q", got)
	}
	again, err := catalog.SpecOf(it.Model)
	if err != nil || string(again.File(demo)) != string(it.Bytes) {
		t.Errorf("%v\n%s\n%s", err, again.File(demo), it.Bytes)
	}
	for cwd, want := range map[string]string{"": root, "./.": root + "/.", "${PLUGIN_DATA}/x": data + "/x",
		"${PLUGIN_ROOT}": root} {
		spec, err := parts.SpecOf("plugins/demo", &plugin.Server{Type: plugin.Stdio, Command: "x", Cwd: cwd},
			plugin.Wish{})
		if err != nil {
			t.Fatal(err)
		}
		if got := filled(t, spec); got["cwd"] != want {
			t.Errorf("%q: %q", cwd, got["cwd"])
		}
	}
}

// TestSpecRemote: nothing is expanded in the address and the headers of a server, and its token is the user's.
func TestSpecRemote(t *testing.T) {
	s := &plugin.Server{Name: "db", Type: plugin.HTTP, URL: "https://h.example:8443/{n}/${A}?x=${PLUGIN_ROOT}",
		Headers: map[string]string{"X-Tenant": "${A}{n}", "authorization": "Bearer public"}}
	spec, err := parts.SpecOf("plugins/demo", s, plugin.Wish{Secrets: []string{"db-token"}})
	if err != nil {
		t.Fatal(err)
	}
	got := filled(t, spec)
	if got["url"] != s.URL || !maps.Equal(got["headers"].(map[string]any),
		map[string]any{"X-Tenant": "${A}{n}", "Authorization": "Bearer secret"}) {
		t.Errorf("%q", got)
	}
	if !slices.Equal(spec.Network, []string{"h.example:8443"}) {
		t.Errorf("%q", spec.Network)
	}
	if spec, err = parts.SpecOf("plugins/demo", s, plugin.Wish{}); err != nil ||
		spec.Headers["authorization"] != "Bearer public" {
		t.Errorf("%v, %v", spec, err)
	}
	s.Headers = nil
	if spec, err = parts.SpecOf("plugins/demo", s, plugin.Wish{Secrets: []string{"a"}}); err != nil ||
		spec.Headers["Authorization"] != "Bearer ${A}" {
		t.Errorf("%v, %v", spec, err)
	}
	for _, wish := range []plugin.Wish{{Secrets: []string{"a", "b"}}, {Secrets: []string{"?"}}} {
		if _, err := parts.SpecOf("plugins/demo", s, wish); err == nil {
			t.Errorf("%+v is taken", wish)
		}
	}
}

// TestSpecRefused: a variable that rye or the loader owns skips the server, and says which.
func TestSpecRefused(t *testing.T) {
	for _, name := range []string{"PATH", "LD_PRELOAD", "RYE_STORE", "HOME", "NODE_OPTIONS", "a-b"} {
		_, err := parts.SpecOf("plugins/demo", &plugin.Server{Type: plugin.Stdio, Command: "x",
			Env: map[string]string{name: "x"}}, plugin.Wish{})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRisk: the declared risk is that of tools that announce nothing, and one that may write files is never read-only.
func TestRisk(t *testing.T) {
	for _, c := range []struct {
		wish plugin.Wish
		note string
		want string
	}{
		{plugin.Wish{}, "", "write"}, {plugin.Wish{Risk: "read"}, "", "read"},
		{plugin.Wish{Risk: "read", Write: []string{"out"}}, "", "write"},
		{plugin.Wish{Risk: "money"}, "", "money"}, {plugin.Wish{Risk: "money"}, "readOnlyHint", "read"},
		{plugin.Wish{Risk: "read"}, "destructiveHint", "destructive"},
	} {
		spec, err := parts.SpecOf("plugins/demo", &plugin.Server{Type: plugin.Stdio, Command: "x"}, c.wish)
		if err != nil {
			t.Fatal(err)
		}
		stub, err := catalog.Stub(demo, spec, catalog.DefinitionOf(map[string]any{"name": "a",
			"annotations": map[string]any{c.note: true}}))
		if err != nil || !strings.Contains(string(stub), "\nrisk: "+c.want+"\n") {
			t.Errorf("%+v: %s, %v", c, stub, err)
		}
	}
}

// FuzzSpec: whatever a plugin's texts are, the process gets what the specification says, and nothing else is expanded.
func FuzzSpec(f *testing.F) {
	for _, text := range []string{"", "${PLUGIN_ROOT}", "$${PLUGIN_ROOT}", "{${PLUGIN_DATA}}", "${${PLUGIN_ROOT}}",
		"{{${PLUGIN_ROOT}", "${PLUGIN_ROOT}${PLUGIN_DATA}", "{n}{{n}}{plugin_root}", "${A}${A:-x}$${A}${A%}",
		"${PLUGIN_ROOT:-x}", "{brace}{dollar}", "{$${PLUGIN_DATA}$", "$${${PLUGIN_ROOT}n}", "${PLUGIN_${PLUGIN_ROOT}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return // no JSON has it
		}
		s := &plugin.Server{Name: "db", Type: plugin.Stdio, Command: "x", Args: []string{text, "a" + text + "{n}"},
			Env: map[string]string{"TEXT": text}}
		spec, err := parts.SpecOf("plugins/demo", s, plugin.Wish{})
		if err != nil {
			return
		}
		got := filled(t, spec)
		args, env := got["args"].([]any), got["env"].(map[string]any)
		want := plugin.Expand(text, root, data)
		if args[0] != want || args[1] != "a"+want+"{n}" || env["TEXT"] != want {
			t.Errorf("%q: %q, want %q\n%s", text, args, want, spec.File(demo))
		}
	})
}
