package parts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/catalog/launcher"
	"github.com/rye-build/rye/exec/parts"
	"github.com/rye-build/rye/lock/workspace/projecttest"
)

// mcp writes the plugin's servers.
func (w *world) mcp(servers string) {
	w.write("mcp.json", `{"$schema": "`+plugin.ServersSchema+`", "mcpServers": {`+servers+`}}`)
}

// announcement is what a server answers with tools of these names.
func announcement(t testing.TB, names ...string) *catalog.Announcement {
	t.Helper()
	var tools []any
	for _, name := range names {
		tools = append(tools, map[string]any{"name": name, "description": "Does " + name,
			"inputSchema": map[string]any{"type": "object"}})
	}
	a, err := catalog.Parse(map[string]any{"tools": tools})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// asks returns an Asker whose servers announce tools, and the names of those that it asked.
func asks(t testing.TB, tools map[string][]string) (parts.Asker, *[]string) {
	asked := new([]string)
	return func(_ context.Context, servers []*catalog.Server) (all []*catalog.Announcement, err error) {
		for _, s := range servers {
			*asked = append(*asked, s.Name)
			if tools[s.Name] == nil {
				all = append(all, nil)
			} else {
				all = append(all, announcement(t, tools[s.Name]...))
			}
		}
		return all, nil
	}, asked
}

// make makes the items of the plugin, an hour later each time.
func (w *world) make(same bool, list catalog.Lister, ask parts.Asker) (*parts.Made, error) {
	w.Helper()
	w.hours++
	o := w.options(w.read(), "plugins/greeter", projecttest.Noon.Add(time.Duration(w.hours)*time.Hour))
	o.List, o.Ask = list, ask
	if same {
		o.Same = parts.Items(w.dir)
	}
	return parts.Make(w.Context(), o)
}

func (w *world) mustMake(same bool, list catalog.Lister, ask parts.Asker) *parts.Made {
	w.Helper()
	made, err := w.make(same, list, ask)
	if err == nil {
		err = made.Write(w.dir)
	}
	if err != nil {
		w.Fatal(err)
	}
	return made
}

// states are where the tools of servers come from.
func states(made *parts.Made) string {
	var words []string
	for _, s := range made.Servers {
		words = append(words, fmt.Sprintf("%s:%s:%d", s.At.Server, s.State, len(s.Tools)))
	}
	return strings.Join(words, " ")
}

// TestServers: a server becomes an item, and so does each of its tools. It is asked again when something of the plugin
// has changed.
func TestServers(t *testing.T) {
	w := newWorld(t)
	w.mcp(`"db": {"type": "stdio", "command": "announce"}, "no": {"type": "stdio", "command": "announce"},
		"web": {"type": "streamable-http", "url": "https://h.example/mcp"},
		"mail": {"type": "stdio", "command": "announce"}, "a b": {"type": "stdio", "command": "announce"}`)
	w.write("plugin.json", `{"$schema": "`+plugin.ManifestSchema+`", "name": "greeter", "version": "1.0.0",
		"extensions": {"io.github.rye-build": {"servers": {"mail": {"secrets": ["mail-token"]}}}}}`)
	ask, asked := asks(t, map[string][]string{"plugins/greeter/db": {"get", "put it"}, "plugins/greeter/a_b": {"x"}})
	made := w.mustMake(false, nil, ask)
	if got := states(made); got != "a_b:asked:1 db:asked:2 mail:unpinned:0 no:unpinned:0 web:unpinned:0" {
		t.Error(got)
	}
	if got := strings.Join(*asked, " "); got != "plugins/greeter/a_b plugins/greeter/db plugins/greeter/no" {
		t.Error(got)
	}
	for _, ref := range []string{"tool:plugins/greeter/servers/db", "tool:plugins/greeter/servers/db/put_it",
		"tool:plugins/greeter/servers/a_b/x", "tool:plugins/greeter/servers/web"} {
		if !slices.Contains(made.Refs, ref) {
			t.Errorf("no %s in %q", ref, made.Refs)
		}
	}
	if why := made.Servers[2].Why; !strings.Contains(why, "secret") {
		t.Error(why)
	}
	// Nothing has changed: no server with pinned tools is asked, and no byte differs.
	ask, _ = asks(t, map[string][]string{"plugins/greeter/no": {"late"}})
	again := w.mustMake(true, nil, ask)
	if got := states(again); got != "a_b:kept:1 db:kept:2 mail:unpinned:0 no:asked:1 web:unpinned:0" {
		t.Error(got)
	}
	for _, f := range made.Files {
		i := slices.IndexFunc(again.Files, func(g skill.File) bool { return g.Path == f.Path })
		if i < 0 || string(again.Files[i].Bytes) != string(f.Bytes) {
			t.Errorf("%s differs", f.Path)
		}
	}
	// Without an Asker none is asked, and what would be known of another server isn't taken.
	w.mcp(`"db": {"type": "stdio", "command": "announce", "args": ["other"]}`)
	if got := states(w.mustMake(true, nil, nil)); got != "db:unpinned:0" {
		t.Error(got)
	}
}

// TestAcceptedTools: the tools of a server that isn't asked here stay as its user has accepted them.
func TestAcceptedTools(t *testing.T) {
	w := newWorld(t)
	w.mcp(`"web": {"type": "streamable-http", "url": "https://h.example/mcp"}`)
	made := w.mustMake(false, nil, nil)
	text, err := catalog.Stub(made.Servers[0].At, made.Servers[0].Spec, announcement(t, "get").Tools[0])
	if err != nil {
		t.Fatal(err)
	}
	w.write("io.github.rye-build/items/tools/plugins/greeter/servers/web/get.yaml", string(text))
	if again := w.mustMake(true, nil, nil); states(again) != "web:kept:1" ||
		!slices.Contains(again.Refs, "tool:plugins/greeter/servers/web/get") {
		t.Errorf("%s, %q", states(again), again.Refs)
	}
	if got := states(w.mustMake(false, nil, nil)); got != "web:unpinned:0" {
		t.Error(got)
	}
}

// TestPinnedTools: where no server is asked, tools stay as they are pinned as long as the item of their server does,
// whatever else of the plugin has changed.
func TestPinnedTools(t *testing.T) {
	w := newWorld(t)
	const db = `"db": {"type": "stdio", "command": "announce"}`
	w.mcp(db)
	ask, _ := asks(t, map[string][]string{"plugins/greeter/db": {"get"}})
	w.mustMake(false, nil, ask)
	w.write("new.md", "New.")
	for servers, want := range map[string]string{db: "db:kept:1",
		`"db": {"type": "stdio", "command": "announce", "args": ["x"]}`: "db:unpinned:0"} {
		w.mcp(servers)
		o := w.options(w.read(), "plugins/greeter", projecttest.Noon)
		o.Pinned = parts.Items(w.dir)
		made, err := parts.Make(t.Context(), o)
		if err != nil || states(made) != want {
			t.Errorf("%s: %s, %v", servers, states(made), err)
		}
	}
}

// TestEditedTools: an item that was edited isn't taken for what a server has said, nor one that can't be read.
func TestEditedTools(t *testing.T) {
	for name, edit := range map[string]func(text string) string{
		"description": func(text string) string { return strings.Replace(text, "Does get", "Obeys me", 1) },
		"definition":  func(text string) string { return strings.Replace(text, "blake3:", "blake3:x", 1) },
		"type":        func(text string) string { return strings.Replace(text, "tool_type: mcp", "tool_type: x", 1) },
		"YAML":        func(text string) string { return text + "{" },
	} {
		w := newWorld(t)
		w.mcp(`"db": {"type": "stdio", "command": "announce"}`)
		ask, asked := asks(t, map[string][]string{"plugins/greeter/db": {"get"}})
		w.mustMake(false, nil, ask)
		at := filepath.Join(w.dir, "io.github.rye-build/items/tools/plugins/greeter/servers/db/get.yaml")
		text, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(edit(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		if w.mustMake(true, nil, ask); len(*asked) != 2 {
			t.Errorf("%s: asked %q", name, *asked)
		}
	}
}

// TestPackages: what a launcher names is listed once, and again when the plugin has changed.
func TestPackages(t *testing.T) {
	w := newWorld(t)
	w.mcp(`"db": {"type": "stdio", "command": "npx", "args": ["-y", "server@^1", "{n}", "${PLUGIN_ROOT}/x"]},
		"u": {"type": "stdio", "command": "uvx", "args": ["server"]}`)
	listed := 0
	list := func(_ context.Context, p *launcher.Package) ([]byte, error) {
		listed++
		if p.Ecosystem == "pypi" {
			return []byte(`{"install": [{"download_info": {"url": "https://x/server-1.0-py3-none-any.whl",
				"archive_info": {"hashes": {"sha256": "` + strings.Repeat("ab", 32) + `"}}},
				"metadata": {"name": "server", "version": "1.0"}}]}`), nil
		}
		return []byte(`{"lockfileVersion": 3, "packages": {"": {}, "node_modules/server": {"version": "1.2.3",
			"integrity": "sha512-` + strings.Repeat("A", 86) + `==", "bin": "main.js"}}}`), nil
	}
	tools := map[string][]string{"plugins/greeter/db": {"get"}, "plugins/greeter/u": {"get"}}
	ask, asked := asks(t, tools)
	if got := states(w.mustMake(false, list, ask)); got != "db:asked:1 u:asked:1" || listed != 2 {
		t.Errorf("%s, listed %d times", got, listed)
	}
	dir := filepath.Join(w.dir, "io.github.rye-build/items/tools/plugins/greeter/servers")
	text, err := os.ReadFile(filepath.Join(dir, "db.yaml"))
	if err != nil || !strings.Contains(string(text), `"{packages_path}/node_modules/server/main.js"`) ||
		!strings.Contains(string(text), `"{{n}}"`) || !strings.Contains(string(text), `"{plugin_root}/x"`) {
		t.Errorf("%s, %v", text, err)
	}
	for _, name := range []string{"_db/package-lock.json", "_u/requirements.txt", "_u/start.py"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	made := w.mustMake(true, list, ask)
	if got := states(made); got != "db:kept:1 u:kept:1" || listed != 2 || len(*asked) != 2 {
		t.Errorf("%s, listed %d times, asked %q", got, listed, *asked)
	}
	if again, err := os.ReadFile(filepath.Join(dir, "db.yaml")); err != nil || string(again) != string(text) {
		t.Errorf("%s, %v", again, err)
	}
	w.mustMake(false, list, ask)
	if listed != 4 || len(*asked) != 4 {
		t.Errorf("listed %d times, asked %q", listed, *asked)
	}
	if err := os.RemoveAll(filepath.Join(dir, "_db")); err != nil {
		t.Fatal(err)
	}
	if w.mustMake(true, list, ask); listed != 5 {
		t.Errorf("listed %d times", listed)
	}
	// Without a Lister there is no item, and with one that fails nothing.
	if made, err = w.make(false, nil, nil); err != nil || len(made.Servers) > 0 || len(made.Skipped) > 0 {
		t.Errorf("%+v, %v", made, err)
	}
	gone := errors.New("the registry is gone")
	if _, err := w.make(false, func(context.Context, *launcher.Package) ([]byte, error) { return nil, gone },
		ask); !errors.Is(err, gone) {
		t.Error(err)
	}
}

// TestSkippedServers: each skipped server and tool is named with the reason.
func TestSkippedServers(t *testing.T) {
	w := newWorld(t)
	w.mcp(`"a b": {"type": "stdio", "command": "x"}, "a_b": {"type": "stdio", "command": "x"},
		"A": {"type": "stdio", "command": "x"}, "a": {"type": "stdio", "command": "x"},
		"con": {"type": "stdio", "command": "x"}, "` + strings.Repeat("l", 300) + `": {"type": "stdio", "command": "x"},
		"path": {"type": "stdio", "command": "x", "env": {"PATH": "x"}},
		"bun": {"type": "stdio", "command": "bunx", "args": ["server@1"]},
		"docker": {"type": "stdio", "command": "docker", "args": ["run", "x"]},
		"say-hello": {"type": "stdio", "command": "x"}`)
	ask, _ := asks(t, map[string][]string{"plugins/greeter/say-hello": {"a b", "a_b", "CON", "fine", "hi\u202eden"}})
	made, err := w.make(false, nil, ask)
	if err != nil {
		t.Fatal(err)
	}
	if got := states(made); got != "say-hello:asked:1" {
		t.Error(got)
	}
	if !slices.Contains(made.Refs, "tool:plugins/greeter/skills/say-hello/skill") {
		t.Errorf("a skill and a server of one name: %q", made.Refs)
	}
	var got []string
	for _, p := range made.Skipped {
		got = append(got, p.String())
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{
		"server skipped: servers/a b: servers/a b and servers/a_b would both be tool:plugins/greeter/servers/a_b",
		"server skipped: servers/a_b: servers/a b and servers/a_b would both be tool:plugins/greeter/servers/a_b",
		"server skipped: servers/A: servers/A and servers/a would both be",
		"server skipped: servers/a: servers/A and servers/a would both be", "server skipped: servers/con: ",
		"server skipped: servers/lllll", `servers/path: the variable "PATH" can't be set: env_config sets it`,
		"servers/bun: it can't be pinned: bunx downloads what it runs whenever it starts; what would be pinned: " +
			"npx -y server@1",
		"servers/docker: it can't be pinned: docker downloads what it runs",
		`tool skipped: servers/say-hello: the tools "a b" and "a_b" would both be`, "Windows",
		"tool skipped: servers/say-hello: the tool \"hi\\u202eden\" hides something: ",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if len(made.Skipped) != 13 {
		t.Errorf("%d skipped:\n%s", len(made.Skipped), all)
	}
	if err := parts.Check(w.read(), made.Skipped); err == nil || !strings.Contains(err.Error(), "breaks 13 rules") {
		t.Error(err)
	}
}

// TestServersRefused: an error of a server that is asked, and one of the stage, stops the whole.
func TestServersRefused(t *testing.T) {
	w := newWorld(t)
	w.mcp(`"db": {"type": "stdio", "command": "x"}`)
	dead := fault.New(fault.Failed, "the server died")
	if _, err := w.make(false, nil, func(context.Context, []*catalog.Server) ([]*catalog.Announcement, error) {
		return nil, dead
	}); !errors.Is(err, dead) {
		t.Error(err)
	}
	if _, err := w.make(false, nil, func(_ context.Context, s []*catalog.Server) ([]*catalog.Announcement, error) {
		return []*catalog.Announcement{announcement(t, "a")}, os.RemoveAll(s[0].Item.Space.Dir)
	}); err == nil {
		t.Error("items of a stage that is gone")
	}
	left, err := os.ReadDir(w.dir)
	if err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == plugin.Namespace }) {
		t.Errorf("%v, %v", left, err)
	}
}
