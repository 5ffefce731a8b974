package chain_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/itemtest"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

const (
	plugged = "plugins/demo/servers/s"
	fromIt  = "system:plugins/demo"
)

// blobs are bytes by their digests.
type blobs map[cas.Digest]string

func (b blobs) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	text, ok := b[id.Digest]
	if !ok {
		return cas.Object{}, fs.ErrNotExist
	}
	o := cas.Object{Info: cas.Info{ID: id, Size: int64(len(text))}}
	o.ReadCloser = io.NopCloser(strings.NewReader(text))
	return o, nil
}

// demo is the plugin plugins/demo, admitted by a key of the user's if own is set.
func demo(own bool) (*chain.Plugin, blobs) {
	bytes := blobs{}
	p := &chain.Plugin{ID: "plugins/demo", Bytes: bytes, Space: fromIt, Own: own, Vouchers: []string{"v"}}
	for _, f := range []struct {
		path, text string
		mode       cas.Mode
	}{{"bin/run", "#!/bin/sh\n", cas.Exec}, {"empty", "", cas.File}, {"plugin.json", "{}", cas.File},
		{"skills/a/twin", "{}", cas.File}} {
		digest := cas.Sum([]byte(f.text))
		bytes[digest] = f.text
		p.Files = append(p.Files, manifest.File{Path: f.path, Digest: digest, Size: int64(len(f.text)), Mode: f.mode})
	}
	return p, bytes
}

// A pluginWorld has an item in a space, which the library's runtime runs.
type pluginWorld struct {
	*world
	id, space string
	lines     []string
	signer    key.Private
	found     *chain.Plugin
	missing   error
}

// find finds the chain of the item.
func (w *pluginWorld) find() (*chain.Chain, error) {
	w.Helper()
	file := &fstest.MapFile{Data: []byte(itemtest.Tool(w.id, "rye/core/runtimes/r", w.lines...))}
	space := &ai.Space{Label: w.space, Level: ai.Project, FS: fstest.MapFS{"tools/" + w.id + ".yaml": file}}
	if strings.HasPrefix(w.space, "system:") {
		space.Level = ai.System
	}
	v, err := ai.NewView(w.Context(), ai.Options{Trust: w.trust, Spaces: []*ai.Space{space,
		{Label: "system:rye/std", Level: ai.System, FS: w.library, Builtin: true}}})
	if err != nil {
		w.Fatal(err)
	}
	it, err := v.Find(w.Context(), ref(w.id))
	if err != nil {
		w.Fatal(err)
	}
	file.Data = itemtest.Signed(w, ai.NewAdmitter(v, nil), it, noon, w.signer)
	s := w.source()
	s.Resolver, s.Admit = v, ai.NewAdmitter(v, w.trust)
	s.Plugins = func(_ context.Context, id string) (*chain.Plugin, error) {
		if w.missing != nil || id != w.found.ID {
			return nil, errors.Join(w.missing, fault.New(fault.NotLocked, "no plugin %q", id))
		}
		return w.found, nil
	}
	return s.Find(w.Context(), ref(w.id), fitsAll)
}

func newPluginWorld(t testing.TB) *pluginWorld {
	p, _ := demo(true)
	return &pluginWorld{world: newWorld(t, keytest.Alice()), id: plugged, space: fromIt, signer: keytest.Alice(),
		lines: []string{"plugin: plugins/demo"}, found: p}
}

// TestPlugin: the files of the plugin that a link names are part of the copy, below plugin/.
func TestPlugin(t *testing.T) {
	w := newPluginWorld(t)
	w.lines = append(w.lines, `config: {command: "{plugin_root}/bin/run", env: {D: "{plugin_data}"}}`)
	c, err := w.find()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, part := range c.Parts {
		o, err := c.Files.Get(t.Context(), part.ID)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(o)
		if err != nil || int64(len(b)) != part.Size {
			t.Errorf("%s: %d bytes, %v", part.Path, len(b), err)
		}
		fmt.Fprintln(&text, part.Path, part.Mode, part.Size)
	}
	fmt.Fprintln(&text, "plugin", c.Plugin.ID, "data", c.Data, "own", c.Own, "foreign", c.Foreign)
	goldentest.File(t, "testdata/plugin.golden", []byte(text.String()))
	before, err := c.Key()
	if err != nil {
		t.Fatal(err)
	}
	w.found.Files[1].Mode = cas.Exec
	if c, err = w.find(); err != nil {
		t.Fatal(err)
	}
	if after, err := c.Key(); err != nil || after == before {
		t.Errorf("another plugin is the same copy: %v", err)
	}
}

