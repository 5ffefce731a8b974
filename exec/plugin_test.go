package exec_test

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest"
)

// unpinnedData is what a result and the receipt say.
const unpinnedData = "unpinned: PLUGIN_DATA"

const plugged = "tool:plugins/demo/servers/s"

// A pluginWorld has the plugin plugins/demo of Bob's with one item.
type pluginWorld struct {
	*world
	plugin *chain.Plugin
	bytes  map[cas.Digest]string
	space  fstest.MapFS
}

// Get implements cas.Getter.
func (w *pluginWorld) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	text, ok := w.bytes[id.Digest]
	if !ok {
		return cas.Object{}, fs.ErrNotExist
	}
	o := cas.Object{Info: cas.Info{ID: id, Size: int64(len(text))}}
	o.ReadCloser = io.NopCloser(bytes.NewReader([]byte(text)))
	return o, nil
}

func newPluginWorld(t testing.TB) *pluginWorld {
	w := &pluginWorld{world: newWorld(t), bytes: map[cas.Digest]string{}, space: fstest.MapFS{}}
	const label = "system:plugins/demo"
	w.plugin = &chain.Plugin{ID: "plugins/demo", Bytes: w, Space: label,
		Vouchers: []string{bob.Public().Fingerprint().String()}}
	w.bundles = []*ai.Space{{Label: label, Level: ai.System, FS: w.space}}
	w.plugins = func(context.Context, string) (*chain.Plugin, error) { return w.plugin, nil }
	w.file("plugin.json", "{}", false)
	return w
}

// file adds a file to the plugin.
func (w *pluginWorld) file(name, text string, executable bool) {
	f := manifest.File{Path: name, Digest: cas.Sum([]byte(text)), Size: int64(len(text)), Mode: cas.File}
	if executable {
		f.Mode = cas.Exec
	}
	w.bytes[f.Digest] = text
	w.plugin.Files = append(w.plugin.Files, f)
	slices.SortFunc(w.plugin.Files, func(a, b manifest.File) int { return strings.Compare(a.Path, b.Path) })
}

// item puts the item of the plugin, which Bob signs.
func (w *pluginWorld) item(primitive string, lines ...string) {
	w.Helper()
	w.space["tools/plugins/demo/servers/s.yaml"] = &fstest.MapFile{Data: []byte(tool("plugins/demo/servers/s",
		primitive, append(lines, "plugin: plugins/demo")...))}
	w.signed(plugged, bob)
}

const namesBoth = `config: {root: "{plugin_root}", data: "{plugin_data}", env: {D: "x={plugin_data}/y"}}`

// dirs are the directories of plugins' data.
func (w *pluginWorld) dirs() (names []string) {
	entries, _ := os.ReadDir(w.kernel.Data)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestPlugin: a chain with a plugin knows where its files and its data are.
func TestPlugin(t *testing.T) {
	w := newPluginWorld(t)
	w.item(probing, namesBoth)
	w.probe.do = func(_ context.Context, a *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		root, data := a.Config["root"].(string), a.Config["data"].(string)
		if b, err := os.ReadFile(filepath.Join(root, "plugin.json")); err != nil || string(b) != "{}" {
			t.Errorf("%q, %v", b, err)
		}
		if !slices.Equal(a.Sandbox.Data, []string{data}) || !strings.HasPrefix(root, a.Own) || !a.Stranger {
			t.Errorf("%+v", a.Sandbox)
		}
		info, err := os.Lstat(data)
		if err != nil || !info.IsDir() || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info, err)
		}
		if env := a.Config["env"].(map[string]any)["D"]; env != "x="+data+"/y" {
			t.Errorf("%v", env)
		}
		return gives(nil), os.WriteFile(filepath.Join(data, "state"), nil, 0o600)
	}
	plan := w.prepare(call(plugged, nil))
	if len(w.dirs()) > 0 {
		t.Errorf("%q is there before the call", w.dirs())
	}
	if plan.Risk.String() != "write" || plan.Derived != "it may write the data of its plugin" {
		t.Errorf("%s, %q", plan.Risk, plan.Derived)
	}
	if r, err := plan.Run(t.Context(), nil); err != nil || r.Failed {
		t.Fatalf("%+v, %v", r, err)
	}
	if len(w.dirs()) != 1 {
		t.Errorf("%q", w.dirs())
	}
}

