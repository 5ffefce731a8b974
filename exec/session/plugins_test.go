package session_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/itemtest"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/create"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/restore"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// server is the item of the plugin, and program the file that it starts.
var server = model.Ref{Kind: "tool", ID: "plugins/demo/servers/s"}

const (
	serverFile = "tools/plugins/demo/servers/s.yaml"
	program    = "\x7fELF, or so it says"
)

// serverText is a tool that starts the program of a plugin.
func serverText(id, of string) string {
	return itemtest.Tool(id, "rye/core/primitives/subprocess", "plugin: "+of,
		`config: {command: "{plugin_root}/bin/x", args: ["{plugin_data}"]}`)
}

// publish makes the plugin of a directory beside the project, or with bundle another bundle, whose items and manifest
// a key signs.
func (p *project) publish(t *testing.T, isPlugin bool, by key.Private) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(p.Dir), "demo")
	items := filepath.Join(dir, ".ai")
	if isPlugin {
		items = filepath.Join(dir, filepath.FromSlash(plugin.ItemsDir))
	}
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode))
	}
	write(filepath.Join(dir, "plugin.json"), "{}", 0o644)
	write(filepath.Join(dir, "bin", "x"), program, 0o755)
	at := filepath.Join(items, filepath.FromSlash(serverFile))
	text := serverText(server.ID, "plugins/demo")
	if !isPlugin {
		text = strings.Replace(text, "plugin: plugins/demo\n", "", 1)
	}
	write(at, text, 0o644)
	space, err := ai.OpenDir(items, "system:plugins/demo", ai.System)
	must(t, err)
	defer space.Close()
	view, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{space, find.LibrarySpace()}})
	must(t, err)
	it, err := view.Find(t.Context(), server)
	must(t, err)
	write(at, string(itemtest.Signed(t, ai.NewAdmitter(view, nil), it, time.Now(), by)), 0o644)
	of, err := recipe.New("plugins/demo", "1.0.0")
	must(t, err)
	of.Plugin = isPlugin
	_, err = create.Create(t.Context(), create.Options{Dir: dir, Recipe: of,
		Trust: admissiontest.Trust(t, time.Now(), "  \"**\": {keys: [alice, bob]}\n"),
		Below: []*ai.Space{find.LibrarySpace()}, Store: new(cas.Memory),
		Sign: func(d *manifest.Document) error { return d.Sign(by, time.Now()) }})
	must(t, err)
}

// trusting is the user's policy, which trusts Alice and Bob, with more lines.
func (p *project) trusting(more string) error {
	return p.policyFile(fmt.Sprintf(
		"rye: policy/2\n\nkeys:\n  alice: {key: %q}\n  bob: {key: %q}\n\nnames:\n  \"**\": {keys: [alice, bob]}\n%s",
		keytest.Alice().Public(), keytest.Bob().Public(), more))
}

// withPlugin is a project that requires the plugin, before it is locked.
func withPlugin(t *testing.T, isPlugin bool, by key.Private) *project {
	t.Helper()
	p := testProject(t)
	must(t, p.trusting(""), p.write("rye.yaml",
		"requires:\n  plugins/demo: {version: \"^1.0\", from: \"../demo\"}\n"))
	p.publish(t, isPlugin, by)
	return p
}

// vendor copies the objects of the lock into the project, and removes every other place that has them.
func (p *project) vendor(t *testing.T) {
	t.Helper()
	w, err := workspace.Open(t.Context(), p.Paths, workspace.Options{Offline: true})
	must(t, err)
	defer w.Close()
	l, err := w.OpenLock(false)
	must(t, err)
	defer l.Close()
	must(t, l.Open())
	fetched, err := restore.Fetch(t.Context(), l)
	must(t, err)
	_, err = restore.Vendor(t.Context(), l, fetched)
	must(t, err)
	w.Close()
	must(t, os.RemoveAll(p.Store.Path), os.RemoveAll(filepath.Join(filepath.Dir(p.Dir), "demo")))
}

// start prepares a call of a tool.
func start(t *testing.T, s *session.Session, ref model.Ref) (*exec.Plan, error) {
	t.Helper()
	plan, err := s.Prepare(t.Context(), &exec.Call{Ref: ref})
	if err == nil {
		t.Cleanup(func() { plan.Close() })
	}
	return plan, err
}

