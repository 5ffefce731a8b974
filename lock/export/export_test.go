package export_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/itemtest"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/cosign"
	"github.com/rye-build/rye/bundle/create"
	"github.com/rye-build/rye/bundle/find"
	installed "github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/export"
	"github.com/rye-build/rye/lock/restore"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// tool is one of acme/ID, which runs nothing but the library.
func tool(id string) string {
	return itemtest.Tool(id, "rye/core/primitives/subprocess", `config: {command: "true"}`)
}

const review = "```xml\n<directive name=\"review\" version=\"1.0.0\">\n<metadata><description>A test</description>" +
	"<category>acme/deploy</category></metadata>\n</directive>\n```\nDo it.\n"

// made makes the bundle of a project with one tool, or with a plugin.json its plugin, and signs it as alice.
func made(t *testing.T, id string, files map[string]string, needs ...manifest.Require) *projecttest.Project {
	t.Helper()
	items := files
	if files == nil {
		items = map[string]string{"tools/" + id + "/run.yaml": tool(id + "/run")}
	}
	p := projecttest.With(t, "", items)
	r, err := recipe.New(id, "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if r.Requires = needs; files == nil {
		r.Plugin = true
		p.Write(plugin.ManifestFile, `{"$schema": "`+plugin.ManifestSchema+`", "name": "demo", "version": "1.0.0"}`)
		p.Write("skills/hello/SKILL.md", "---\nname: hello\ndescription: Says hello\n---\nHello.\n")
		p.Write(plugin.ItemsDir+"/tools/"+id+"/run.yaml", p.Read(".ai/tools/"+id+"/run.yaml"))
		for _, name := range []string{".ai", ".git", workspace.MarkerFile} {
			p.Remove(name)
		}
	}
	_, err = create.Create(t.Context(), create.Options{Dir: p.Dir, Recipe: r,
		Trust: admissiontest.Trust(t, projecttest.Noon, admissiontest.ByAlice),
		Below: []*ai.Space{find.LibrarySpace()}, Store: new(cas.Memory),
		Sign: func(d *manifest.Document) error { // the policies don't know Eve
			return errors.Join(d.Sign(keytest.Alice(), projecttest.Noon), d.Sign(keytest.Eve(), projecttest.Noon))
		},
		Keys: func(manifest.Signatures) []manifest.SignerKey {
			return []manifest.SignerKey{{Public: keytest.Alice().Public(), Owner: "Alice"}}
		}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// consumer makes a project that requires bundles and has them in its lock.
func consumer(t *testing.T, requires map[string]*projecttest.Project) *projecttest.Project {
	t.Helper()
	p := projecttest.With(t, "", nil)
	yaml := "requires:\n"
	for id, of := range requires {
		where, err := filepath.Rel(p.Dir, of.Dir)
		if err != nil {
			t.Fatal(err)
		}
		yaml += "  " + id + ": {version: \"^1.0\", from: \"" + filepath.ToSlash(where) + "\"}\n"
	}
	p.Write(workspace.MarkerFile, yaml)
	l := p.Lock()
	made, err := restore.Make(t.Context(), l, restore.Request(t.Context(), l))
	if err == nil {
		err = l.Write(made)
	}
	if err != nil {
		t.Fatalf("%v", fault.Of(err))
	}
	return p
}

func opened(p *projecttest.Project) *workspace.Workspace {
	return p.Workspace(workspace.Options{Offline: true, Now: func() time.Time { return projecttest.Noon }})
}

// below returns the files in a directory.
func below(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// deploy is a project whose lock has acme/deploy, and acme/base, which it and acme/mid require.
func deploy(t *testing.T) *projecttest.Project { return deployOf(t, deployBundle(t)) }

func deployOf(t *testing.T, of *projecttest.Project) *projecttest.Project {
	base := made(t, "acme/base", map[string]string{"tools/acme/base/run.yaml": tool("acme/base/run")})
	mid := made(t, "acme/mid", map[string]string{"tools/acme/mid/run.yaml": tool("acme/mid/run")}, onBase)
	return consumer(t, map[string]*projecttest.Project{"acme/base": base, "acme/mid": mid, "acme/deploy": of})
}

var onBase = manifest.Require{BundleID: "acme/base", Version: "^1.0"}

func deployBundle(t *testing.T) *projecttest.Project {
	return made(t, "acme/deploy", map[string]string{"tools/acme/deploy/go.yaml": tool("acme/deploy/go"),
		"directives/acme/deploy/review.md": review}, onBase,
		manifest.Require{BundleID: "acme/mid", Version: "^1.0"})
}

// embed adds a note to the evidence of a project's bundle, and returns the bundle.
func embed(t *testing.T, p *projecttest.Project, id string) *find.Found {
	t.Helper()
	finder := opened(p).Finder()
	finder.Below = func(context.Context, string, []manifest.Require) ([]*ai.Space, []bundle.Need, error) {
		return []*ai.Space{find.LibrarySpace()}, nil, nil
	}
	found, err := finder.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	change := &cosign.Change{Bundle: found, Key: keytest.Alice(), Time: projecttest.Noon,
		Store: func(bool) (*disk.Store, error) { return nil, fs.ErrNotExist }}
	change.Verify.Trust = admissiontest.Trust(t, projecttest.Noon, admissiontest.ByAlice)
	change.Verify.TempDir = t.TempDir()
	if _, _, err := change.Embed(t.Context(), "note.txt", "text/plain", []byte("a note")); err != nil {
		t.Fatalf("%v", fault.Of(err))
	}
	if found, err = finder.Find(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return found
}

// A bundle takes what it requires with it, which the project of the plugin locks and doesn't run.
func TestRequires(t *testing.T) {
	p := deploy(t)
	out := filepath.Join(t.TempDir(), "new", "out")
	w := opened(p)
	w.Version = "1.2.3" // a release, which the project then needs
	r, err := export.Plugin(t.Context(), w, export.Options{ID: "acme/deploy", Dir: out})
	if err != nil {
		t.Fatalf("%v", fault.Of(err))
	}
	files := below(t, out)
	if r.Plugin != "acme.deploy" || !r.Server || r.Files != len(files) || len(r.Signers) != 1 {
		t.Errorf("%+v with %d files", r, len(files))
	}
	for _, want := range []string{`acme/base: {version: "=1.0.0", from: acme-base-1.0.0`, "use: []}",
		"\nrye: \"1.2.3\"\n",
		`acme/deploy: {version: "=1.0.0", from: acme-deploy-1.0.0`} {
		if !strings.Contains(files["rye.yaml"], want) {
			t.Errorf("no %q in\n%s", want, files["rye.yaml"])
		}
	}
	for _, want := range []string{"acme/base", "acme/deploy", "tool:acme/deploy/go"} {
		if !strings.Contains(files["rye.lock"], want) {
			t.Errorf("no %q in\n%s", want, files["rye.lock"])
		}
	}
	if strings.Contains(files["rye.lock"], "tool:acme/base/run") {
		t.Errorf("the lock has what the bundle doesn't use:\n%s", files["rye.lock"])
	}
}

// A bundle whose requirement is missing isn't exported.
func TestRequiresMissing(t *testing.T) {
	p := deployBundle(t)
	w := opened(p)
	found, err := w.Finder().Find(t.Context(), "acme/deploy")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	_, err = export.Plugin(t.Context(), w, export.Options{Bundle: found, Dir: out})
	if err == nil || !strings.Contains(err.Error(), "acme/base") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Error("it was written")
	}
}

// install installs the bundle of a project for the user of another one.
func install(t *testing.T, w *workspace.Workspace, id string, of *projecttest.Project) {
	t.Helper()
	found, err := opened(of).Finder().Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	space, err := w.Space()
	if err == nil {
		space.Store, err = w.OpenStore(true)
	}
	if err != nil {
		t.Fatal(err)
	}
	verify := bundle.VerifyOptions{Trust: admissiontest.Trust(t, projecttest.Noon, admissiontest.ByAlice),
		Below: []*ai.Space{find.LibrarySpace()}}
	report, err := found.Import(t.Context(), space.Store, verify, func(r io.Reader) io.Reader { return r })
	if err == nil {
		_, err = space.Install(t.Context(), installed.Request{ID: report.Bundle.ID}, verify)
	}
	if err != nil {
		t.Fatalf("%v", fault.Of(err))
	}
}

// An installed bundle becomes a plugin with the installed bundles that it requires. Of these, another version than it
// allows is named.
func TestInstalled(t *testing.T) {
	p := projecttest.With(t, "", nil)
	w := opened(p)
	of := made(t, "acme/deploy", map[string]string{"tools/acme/deploy/go.yaml": tool("acme/deploy/go")}, onBase)
	base := made(t, "acme/base", map[string]string{"tools/acme/base/run.yaml": tool("acme/base/run")})
	install(t, w, "acme/base", base)
	install(t, w, "acme/deploy", of)
	exported := func(id string) (map[string]string, error) {
		t.Helper()
		found, err := w.Finder().Find(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if found.Where != find.InUser {
			t.Fatal(found.Where)
		}
		out := filepath.Join(t.TempDir(), "out")
		if _, err = export.Plugin(t.Context(), w, export.Options{Bundle: found, Dir: out}); err != nil {
			return nil, err
		}
		return below(t, out), nil
	}
	files, err := exported("acme/deploy")
	if err != nil {
		t.Fatalf("%v", fault.Of(err))
	}
	for _, want := range []string{"acme/base", "acme/deploy", "tool:acme/deploy/go"} {
		if !strings.Contains(files["rye.lock"], want) {
			t.Errorf("no %q in\n%s", want, files["rye.lock"])
		}
	}
	bad := filepath.Join(p.Home, ".ai", "bundles", "acme", "base", "manifest.yaml")
	text, err := os.ReadFile(bad)
	if err == nil {
		err = os.WriteFile(bad, []byte("no manifest"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exported("acme/deploy"); err == nil || !strings.Contains(err.Error(), "acme/base") {
		t.Errorf("an installed bundle that can't be read: %v", err)
	}
	if err := os.WriteFile(bad, text, 0o600); err != nil {
		t.Fatal(err)
	}
	next := onBase
	next.Version = "^2.0"
	install(t, w, "acme/next", made(t, "acme/next", map[string]string{"tools/acme/next/go.yaml": tool("acme/next/go")},
		next))
	if _, err := exported("acme/next"); err == nil || !strings.Contains(err.Error(), "acme/base") ||
		!strings.Contains(err.Error(), "^2.0") {
		t.Errorf("%v", err)
	}
}

// Evidence of a plugin and the keys of its signers come back beside its manifest. A client of another bundle gets no
// evidence, which is said.
func TestEvidence(t *testing.T) {
	p := made(t, "plugins/demo", nil)
	found := embed(t, p, "plugins/demo")
	out := filepath.Join(t.TempDir(), "out")
	r, err := export.Plugin(t.Context(), opened(p), export.Options{Bundle: found, Dir: out})
	if err != nil || !r.AsIs {
		t.Fatalf("%+v, %v", r, err)
	}
	got := below(t, out)
	if got[plugin.Namespace+"/note.txt"] != "a note" || got[bundle.PluginKeys] != p.Read(bundle.PluginKeys) ||
		got[bundle.PluginKeys] == "" {
		t.Errorf("%q", got)
	}
	of := deployBundle(t)
	embed(t, of, "acme/deploy")
	w := opened(deployOf(t, of))
	r, err = export.Plugin(t.Context(), w, export.Options{ID: "acme/deploy", Dir: out, DryRun: true})
	if err != nil || len(r.Skipped) == 0 || !strings.Contains(r.Skipped[len(r.Skipped)-1].Part, "note.txt") {
		t.Errorf("%+v, %v", r, err)
	}
}

// vendorAlone vendors what the lock of a project names, and leaves it without its store and its bundles' sources.
func vendorAlone(t *testing.T, p *projecttest.Project, sources ...*projecttest.Project) *projecttest.Project {
	t.Helper()
	if err := os.MkdirAll(p.At(workspace.MarkerDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := restore.Vendor(t.Context(), p.Lock(), restore.FetchResult{}); err != nil {
		t.Fatal(err)
	}
	p.ForgetStore()
	for _, of := range sources {
		if err := os.RemoveAll(of.Dir); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// From .ai/vendor alone, a plugin comes back with its evidence, and another bundle becomes the same plugin as before.
func TestVendored(t *testing.T) {
	exported := func(p *projecttest.Project, id string) map[string]string {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		if _, err := export.Plugin(t.Context(), opened(p), export.Options{ID: id, Dir: out}); err != nil {
			t.Fatalf("%s: %v", id, fault.Of(err))
		}
		return below(t, out)
	}
	for _, id := range []string{"plugins/demo", "acme/deploy"} {
		var of, p *projecttest.Project
		if id == "acme/deploy" {
			of = deployBundle(t)
			embed(t, of, id)
			p = deployOf(t, of)
		} else {
			of = made(t, id, nil)
			embed(t, of, id)
			p = consumer(t, map[string]*projecttest.Project{id: of})
		}
		want := exported(p, id)
		if got := exported(vendorAlone(t, p, of), id); !maps.Equal(got, want) {
			t.Errorf("%s: %d files, not %d", id, len(got), len(want))
		}
		if _, has := want[plugin.Namespace+"/note.txt"]; has != (id == "plugins/demo") {
			t.Errorf("%s: evidence: %v", id, has)
		}
	}
}

// What a vendored project lacks of a bundle is named, with the way to get it.
func TestVendoredLacking(t *testing.T) {
	of := made(t, "acme/deploy", map[string]string{"tools/acme/deploy/go.yaml": tool("acme/deploy/go"),
		"directives/acme/deploy/review.md": review})
	p := consumer(t, map[string]*projecttest.Project{"acme/deploy": of})
	yaml := p.Read(workspace.MarkerFile)
	p.Write(workspace.MarkerFile, strings.Replace(yaml, "}", `, use: ["tool:**"]}`, 1))
	l := p.Lock()
	narrow, err := restore.Make(t.Context(), l, restore.Request(t.Context(), l))
	if err == nil {
		err = l.Write(narrow)
	}
	if err != nil {
		t.Fatalf("%v", fault.Of(err))
	}
	vendorAlone(t, p, of)
	_, err = export.Plugin(t.Context(), opened(p), export.Options{ID: "acme/deploy",
		Dir: filepath.Join(t.TempDir(), "out")})
	f := fault.Of(err)
	if f.Code != fault.NotFound ||
		!strings.Contains(f.Text, `"acme/deploy": ".ai/directives/acme/deploy/review.md" is missing`) ||
		!slices.Equal(f.Hint, []string{"rye bundle import acme-deploy-1.0.0.tar.zst"}) {
		t.Errorf("%s: %q, %q", f.Code, f.Text, f.Hint)
	}
}

// What can't be read or written is an error, and nothing is left.
func TestRefused(t *testing.T) {
	p := deploy(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := export.Plugin(t.Context(), opened(p), export.Options{ID: "acme/deploy",
		Dir: filepath.Join(file, "in", "out")}); err == nil {
		t.Error("it was written below a file")
	}
	p.ForgetStore()
	if err := os.WriteFile(p.Store(), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w := opened(p)
	if _, err := export.Plugin(t.Context(), w, export.Options{ID: "acme/deploy", Dir: t.TempDir()}); err == nil {
		t.Error("a file is a store")
	}
	t.Run("no temporary directory", func(t *testing.T) {
		p, out := deploy(t), filepath.Join(t.TempDir(), "out")
		t.Setenv("TMPDIR", file)
		if _, err := export.Plugin(t.Context(), opened(p), export.Options{ID: "acme/deploy", Dir: out}); err == nil {
			t.Error("its project was made nowhere")
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	w = opened(p)
	if err := os.WriteFile(filepath.Join(p.Home, ".ai", "policy.yaml"), []byte("rye: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	if _, err := export.Plugin(t.Context(), w, export.Options{ID: "acme/deploy", Dir: out}); err == nil {
		t.Error("no policy is needed")
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// countdown is a context that ends when it was asked a number of times whether it has.
type countdown struct {
	context.Context
	end  context.CancelFunc
	mu   sync.Mutex
	left int
}

func (c *countdown) step() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		c.end()
	}
}

func (c *countdown) Err() error {
	c.step()
	return c.Context.Err()
}

func (c *countdown) Done() <-chan struct{} {
	c.step()
	return c.Context.Done()
}

// Interrupted at whatever moment, an export leaves no directory, and then the same call completes it.
func TestInterruptedAnywhere(t *testing.T) {
	vendored := deploy(t)
	if err := os.MkdirAll(vendored.At(workspace.MarkerDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := restore.Vendor(t.Context(), vendored.Lock(), restore.FetchResult{}); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*projecttest.Project{"acme/deploy": deploy(t), "acme/deploy, vendored": vendored,
		"plugins/demo": consumer(t, map[string]*projecttest.Project{"plugins/demo": made(t, "plugins/demo", nil)})} {
		t.Run(name, func(t *testing.T) {
			id, _, forget := strings.Cut(name, ",")
			dir := t.TempDir()
			ended := 0
			for n := 0; ; n += 1 + n/16 {
				if forget {
					p.ForgetStore()
				}
				w := opened(p)
				ctx, end := context.WithCancel(t.Context())
				_, err := export.Plugin(&countdown{Context: ctx, end: end, left: n}, w,
					export.Options{ID: id, Dir: filepath.Join(dir, "out")})
				whole := ctx.Err() == nil
				end()
				if err == nil {
					break
				}
				if ended++; whole {
					t.Fatalf("step %d: %v", n, err)
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Fatalf("step %d: left %v, %v", n, left, err)
				}
			}
			if ended == 0 || len(below(t, filepath.Join(dir, "out"))) == 0 {
				t.Errorf("ended %d times", ended)
			}
		})
	}
}
