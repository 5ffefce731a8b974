package parts_test

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/exec/catalog/launcher"
	"github.com/rye-build/rye/exec/parts"
	"github.com/rye-build/rye/manifest"
)

const itemsDir = "io.github.rye-build/items/"

// verify verifies the items of the plugin's directory, as if a manifest listed what is there now.
func (w *world) verify(change func(*manifest.FileList)) (failures []string) {
	w.Helper()
	list := &manifest.FileList{BundleID: "plugins/greeter", Version: "1.0.0", Plugin: manifest.PluginVersion}
	if change != nil {
		change(list)
	}
	var files []manifest.File
	if err := filepath.WalkDir(w.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := cas.File
		if info.Mode()&0o100 != 0 {
			mode = cas.Exec
		}
		rel, err := filepath.Rel(w.dir, name)
		files = append(files, manifest.File{Path: filepath.ToSlash(rel), Digest: cas.Sum(text), Size: int64(len(text)),
			Mode: mode})
		return err
	}); err != nil {
		w.Fatal(err)
	}
	slices.SortFunc(files, func(a, b manifest.File) int { return strings.Compare(a.Path, b.Path) })
	_, made, err := manifest.AppendFileList(nil, list, files)
	if err != nil {
		w.Fatal(err)
	}
	b := &bundle.Bundle{FileList: made, Files: files}
	blobs := find.BlobsOf(os.DirFS(w.dir), b, "")
	_, view, err := bundle.View(w.Context(), blobs, made, files, []*ai.Space{find.LibrarySpace()}, nil)
	if err != nil {
		w.Fatal(err)
	}
	found, err := parts.Verify(w.Context(), b, blobs, view)
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range found {
		failures = append(failures, f.Error())
	}
	return failures
}

// signed makes a plugin with a skill and servers of each kind, and its items.
func signedPlugin(t *testing.T) *world {
	w := newWorld(t)
	w.write("plugin.json", `{"$schema": "`+plugin.ManifestSchema+`", "name": "greeter", "version": "1.0.0", "extensions": {"io.github.rye-build": {"requires": {"acme/base": "^1.0.0"},
		"servers": {"db": {"network": ["db.example.com"], "risk": "read"}}}}}`)
	w.write("bin/db", "#!/bin/sh\n")
	w.write("skills/say-hello/more.md", "More.\n")
	w.mcp(`"db": {"type": "stdio", "command": "./bin/db", "args": ["{x}", "${PLUGIN_DATA}/y"], "env": {"A": "b"}},
		"n": {"type": "stdio", "command": "npx", "args": ["-y", "server@^1"]},
		"u": {"type": "stdio", "command": "uvx", "args": ["server"]},
		"web": {"type": "streamable-http", "url": "https://h.example/mcp", "headers": {"X-A": "b"}}`)
	ask, _ := asks(t, map[string][]string{"plugins/greeter/db": {"get"}, "plugins/greeter/n": {"get"},
		"plugins/greeter/u": {"get"}})
	w.mustMake(false, func(_ context.Context, p *launcher.Package) ([]byte, error) {
		if p.Ecosystem == "pypi" {
			return []byte(pipReport), nil
		}
		return []byte(npmLock), nil
	}, ask)
	return w
}

var (
	pipReport = `{"install": [{"download_info": {"url": "https://x/server-1.0-py3-none-any.whl",
		"archive_info": {"hashes": {"sha256": "` + strings.Repeat("ab", 32) + `"}}},
		"metadata": {"name": "server", "version": "1.0"}}]}`
	npmLock = `{"lockfileVersion": 3, "packages": {"": {}, "node_modules/server": {"version": "1.2.3",
		"integrity": "sha512-` + strings.Repeat("A", 86) + `==", "bin": "main.js"}}}`
)

func listing(list *manifest.FileList) {
	list.Requires = []manifest.Require{{BundleID: "acme/base", Version: "^1.0.0"}}
}

// edit replaces a text in a file, which has it.
func (w *world) edit(name, old, new string) {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, filepath.FromSlash(name)))
	if err != nil || !strings.Contains(string(text), old) {
		w.Fatalf("%s has no %q: %v\n%s", name, old, err, text)
	}
	w.write(name, strings.ReplaceAll(string(text), old, new))
}