// starts has to start the program of the plugin.
func (p *project) starts(t *testing.T, ref model.Ref) *exec.Plan {
	t.Helper()
	s, err := p.open(t, session.Options{})
	must(t, err)
	plan, err := start(t, s, ref)
	if err != nil {
		t.Fatalf("%v", fault.Of(err))
	}
	command := plan.Config["command"].(string)
	if b, err := os.ReadFile(command); err != nil || string(b) != program || len(plan.Programs) > 0 {
		t.Errorf("it starts %s: %q, %v, %+v", command, b, err, plan.Programs)
	}
	if b, err := os.ReadFile(filepath.Join(filepath.Dir(command), "..", "plugin.json")); err != nil ||
		string(b) != "{}" {
		t.Errorf("plugin.json is %q, %v", b, err)
	}
	if data := plan.Action.Sandbox.Data; len(data) != 1 ||
		!strings.HasPrefix(data[0], filepath.Join(p.State.Path, "plugins")+string(filepath.Separator)) {
		t.Errorf("it may write %q", data)
	}
	return plan
}

// TestPlugin: a tool of a locked plugin starts the plugin's own files, from the store or from .ai/vendor alone. Whose
// it is depends on who signed it.
func TestPlugin(t *testing.T) {
	for _, by := range []key.Private{keytest.Alice(), keytest.Bob()} {
		p := withPlugin(t, true, by)
		must(t, p.lock())
		stranger := by.Public() == keytest.Bob().Public()
		if plan := p.starts(t, server); plan.Stranger != stranger {
			t.Errorf("a stranger's: %v", plan.Stranger)
		}
		must(t, os.WriteFile(filepath.Join(filepath.Dir(p.Dir), "demo", "bin", "x"), []byte("other"), 0o755))
		p.starts(t, server)
		must(t, os.WriteFile(filepath.Join(filepath.Dir(p.Dir), "demo", "bin", "x"), []byte(program), 0o755))
		p.vendor(t)
		p.starts(t, server)
	}
}

// refusesPlugin has to refuse the tool of the plugin.
func (p *project) refusesPlugin(t *testing.T, what string, code fault.Code, text string) {
	t.Helper()
	s, err := p.open(t, session.Options{})
	if err == nil {
		_, err = start(t, s, server)
	}
	if err == nil || fault.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %s %v", what, fault.CodeOf(err), err)
	}
}

// TestPluginRefused: the policies are asked about a plugin and all of its files at each call, and its bytes are
// hashed.
func TestPluginRefused(t *testing.T) {
	p := withPlugin(t, true, keytest.Bob())
	must(t, p.lock())
	p.vendor(t)
	p.starts(t, server)

	// A session that has called it before asks again.
	s, err := p.open(t, session.Options{})
	must(t, err)
	if _, err := start(t, s, server); err != nil {
		t.Fatal(err)
	}
	sum := cas.Sum([]byte("{}"))
	must(t, p.trusting(fmt.Sprintf("revoked: {%q: {reason: bad}}\n", sum)))
	if _, err := start(t, s, server); fault.CodeOf(err) != fault.Policy ||
		!strings.Contains(err.Error(), `the file "plugin.json" of "bundle:plugins/demo@1.0.0" is revoked`) {
		t.Errorf("a revoked file, in a session: %s %v", fault.CodeOf(err), err)
	}
	p.refusesPlugin(t, "a revoked file", fault.Policy, "is revoked")
	must(t, p.trusting(""), p.write(".ai/policy.yaml", fmt.Sprintf("rye: policy/2\nkeys:\n  bob: {key: %q}\nnames:\n"+
		"  \"**\": {keys: [bob]}\nrevoked: {%q: {reason: bad}}\n", keytest.Bob().Public(), sum)))
	p.refusesPlugin(t, "a file that the project revokes", fault.Policy, "is revoked")
	must(t, os.Remove(filepath.Join(p.Dir, ".ai", "policy.yaml")))
	must(t, p.policyFile(fmt.Sprintf("rye: policy/2\nkeys:\n  alice: {key: %q}\n  bob: {key: %q}\nnames:\n"+
		"  \"**\": {keys: [alice, bob]}\n  \"bundle:plugins/**\": {keys: [alice, bob], threshold: 2}\n",
		keytest.Alice().Public(), keytest.Bob().Public())))
	p.refusesPlugin(t, "a manifest with one signature of two", fault.BelowThreshold, "plugins/demo")
	must(t, p.trusting(""))
	p.starts(t, server)

	// Other bytes, and none.
	vendored := func(change func(path string) error) {
		t.Helper()
		found := 0
		dir := filepath.Join(p.Dir, ".ai", "vendor")
		must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if err == nil && strings.Contains(string(b), program) {
				found++
				return change(path)
			}
			return err
		}))
		if found == 0 {
			t.Fatal("the program isn't vendored")
		}
	}
	keep := map[string]string{}
	vendored(func(path string) error {
		b, err := os.ReadFile(path)
		keep[path] = string(b)
		must(t, err, os.Chmod(path, 0o644))
		return os.WriteFile(path, []byte(strings.ReplaceAll(string(b), program, strings.ToUpper(program))), 0o644)
	})
	sandboxtest.Unlock(p.Cache.Path)
	must(t, os.RemoveAll(p.Cache.Path), os.RemoveAll(p.Store.Path))
	p.refusesPlugin(t, "other bytes", fault.Integrity, "")
	for path, text := range keep {
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	p.starts(t, server)
}