// TestPluginRisk: the data of a plugin raises a derived risk to write, but lowers none: a call that needs an approval
// would be made without a question. A declared risk stays.
func TestPluginRisk(t *testing.T) {
	for name, c := range map[string]struct {
		line, want, derived string
	}{
		"data alone":      {"limits: {memory_mib: 64}", "write", "it may write the data of its plugin"},
		"and the network": {"network: all", "destructive", "it may use the network"},
		"declared":        {"risk: read", "read", ""},
	} {
		w := newPluginWorld(t)
		w.policy += "\ngrants:\n  \"tool:plugins/**\": [\"network:*\"]\n"
		w.item(probing, namesBoth, c.line)
		plan := w.prepare(call(plugged, nil))
		if plan.Risk.String() != c.want || !strings.HasPrefix(plan.Derived, c.derived) ||
			(plan.Derived == "") != (c.derived == "") {
			t.Errorf("%s: %s, %q", name, plan.Risk, plan.Derived)
		}
	}
}

// directory is the name of the directory of the plugin's data.
var directory = regexp.MustCompile(`^plugins_demo-[0-9a-f]{32}$`)

// TestPluginData: two projects, tenants, signers and plugins never share data, whatever their names. An update by one
// of the signers before keeps it.
func TestPluginData(t *testing.T) {
	w := newPluginWorld(t)
	w.item(probing, namesBoth)
	at := func(c *exec.Call) string {
		t.Helper()
		return filepath.Base(w.ok(c).Value.(map[string]any)["data"].(string))
	}
	odd := filepath.Join(w.dir, "odd \"$(x)\n\xff\" project")
	if runtime.GOOS == "windows" {
		odd = filepath.Join(w.dir, "odd project")
	}
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	first := at(call(plugged, nil))
	seen := []string{first}
	other := func(c *exec.Call) {
		t.Helper()
		if name := at(c); slices.Contains(seen, name) || name != at(c) ||
			!directory.MatchString(name) {
			t.Errorf("%s is shared", name)
		} else {
			seen = append(seen, name)
		}
	}
	elsewhere := call(plugged, nil)
	elsewhere.Project = odd
	other(elsewhere)
	tenant := call(plugged, nil)
	tenant.Tenant = "acme"
	other(tenant)
	w.plugin.Vouchers = []string{alice.Public().Fingerprint().String()}
	other(call(plugged, nil))
	w.plugin.Vouchers = []string{"source ../demo"}
	other(call(plugged, nil))
	w.plugin.Vouchers = []string{"a new one", bob.Public().Fingerprint().String()}
	w.file("more", "an update", false)
	if got := at(call(plugged, nil)); got != first {
		t.Errorf("after an update that another one signs too: %s; want %s", got, first)
	}
	if got := w.dirs(); len(got) != len(seen) {
		t.Errorf("%q; want %q", got, seen)
	}
}

// TestPluginDataUnpinned: a program of the machine can interpret what an earlier call has written, which nothing pins.
func TestPluginDataUnpinned(t *testing.T) {
	w := newPluginWorld(t)
	w.item(probing, namesBoth)
	w.kernel.Host.Vars["PATH"] += string(os.PathListSeparator) + filepath.Dir(sandboxtest.Self(t))
	writes, interprets := false, true
	w.probe.starts = func(map[string]any) []string {
		if !interprets {
			return nil
		}
		return []string{sandboxtest.Self(t)}
	}
	w.probe.do = func(_ context.Context, a *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		if !writes {
			return gives(nil), nil
		}
		return gives(nil), os.WriteFile(filepath.Join(a.Config["data"].(string), "evil.py"), nil, 0o600)
	}
	for i, c := range []struct{ interprets, writes, want bool }{
		{true, false, false}, {true, true, true}, {false, false, false}, {true, false, true},
	} {
		writes, interprets = c.writes, c.interprets
		r := w.ok(call(plugged, nil))
		if got := slices.Contains(r.Enforced, unpinnedData); got != c.want || got != (r.Data != "") ||
			strings.Contains(w.proved(r).Outcome.Sandbox, unpinnedData) != c.want {
			t.Errorf("%d: %q, %q", i, r.Enforced, w.proved(r).Outcome.Sandbox)
		}
	}
}