// TestVerify: the items of a signed plugin are exactly those that its skills and servers give. Whatever they say
// otherwise is named.
func TestVerify(t *testing.T) {
	const (
		tools, servers = itemsDir + "tools/plugins/greeter/", itemsDir + "tools/plugins/greeter/servers/"
		directive      = itemsDir + "directives/plugins/greeter/say_hello.md"
	)
	for name, c := range map[string]struct {
		change func(w *world)
		want   []string // each is in one failure; none: it is good
	}{
		"as made": {func(*world) {}, nil},
		// The parts of the plugin say something else than its items.
		"another skill": {func(w *world) { w.edit("skills/say-hello/SKILL.md", "Do it.", "Do that.") },
			[]string{tools + `skills/say-hello/_files/SKILL.md": parts: expected blake3:`,
				`say_hello.md": parts: expected "`, "skills/say-hello gives another text",
				"gives another origin.files"}},
		"another file of a skill": {func(w *world) { w.write("skills/say-hello/more.md", "Less.\n") },
			[]string{`_files/more.md": parts: `}},
		"a skill without items": {func(w *world) { w.skill("other") },
			[]string{`skills/other/skill.yaml": parts: expected tool:plugins/greeter/skills/other/skill, ` +
				`found nothing: skills/other gives another one`}},
		"another command": {func(w *world) {
			w.write("bin/other", "")
			w.edit("mcp.json", "./bin/db", "./bin/other")
		}, []string{`servers/db.yaml": parts: expected "{plugin_root}/bin/other", found "{plugin_root}/bin/db": ` +
			`servers/db gives another config.command`}},
		"other arguments": {func(w *world) { w.edit("mcp.json", "{x}", "{y}") },
			[]string{"servers/db gives another config.args"}},
		"other variables": {func(w *world) { w.edit("mcp.json", `"A": "b"`, `"A": "c"`) },
			[]string{"servers/db gives another config.env.A"}},
		"another directory": {func(w *world) { w.edit("mcp.json", `"env"`, `"cwd": "./bin", "env"`) },
			[]string{`found "{plugin_root}": servers/db gives another config.cwd`}},
		"another address": {func(w *world) { w.edit("mcp.json", "h.example", "i.example") },
			[]string{"servers/web gives another config.url"}},
		"other headers": {func(w *world) { w.edit("mcp.json", "X-A", "X-B") },
			[]string{"servers/web gives another config.headers.X-A"}},
		"another name": {func(w *world) { w.edit("mcp.json", `"web"`, `"net"`) },
			[]string{`servers/net.yaml": parts: expected tool:plugins/greeter/servers/net, found nothing`,
				`servers/web.yaml": parts: expected nothing`}},
		"other wishes": {func(w *world) { w.edit("plugin.json", "db.example.com", "more.example.com") },
			[]string{"servers/db gives another network", `db/get.yaml": parts`}},
		"another package": {func(w *world) { w.edit("mcp.json", "server@^1", "other@^1") },
			[]string{"servers/n: it can't be pinned: its items have no list of packages that the command allows",
				`servers/_n/package-lock.json": parts: expected nothing`}},
		"another version of it": {func(w *world) { w.edit("mcp.json", "server@^1", "server@^2") },
			[]string{"servers/n: it can't be pinned"}},
		"no servers": {func(w *world) { w.write("mcp.json", "{}") },
			[]string{`servers/db/get.yaml": parts: expected nothing`}},
		"a plugin that is rejected": {func(w *world) { w.write("plugin.json", "{}") },
			[]string{`"plugin.json": parts: the plugin is rejected`}},
		"another version of the plugin": {func(w *world) { w.edit("plugin.json", `"1.0.0"`, `"1.0.1"`) },
			[]string{"expected 1.0.1, found 1.0.0: version isn't that of plugin.json"}},
		"another name of it": {func(w *world) { w.edit("plugin.json", `"greeter"`, `"greater"`) },
			[]string{"expected plugins/greater, found plugins/greeter: id isn't that of plugin.json"}},
		"other requirements": {func(w *world) { w.edit("plugin.json", "^1.0.0", "^2.0.0") },
			[]string{"requires isn't that of plugin.json"}},
		// The items say something else than the parts.
		"a program": {func(w *world) { w.edit(servers+"db.yaml", "{plugin_root}/bin/db", "/bin/sh") },
			[]string{`found "/bin/sh": servers/db gives another config.command`}},
		"a right": {func(w *world) { w.edit(servers+"db.yaml", "network:", "limits: {}\nnetwork:") },
			[]string{"expected nothing, found {}: servers/db gives another limits"}},
		"another plugin's files": {func(w *world) {
			w.edit(servers+"db.yaml", "plugin: plugins/greeter", "plugin: plugins/other")
		}, []string{"servers/db gives another plugin"}},
		"a right of a tool": {func(w *world) { w.edit(servers+"db/get.yaml", "db.example.com", "e.example.com") },
			[]string{"servers/db gives another network"}},
		"a risk": {func(w *world) { w.edit(servers+"db/get.yaml", "risk: read", "risk: write") },
			[]string{"servers/db gives another risk"}},
		"a definition": {func(w *world) { w.edit(servers+"db/get.yaml", "Does get", "Obeys me") },
			[]string{`servers/db/get.yaml": parts: expected nothing`}},
		"a runtime": {func(w *world) {
			w.edit(servers+"db/get.yaml", "executor_id: plugins/greeter/servers/db",
				"executor_id: rye/core/primitives/subprocess")
		}, []string{"servers/db gives another executor_id"}},
		"the start of Python": {func(w *world) { w.write(servers+"_u/start.py", "import evil\n") },
			[]string{`_u/start.py": parts: expected blake3:`}},
		"what the skill runs": {func(w *world) {
			w.edit(tools+"skills/say-hello/skill.yaml", "command: cat", "command: sh")
		}, []string{`found "sh": skills/say-hello gives another config.command`}},
		"the text of the skill": {func(w *world) {
			w.edit(directive, "Do it.", "Do that.")
		}, []string{"skills/say-hello gives another text"}},
		"what the skill may do": {func(w *world) {
			w.edit(directive, "<execute><tool>plugins/greeter/skills/say-hello/skill", "<execute><tool>*")
		}, []string{"skills/say-hello gives another permissions"}},
		"a mode": {func(w *world) {
			if err := os.Chmod(filepath.Join(w.dir, tools, "skills/say-hello/_files/more.md"), 0o755); err != nil {
				w.Fatal(err)
			}
		}, []string{"expected file, found exec: skills/say-hello gives another one"}},
		"one more item": {func(w *world) {
			w.write(servers+"mine.yaml", "version: 1.0.0\ntool_type: mcp_server\n")
		}, []string{`servers/mine.yaml": parts: expected nothing, found none: no part of the plugin gives it`}},
		"one more file": {func(w *world) { w.write(tools+"skills/say-hello/_files/evil.md", "") },
			[]string{`_files/evil.md": parts: expected nothing`}},
		"an item less": {func(w *world) {
			if err := os.Remove(filepath.Join(w.dir, servers, "web.yaml")); err != nil {
				w.Fatal(err)
			}
		}, []string{"expected tool:plugins/greeter/servers/web, found nothing: servers/web gives another one"}},
		"no list of packages": {func(w *world) {
			if err := os.RemoveAll(filepath.Join(w.dir, servers, "_n")); err != nil {
				w.Fatal(err)
			}
		}, []string{"servers/n: it can't be pinned"}},
		// What means the same is the same: other versions of rye may write it so.
		"another layout": {func(w *world) {
			w.edit(servers+"web.yaml", "config:", "# Made by another version.\nconfig:")
			w.edit(servers+"db.yaml", "risk: read\n", "")
			w.edit(servers+"db.yaml", "tool_type: mcp_server\n", "tool_type: \"mcp_server\"\nrisk: 'read'\n")
			w.edit(directive, "  <metadata>\n", "\n  <!-- Made so. -->\n<metadata>\n")
			w.edit(tools+"skills/say-hello/skill.yaml", "  command: cat\n", "  \"command\": \"cat\"\n")
		}, nil},
		"a tool less": {func(w *world) { // its publisher may leave out tools that it has announced
			if err := os.Remove(filepath.Join(w.dir, servers, "db/get.yaml")); err != nil {
				w.Fatal(err)
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := signedPlugin(t)
			c.change(w)
			got := w.verify(listing)
			all := strings.Join(got, "\n")
			if len(c.want) == 0 && len(got) > 0 {
				t.Errorf("refused:\n%s", all)
			}
			for _, want := range c.want {
				if !strings.Contains(all, want) {
					t.Errorf("no %q in:\n%s", want, all)
				}
			}
		})
	}
}

// TestVerifyID: a plugin with an id of its own has its items below that.
func TestVerifyID(t *testing.T) {
	w := newWorld(t)
	if got := w.verify(nil); len(got) != 4 {
		t.Errorf("a plugin without items: %q", got)
	}
	made := w.mustMake(false, nil, nil)
	if got := w.verify(nil); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if got := w.verify(func(list *manifest.FileList) { list.BundleID = "plugins/other" }); len(got) != 1+2*4 ||
		!strings.Contains(got[0], "expected plugins/greeter, found plugins/other") {
		t.Errorf("under another id: %q", got)
	}
	if err := os.RemoveAll(path.Join(w.dir, itemsDir)); err != nil || len(made.Files) != 4 {
		t.Error(err, len(made.Files))
	}
}

// TestItemsAreTheFormat: signed plugins have these items, which every version of rye must accept. Where one makes
// others, Verify has to accept both.
func TestItemsAreTheFormat(t *testing.T) {
	w := signedPlugin(t)
	var all strings.Builder
	items := os.DirFS(filepath.Join(w.dir, itemsDir))
	if err := fs.WalkDir(items, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(items, name)
		all.WriteString("-- " + name + " --\n")
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "rye:signed:v2:") {
				all.WriteString(line)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	goldentest.File(t, "testdata/items.golden", []byte(all.String()))
}