// TestPluginOfProject: an item of the project uses a plugin of the lock below whose id it is, and is a stranger's
// even with the user's signature. A plugin that isn't locked, or a bundle that isn't a plugin, is refused.
func TestPluginOfProject(t *testing.T) {
	mine := model.Ref{Kind: "tool", ID: "plugins/demo/servers/mine"}
	for name, c := range map[string]struct {
		id, of   string
		isPlugin bool
		code     fault.Code
		text     string
	}{
		"a locked plugin": {mine.ID, "plugins/demo", true, "", ""},
		"another id":      {"acme/mine", "plugins/demo", true, fault.Denied, "only items below its id can"},
		"one that isn't there": {"plugins/none/mine", "plugins/none", true, fault.NotLocked,
			`"plugins/none" is not locked`},
		"no plugin": {mine.ID, "plugins/demo", false, fault.Validation, `"plugins/demo" is not a plugin`},
	} {
		p := withPlugin(t, c.isPlugin, keytest.Alice())
		at := model.Ref{Kind: "tool", ID: c.id}
		must(t, p.sign(at, serverText(c.id, c.of)), p.lock())
		if c.code == "" {
			if plan := p.starts(t, at); !plan.Stranger || len(plan.Grants.Read) > 0 {
				t.Errorf("%s: it counts as the user's", name)
			}
			continue
		}
		s, err := p.open(t, session.Options{})
		must(t, err)
		if _, err := start(t, s, at); fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %s %v", name, fault.CodeOf(err), err)
		}
	}
}

// sign writes a tool of the project, signed by Alice.
func (p *project) sign(ref model.Ref, text string) error {
	name := ".ai/tools/" + ref.ID + ".yaml"
	if err := p.write(name, text); err != nil {
		return err
	}
	signed, err := p.signed(ref)
	if err != nil {
		return err
	}
	return p.write(name, signed)
}

// TestPluginUnlocked: without a lock no tool runs with a plugin, whatever the working tree has. A session can be given
// what isn't a bundle yet, and its items get what they declare, in the sandbox for strangers.
func TestPluginUnlocked(t *testing.T) {
	p := testProject(t)
	must(t, p.sign(server, strings.Replace(serverText(server.ID, "plugins/demo"), "\nconfig:",
		"\nfiles: {read: [docs]}\nconfig:", 1)))
	o := session.Options{Mode: session.Mode{Unlocked: true}}
	s, err := p.open(t, o)
	must(t, err)
	if _, err := start(t, s, server); fault.CodeOf(err) != fault.NotLocked {
		t.Errorf("%s %v", fault.CodeOf(err), err)
	}
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755),
		os.WriteFile(filepath.Join(dir, "bin", "x"), []byte(program), 0o755))
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	listing, err := plugin.List(root.FS())
	must(t, err)
	o.Plugins = func(ctx context.Context, id string) (*chain.Plugin, error) {
		return chain.ReadPlugin(ctx, id, "project", root.FS(), listing)
	}
	if s, err = p.open(t, o); err == nil {
		var plan *exec.Plan
		if plan, err = start(t, s, server); err == nil && (!plan.Stranger || len(plan.Grants.Read) != 1 ||
			!strings.HasPrefix(plan.Action.Sandbox.Data[0], plan.Action.Scratch)) {
			t.Errorf("%v, %+v, %q", plan.Stranger, plan.Grants, plan.Action.Sandbox.Data)
		}
	}
	must(t, err)
}