// TestPluginDataRefused: without a place for its data nothing runs, and the log says so.
func TestPluginDataRefused(t *testing.T) {
	w := newPluginWorld(t)
	w.item(probing, namesBoth)
	data := w.kernel.Data
	w.kernel.Data = ""
	if err := w.refused(call(plugged, nil)); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("no directory: %v", err)
	}
	w.kernel.Data = data
	if err := os.MkdirAll(filepath.Dir(data), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := w.run(call(plugged, nil))
	if err == nil || r.Status != record.Refused || w.probe.calls > 0 ||
		!strings.Contains(err.Error(), `the directory for the data of the plugin "plugins/demo": `) {
		t.Errorf("a file in its place: %+v, %v", r, err)
	}
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(w.ok(call(plugged, nil)).Value.(map[string]any)["data"].(string))
	calls := w.probe.calls
	at := filepath.Join(data, name)
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := w.run(call(plugged, nil)); err == nil || r.Status != record.Refused || w.probe.calls != calls {
		t.Errorf("a file instead of it: %+v, %v", r, err)
	}
}

// TestPluginDataShort: data of what isn't a bundle yet goes with the call. What depends on its action alone, and a
// chain that doesn't name it, get none.
func TestPluginDataShort(t *testing.T) {
	w := newPluginWorld(t)
	w.item(probing, namesBoth)
	w.plugin.Vouchers = nil
	data := w.ok(call(plugged, nil)).Value.(map[string]any)["data"].(string)
	if _, err := os.Lstat(data); err == nil || len(w.dirs()) > 0 {
		t.Errorf("%s stays: %v, %q", data, err, w.dirs())
	}
	w.plugin.Vouchers = []string{"v"}
	w.item(probing, `config: {root: "{plugin_root}"}`)
	if w.ok(call(plugged, nil)); len(w.dirs()) > 0 {
		t.Errorf("%q for a chain that doesn't name it", w.dirs())
	}
	w.item(probing, namesBoth, "pure: true")
	if err := w.refusedBy(plugged); fault.CodeOf(err) != fault.Validation ||
		!strings.Contains(err.Error(), "plugin_data") {
		t.Errorf("a pure tool: %v", err)
	}
}

// refusedBy returns why a tool isn't prepared.
func (w *pluginWorld) refusedBy(ref string) error {
	w.Helper()
	p, err := w.kernel.Prepare(w.Context(), w.base(), call(ref, nil))
	if err == nil {
		p.Close()
		w.Fatalf("%s may run", ref)
	}
	return err
}

// TestPluginNames: outside of a chain with a plugin the names mean nothing.
func TestPluginNames(t *testing.T) {
	for _, name := range []string{"plugin_root", "plugin_data"} {
		w := newWorld(t).with(`config: {at: "{` + name + `}"}`)
		if err := w.refused(call(x, nil)); fault.CodeOf(err) != fault.Validation ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Contains(exec.Named(), name) {
			t.Errorf("%s isn't known", name)
		}
	}
}

// TestPluginTampered: bytes that differ from the manifest don't run.
func TestPluginTampered(t *testing.T) {
	w := newPluginWorld(t)
	w.item(probing, namesBoth)
	w.bytes[cas.Sum([]byte("{}"))] = "[]"
	if err := w.refused(call(plugged, nil)); fault.CodeOf(err) != fault.Integrity {
		t.Errorf("%s %v", fault.CodeOf(err), err)
	}
}