// TestPluginTampered: bytes that aren't what the manifest lists end in an error.
func TestPluginTampered(t *testing.T) {
	w := newPluginWorld(t)
	p, bytes := demo(true)
	w.found = p
	c, err := w.find()
	if err != nil {
		t.Fatal(err)
	}
	digest := cas.Sum([]byte("#!/bin/sh\n"))
	for _, text := range []string{"#!/bin/ls\n", "#!/bin/sh\n\n", ""} {
		bytes[digest] = text
		o, err := c.Files.Get(t.Context(), cas.ID{Kind: cas.Blob, Digest: digest})
		if err == nil {
			_, err = io.ReadAll(o)
		}
		if !errors.Is(err, cas.ErrDamaged) {
			t.Errorf("%q: %v", text, err)
		}
	}
	delete(bytes, digest)
	if _, err := c.Files.Get(t.Context(), cas.ID{Kind: cas.Blob, Digest: digest}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestPluginSigners: what runs a plugin is the user's own only if the plugin is, and its item comes with it.
func TestPluginSigners(t *testing.T) {
	for name, c := range map[string]struct {
		space        string
		signer       key.Private
		own, agreed  bool
		isOwn, other bool
	}{
		"the user's plugin":                      {fromIt, keytest.Alice(), true, false, true, false},
		"a stranger's plugin":                    {fromIt, keytest.Bob(), false, false, false, true},
		"a stranger's, with the user's item":     {fromIt, keytest.Alice(), false, false, false, true},
		"the user's, with a stranger's item":     {fromIt, keytest.Bob(), true, false, false, true},
		"an item of the project":                 {"project", keytest.Alice(), true, false, false, true},
		"one that the user agreed to":            {fromIt, keytest.Alice(), false, true, false, false},
		"another one, where the user has agreed": {"project", keytest.Alice(), false, true, false, true},
	} {
		w := newPluginWorld(t)
		w.space, w.signer, w.found.Own, w.found.Agreed = c.space, c.signer, c.own, c.agreed
		found, err := w.find()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if found.Own != c.isOwn || found.Foreign != c.other {
			t.Errorf("%s: own %v, foreign %v", name, found.Own, found.Foreign)
		}
	}
}

// TestPluginDerived: an item of a project that has the id of a plugin's is a stranger's although the user has signed
// it: another's instructions would get what the user's own tools get. A signed bundle's item is what its signer is.
func TestPluginDerived(t *testing.T) {
	for name, c := range map[string]struct {
		space, from  string // of the item, and of the plugin; "" if the item names none
		own, agreed  bool
		isOwn, other bool
	}{
		"of the project":             {"project", "", false, false, false, true},
		"of its bundle":              {fromIt, "", false, false, true, false},
		"of a plugin of one's own":   {"project", "project", true, false, true, false},
		"of a plugin of another's":   {"project", "project", false, false, false, true},
		"of one that was agreed to":  {"project", "project", false, true, false, false},
		"beside a plugin of another": {"project", fromIt, true, false, false, true},
	} {
		w := newPluginWorld(t)
		if w.space = c.space; c.from == "" {
			w.lines = nil
		}
		w.found.Space, w.found.Own, w.found.Agreed = c.from, c.own, c.agreed
		found, err := w.find()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if found.Own != c.isOwn || found.Foreign != c.other {
			t.Errorf("%s: own %v, foreign %v", name, found.Own, found.Foreign)
		}
	}
}

// TestPluginData: a tool that names the directory of its plugin's data anywhere may write it, and its risk says so.
func TestPluginData(t *testing.T) {
	for line, want := range map[string]bool{"pure: false": false, `config: {c: "{plugin_data}"}`: true,
		`env_config: {env: {D: "{plugin_data}"}}`: true, `env_config: {env: {D: "{plugin_root}"}}`: false} {
		w := newPluginWorld(t)
		w.lines = append(w.lines, line)
		if c, err := w.find(); err != nil || c.Data != want {
			t.Errorf("%s: %v, %v", line, c != nil && c.Data, err)
		}
	}
}

// TestPluginRefused: an item uses the files of the plugin above its id, and a bundle's item those of its own bundle.
func TestPluginRefused(t *testing.T) {
	mine := errors.New("it can't be read")
	for name, c := range map[string]struct {
		change func(*pluginWorld)
		code   fault.Code
		text   string
	}{
		"of another id": {func(w *pluginWorld) { w.id = "acme/x" }, fault.Denied, "only items below its id can"},
		"of a longer id": {func(w *pluginWorld) { w.id = "plugins/demonstration/x" }, fault.Denied,
			"only items below its id can"},
		"of another bundle": {func(w *pluginWorld) { w.space = "system:plugins" }, fault.Denied,
			`of system:plugins can't use the files of the plugin "plugins/demo": it is another bundle`},
		"not locked": {func(w *pluginWorld) {
			w.found.ID = "plugins/other"
		}, fault.NotLocked, `no plugin "plugins/demo"`},
		"unreadable": {func(w *pluginWorld) { w.missing = mine }, fault.NotLocked, "it can't be read"},
		"two plugins": {func(w *pluginWorld) {
			w.library["tools/rye/core/runtimes/r.yaml"].Data = []byte(itemtest.Tool("rye/core/runtimes/r", primitive,
				"plugin: rye/core"))
		}, fault.Validation, `the files of the plugin "rye/core", and a tool that runs it those of "plugins/demo"`},
	} {
		w := newPluginWorld(t)
		c.change(w)
		found, err := w.find()
		if err == nil || found != nil || fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, %s %v", name, found, fault.CodeOf(err), err)
		}
	}
	w := newPluginWorld(t)
	w.library["tools/rye/core/runtimes/r.yaml"].Data = []byte(itemtest.Tool("rye/core/runtimes/r", primitive,
		"plugin: rye/core"))
	s := w.source()
	if _, err := s.Find(t.Context(), ref("acme/x"), fitsAll); fault.CodeOf(err) != fault.NotLocked {
		t.Errorf("without a lock: %v", err)
	}
}

// TestReadPlugin: a directory has its files without rye's own, follows links, and what changes meanwhile is refused.
func TestReadPlugin(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"plugin.json": "{}", "bin/run": "#!/bin/sh\n",
		plugin.Namespace + "/items/tools/a.yaml": "old", plugin.Namespace + ".txt": "other"} {
		if err := errors.Join(os.MkdirAll(dir+"/"+name[:max(strings.LastIndex(name, "/"), 0)], 0o755),
			os.WriteFile(dir+"/"+name, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("bin/run", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	listing, err := plugin.List(root.FS())
	if err != nil {
		t.Fatal(err)
	}
	p, err := chain.ReadPlugin(t.Context(), "plugins/demo", "project", root.FS(), listing)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range p.Files {
		paths = append(paths, f.Path)
		o, err := p.Bytes.Get(t.Context(), cas.ID{Kind: cas.Blob, Digest: f.Digest})
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(o); err != nil || cas.Sum(b) != f.Digest || int64(len(b)) != f.Size {
			t.Errorf("%s: %v", f.Path, err)
		}
		o.Close()
	}
	if got := strings.Join(paths, " "); got != "bin/run io.github.rye-build.txt link plugin.json" || p.Own ||
		!p.Agreed || p.Vouchers != nil {
		t.Errorf("%s; %+v", got, p)
	}
	if err := os.WriteFile(dir+"/plugin.json", []byte("{ }"), 0o644); err != nil {
		t.Fatal(err)
	}
	o, err := p.Bytes.Get(t.Context(), cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte("{}"))})
	if err == nil {
		_, err = io.ReadAll(o)
		o.Close()
	}
	if !errors.Is(err, cas.ErrDamaged) {
		t.Errorf("a file that has changed: %v", err)
	}
	if _, err := p.Bytes.Get(t.Context(), cas.ID{}); err == nil {
		t.Error("a file that it doesn't have")
	}
	if err := os.Remove(dir + "/plugin.json"); err != nil {
		t.Fatal(err)
	}
	if _, err := chain.ReadPlugin(t.Context(), "plugins/demo", "project", root.FS(), listing); !errors.Is(err,
		fs.ErrNotExist) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := chain.ReadPlugin(ctx, "plugins/demo", "project", root.FS(), listing); !errors.Is(err,
		context.Canceled) {
		t.Error(err)
	}
}
