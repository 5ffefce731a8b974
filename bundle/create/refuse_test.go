package create

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/secret"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

func TestRefuses(t *testing.T) {
	const run, deploy = ".ai/tools/acme/deploy/run", ".ai/directives/acme/deploy.md"
	for name, c := range map[string]struct {
		change func(*world)
		want   []string
	}{
		"nothing": {func(w *world) {
			w.recipe("id: acme/none\nversion: 1.0.0\n")
		}, []string{"the bundle has no files"}},
		"expired": {func(w *world) { w.recipe(strings.Replace(recipeText, "2027-11-20", "2026-11-20", 1)) },
			[]string{
				`"bundle:acme/deploy@1.4.0" expired at 2026-11-20T00:00:00Z; the clock says 2026-11-20T12:00:00Z`}},
		"no entrypoint": {func(w *world) {
			w.recipe(strings.Replace(recipeText, "directive:acme/deploy", "directive:acme/deply", 1))
		},
			[]string{"the entrypoint is not an item of the bundle"}},
		"an entrypoint that is left out": {func(w *world) { w.recipe(recipeText + "exclude: [\"**/deploy.md\"]\n") },
			[]string{"the entrypoint is not an item of the bundle"}},
		"unsigned": {func(w *world) {
			w.write(".ai/tools/acme/deploy/two.yaml", toolText("acme/deploy/two", subprocess))
			w.write(deploy, directiveText)
		}, []string{`".ai/directives/acme/deploy.md": "directive:acme/deploy" is unsigned; "**" requires 1 key`,
			`".ai/tools/acme/deploy/two.yaml": "tool:acme/deploy/two" is unsigned; "**" requires 1 key`}},
		"a stranger's": {func(w *world) {
			w.write(".ai/tools/acme/deploy/one.yaml", toolText("acme/deploy/one", subprocess))
			w.signAll(eve, "tool:acme/deploy/one")
		}, []string{`".ai/tools/acme/deploy/one.yaml": "tool:acme/deploy/one" is not signed by a key of the policy`}},
		"tampered": {func(w *world) { w.write(deploy, w.read(deploy)+"And more.\n") }, nil},
		"renamed": {func(w *world) {
			os.Rename(w.path(".ai/tools/acme/deploy/one.yaml"), w.path(".ai/tools/acme/deploy/won.yaml"))
		}, nil},
		"a changed helper": {func(w *world) { w.write(run+"/lib/help.sh", "#!/bin/sh\nrm -r x\n") }, nil},
		"an added helper":  {func(w *world) { w.write(run+"/lib/more.sh", "") }, nil},
		"a deleted helper": {func(w *world) { os.Remove(w.path(run + "/lib/help.sh")) }, nil},
		"an invalid item": {func(w *world) {
			w.write(".ai/tools/acme/deploy/two.yaml", "executor_id: null\nname: 1\n")
			w.signAll(alice, "tool:acme/deploy/two")
		}, nil},
		"ambiguous": {func(w *world) {
			w.write(".ai/tools/acme/deploy/one.yml", toolText("acme/deploy/one", subprocess))
		}, nil},
		"an ambiguous entrypoint": {func(w *world) {
			w.recipe(strings.Replace(recipeText, "directive:acme/deploy", "tool:acme/deploy/one", 1))
			w.write(".ai/tools/acme/deploy/one.yml", toolText("acme/deploy/one", subprocess))
		}, nil},
		"no kind's directory": {func(w *world) { w.write(".ai/prompts/acme/deploy/x.md", "x\n") },
			[]string{
				`".ai/prompts/acme/deploy/x.md": not in the directory of a known kind: its extractor is not in the bundle, or not admitted`}},
		"a chain that leaves the bundle": {func(w *world) {
			w.write(".ai/tools/acme/deploy/two.yaml", toolText("acme/deploy/two", "acme/other"))
			w.signAll(alice, "tool:acme/deploy/two")
		}, []string{
			`".ai/tools/acme/deploy/two.yaml": executor tool:acme/other of tool:acme/deploy/two: tool:acme/other not found in the bundle, its requirements or the library`}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			w := newWorld(t)
			c.change(w)
			if c.want != nil {
				w.refused(c.want...)
				return
			}
			_, err := Create(t.Context(), w.o)
			refused, ok := errors.AsType[*RefusedError](err)
			if !ok || len(refused.Problems) == 0 || len(refused.Problems) > 2 {
				t.Fatalf("%v", err)
			}
		})
	}
}

// A helper that isn't included is named, also where without it nothing says that there is a tree.
func TestCreateWantsHelpers(t *testing.T) {
	const dir = ".ai/tools/acme/deploy/run"
	for name, c := range map[string]struct{ recipe, want string }{
		"one": {"exclude: [\"**/help.sh\"]\n",
			`".ai/tools/acme/deploy/run/run.py": "tool:acme/deploy/run/run" needs its directory ".ai/tools/acme/deploy/run": ".ai/tools/acme/deploy/run/lib/help.sh" is not in the bundle`},
		"the marker": {"exclude: [\"**/__init__.py\"]\n",
			`".ai/tools/acme/deploy/run/run.py": "tool:acme/deploy/run/run" needs its directory ".ai/tools/acme/deploy/run": ".ai/tools/acme/deploy/run/__init__.py" is not in the bundle`},
		"all": {"include: [\"tool:acme/**\", \"directive:**\"]\nexclude: [\".ai/tools/acme/other.yaml\"]\n",
			`".ai/tools/acme/deploy/run/run.py": "tool:acme/deploy/run/run" needs its directory ".ai/tools/acme/deploy/run": ".ai/tools/acme/deploy/run/__init__.py" is not in the bundle`},
		"two": {"include: [\".ai/**/*.py\", \"directive:**\"]\nexclude: [\"**/__init__.py\"]\n",
			`".ai/tools/acme/deploy/run/run.py": "tool:acme/deploy/run/run" needs its directory ".ai/tools/acme/deploy/run": ".ai/tools/acme/deploy/run/__init__.py" and 1 more files there are not in the bundle`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.recipe(recipeText + c.recipe)
			w.refused(c.want)
			w.recipe(recipeText)
			w.create()
		})
	}
	// A file that is no part of the tree isn't missed.
	w := newWorld(t)
	w.write(dir+"/__pycache__/x.pyc", "dropped\n")
	w.write(dir+"/after.txt", "it was signed without this\n")
	w.recipe(recipeText + "exclude: [\"**/one.yaml\", \"**/after.txt\"]\n")
	w.create()
	// An unsigned tool is reported with both problems.
	w.write(dir+"/run.py", pyText)
	w.refused(
		`".ai/tools/acme/deploy/run/run.py": "tool:acme/deploy/run/run" is unsigned; "**" requires 1 key`,
		`".ai/tools/acme/deploy/run/run.py": "tool:acme/deploy/run/run" needs its directory ".ai/tools/acme/deploy/run": ".ai/tools/acme/deploy/run/after.txt" is not in the bundle`,
	)
}

// All problems are reported at once, in the order of paths.
func TestCreateTellsAll(t *testing.T) {
	w := newWorld(t)
	token := "gh" + "p_kX9fQ2mLw8ZrT5vBn3Yc7HdJs4Gp6AeUi1Ko"
	w.write(".ai/directives/acme/deploy.md", directiveText)
	w.write("docs/.env", "A=1\n")
	w.write("docs/b.md", "one\n\nuse "+token+"\n"+strings.Repeat("\n", 10)+token+"\n")
	w.write(".ai/tools/acme/deploy/a b.yaml", toolText("acme/deploy/a", subprocess))
	w.recipe(strings.Replace(recipeText, "2027-11-20", "2026-01-01", 1))
	w.refused(
		`"bundle:acme/deploy@1.4.0" expired at 2026-01-01T00:00:00Z; the clock says 2026-11-20T12:00:00Z`,
		`".ai/directives/acme/deploy.md": "directive:acme/deploy" is unsigned; "**" requires 1 key`,
		`".ai/tools/acme/deploy/a b.yaml": invalid item name: path "acme/deploy/a b" is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by "/"`,
		`"docs/.env": files of this name hold secrets (".env")`,
		`"docs/b.md": line 3, column 5: looks like a secret (github: ghp_…)`,
		`"docs/b.md": line 14, column 1: looks like a secret (github: ghp_…)`,
	)
	// The cause stays visible to callers.
	_, err := Create(t.Context(), w.o)
	if e, ok := errors.AsType[*SecretError](err); !ok ||
		e.Finding != (secret.Finding{Path: "docs/.env", Rule: "file-name", Excerpt: ".env"}) {
		t.Errorf("%v", err)
	}
}

// A line in the recipe lets a secret pass, in this file alone.
func TestCreateAllowsSecrets(t *testing.T) {
	w := newWorld(t)
	token := "gh" + "p_kX9fQ2mLw8ZrT5vBn3Yc7HdJs4Gp6AeUi1Ko"
	w.write("docs/b.md", token+"\n")
	w.write("docs/.env", token+"\n")
	w.write("docs/c.md", token+"\n")
	w.recipe(recipeText + "allow-secret: {docs/b.md: revoked, \"docs/.*\": an example}\n")
	w.refused(`"docs/c.md": line 1, column 1: looks like a secret (github: ghp_…)`)
	w.recipe(recipeText + "allow-secret: {\"docs/*\": all of them revoked}\n")
	if r := w.create(); len(r.Bundle.Files) != 10 {
		t.Errorf("%d files", len(r.Bundle.Files))
	}
}

// A secret in an item's own file is found as well.
func TestCreateFindsSecretsInItems(t *testing.T) {
	w := newWorld(t)
	w.write(".ai/tools/acme/deploy/two.yaml",
		toolText("acme/deploy/two", subprocess, "config: {password: \"h7Kq9!vLm2Xz\"}"))
	w.signAll(alice, "tool:acme/deploy/two")
	w.refused(`".ai/tools/acme/deploy/two.yaml": line 8, column 10: looks like a secret (assignment: password: …)`)
}

// Links, special files and names that aren't portable are refused where they would be in the bundle, and no matter
// elsewhere.
func TestRefusesLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		return
	}
	w := newWorld(t)
	for from, to := range map[string]string{"docs/link": "a.md", ".ai/tools/acme/deploy/dir": "../..",
		"src/link": "/etc/passwd", ".ai/cache": "/etc"} {
		if err := os.Symlink(to, w.path(from)); err != nil {
			t.Fatal(err)
		}
	}
	w.write("docs/a:b.md", "x")
	w.write("docs/README", "x")
	w.write("docs/ReadMe", "x")
	_, err := Create(t.Context(), w.o)
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok {
		t.Fatal(err)
	}
	var paths []string
	for _, p := range refused.Problems {
		paths = append(paths, p.Path)
	}
	if want := []string{".ai/tools/acme/deploy/dir", "docs/a:b.md", "docs/link"}; !slices.Equal(paths, want) {
		t.Errorf("%q, want %q", paths, want)
	}
	for _, name := range []string{"docs/a:b.md", "docs/link", ".ai/tools/acme/deploy/dir"} {
		os.Remove(w.path(name))
	}
	_, err = Create(t.Context(), w.o)
	if refused, ok = errors.AsType[*RefusedError](err); !ok || len(refused.Problems) != 1 ||
		!strings.HasPrefix(refused.Problems[0].Path, "docs/") {
		t.Errorf("%v", err)
	}
	if err := os.RemoveAll(w.path(".ai")); err != nil {
		t.Fatal(err)
	}
	w.write("docs/README", "x")
	os.Remove(w.path("docs/ReadMe"))
	w.recipe("id: acme/x\nversion: 1.0.0\nassets: [\"docs/**\"]\n")
	w.write(".ai", "a file\n")
	w.refused(`".ai": expected a directory`)
	os.Remove(w.path(".ai"))
	if err := os.Symlink("docs", w.path(".ai")); err != nil {
		t.Fatal(err)
	}
	w.refused(`".ai": is a symbolic link, which trees can't hold`)
}

// What is never bundled isn't, whatever a recipe includes.
func TestCreateNever(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"keys/acme/deploy/k.pem", "policy.yaml", "vendor/acme/deploy/x",
		"threads/acme/deploy/t", "outputs/acme/deploy/o", "bundles/acme/deploy/x"} {
		w.write(".ai/"+name, "x\n")
	}
	w.recipe(recipeText + "include: [\".ai/**\"]\n")
	r := w.create()
	if len(r.Bundle.Files) != 8 { // other.yaml too
		t.Errorf("%v", r.Bundle.Files)
	}
}

// A v1 signature counts beside a manifest that lists the file, and not alone.
func TestCreateV1(t *testing.T) {
	const name = ".ai/directives/acme/deploy.md"
	w := newWorld(t, "  \"directive:acme/*\": {keys: [alice], accept: [v1, v2]}\n")
	v1, err := sign.SignV1([]byte(directiveText),
		admission.Subject{Name: "directive:acme/deploy", Style: sign.Angle | sign.V1Directive}.Signing(), alice,
		created)
	if err != nil {
		t.Fatal(err)
	}
	w.write(name, string(v1))
	w.refused(
		`".ai/directives/acme/deploy.md": "directive:acme/deploy" is signed in the first format (v1), which may be shown and upgraded but not used: neither a manifest nor "digests:" lists its digest; signed by "alice" (v1)`)
	w.o.Listed = func(cas.Digest) bool { return false }
	if _, err := Create(t.Context(), w.o); err == nil {
		t.Error("admitted although nothing lists it")
	}
	w.o.Listed = func(d cas.Digest) bool { return d == cas.Sum(v1) }
	w.remember()
	w.create()
	if w.create().Remembered {
		t.Error("remembered, although the list may be gone")
	}
}

// What such a signature leaves open is vouched for by the manifest as well, or not at all.
func TestV1Tree(t *testing.T) {
	const dir = ".ai/tools/acme/deploy/run/"
	w := newWorld(t, "  \"tool:acme/deploy/run/*\": {keys: [alice], accept: [v1, v2]}\n")
	v1, err := sign.SignV1([]byte(pyText), admission.Subject{Name: "tool:acme/deploy/run/run",
		Style: sign.Hash}.Signing()|sign.V1Tool, alice, created)
	if err != nil {
		t.Fatal(err)
	}
	w.write(dir+"run.py", string(v1))
	listed := map[cas.Digest]bool{cas.Sum(v1): true}
	w.o.Listed = func(d cas.Digest) bool { return listed[d] }
	const problem = `".ai/tools/acme/deploy/run/run.py": "tool:acme/deploy/run/run" has a v1 signature, which doesn't cover `
	w.refused(problem + `"__init__.py", and 1 more of its files: no admitted manifest lists it`)
	listed[cas.Sum(nil)] = true
	w.refused(problem + `"lib/help.sh": no admitted manifest lists it`)
	listed[cas.Sum([]byte(w.read(dir+"lib/help.sh")))] = true
	w.create()
}

// On some systems these files would be items.
func TestRefusesOtherCase(t *testing.T) {
	w := newWorld(t)
	w.recipe("id: acme/x\nversion: 1.0.0\nassets: [\"**/*.yaml\"]\n")
	if err := os.RemoveAll(w.path(".ai")); err != nil {
		t.Fatal(err)
	}
	w.write(".Ai/tools/acme/x/y.yaml", toolText("acme/x/y", subprocess))
	w.refused(`".Ai/tools/acme/x/y.yaml": differs from .ai only in case`)
	// Below another directory it is an asset.
	w.write("examples/.ai/tools/acme/x/y.yaml", toolText("acme/x/y", subprocess))
	os.RemoveAll(w.path(".Ai"))
	if r := w.create(); len(r.Bundle.Files) != 1 || r.Items != 0 {
		t.Errorf("%+v", r.Bundle.Files)
	}
}

// What a policy revokes is refused, the project's too: an asset, and a file of a tool's tree, with the tool.
func TestRefusesRevoked(t *testing.T) {
	const help = ".ai/tools/acme/deploy/run/lib/help.sh"
	for path, ref := range map[string]string{help: "tool:acme/deploy/run/run", "docs/a.md": ""} {
		for _, project := range []bool{false, true} {
			w := newWorld(t)
			digest := cas.Sum([]byte(w.read(path)))
			w.o.Trust = trustIn(t, "\nrevoked:\n  \""+digest.String()+"\": {reason: \"deletes too much\"}\n")
			if project {
				side := w.o.Trust.Root
				w.o.Trust.Root, w.o.Trust.Project = trustIn(t, "").Root, &side
			}
			_, err := Create(t.Context(), w.o)
			refused, ok := errors.AsType[*RefusedError](err)
			if !ok || !strings.Contains(err.Error(), "deletes too much") {
				t.Fatalf("%s: %v", path, err)
			}
			if !slices.ContainsFunc(refused.Problems, func(p Problem) bool { return p.Path == path }) ||
				!slices.ContainsFunc(refused.Problems, func(p Problem) bool { return p.Ref == ref }) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// Files that change while the bundle is made are in it as they were stored, or the bundle is refused.
func TestCreateWhileFilesChange(t *testing.T) {
	w := newWorld(t)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				os.WriteFile(w.path("docs/a.md"), []byte(strings.Repeat("x", i%5000)), 0o644)
				os.WriteFile(w.path(".ai/tools/acme/deploy/run/lib/help.sh"), []byte(strings.Repeat("y", i%10)), 0o755)
			}
		}
	}()
	for range 20 {
		r, err := Create(t.Context(), w.o)
		if err != nil {
			continue // the helper was caught as unsigned
		}
		report, err := bundle.Verify(t.Context(), bundle.InDir(w.dir, "acme/deploy"),
			bundle.VerifyOptions{Trust: w.o.Trust, Below: w.o.Below, AllowExtra: true})
		if err != nil || report.Bundle == nil || report.ID != r.ID {
			t.Errorf("%v, %v", report, err)
		}
		for _, f := range r.Bundle.Files {
			o, err := w.o.Store.Get(t.Context(), cas.ID{Kind: cas.Blob, Digest: f.Digest})
			if err != nil || o.Size != f.Size {
				t.Errorf("%s: %v", f.Path, err)
			}
		}
	}
	close(stop)
	<-done
}

const promptExtractor = `version: 1.0.0
tool_type: extractor
executor_id: null
category: rye/core/extractors/prompt
description: Prompts
kind: prompt
directory: prompts
extensions: [.md]
parser: markdown_frontmatter
validation_schema:
  fields:
    title: {type: string, required: true}
`

// A kind comes with the extractor that adds it: in the bundle, or not at all.
func TestCreateAddedKinds(t *testing.T) {
	const extractor = ".ai/tools/rye/core/extractors/prompt/prompt_extractor.yaml"
	w := newWorld(t)
	w.write(extractor, promptExtractor)
	w.write(".ai/prompts/acme/hello.md", "```yaml\ntitle: Hello\nversion: 1.0.0\n```\n\nHello.\n")
	w.recipe(recipeText + "include: [\"directive:**\", \".ai/prompts/**\"]\n")
	w.refused(
		`".ai/prompts/acme/hello.md": not in the directory of a known kind: its extractor is not in the bundle, or not admitted`)
	w.recipe(recipeText + "include: [\"directive:**\", \".ai/prompts/**\", \".ai/tools/rye/**\"]\n")
	w.remember()
	_, err := Create(t.Context(), w.o)
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || len(refused.Problems) != 2 {
		t.Fatalf("an unsigned extractor: %v", err)
	}
	w.signAll(alice)
	w.signAll(alice) // now that its kind is known
	r := w.create()
	if f, ok := r.Bundle.File(".ai/prompts/acme/hello.md"); !ok || f.Ref != "prompt:acme/hello" ||
		f.Version != "1.0.0" || len(r.Warnings) != 0 {
		t.Errorf("%+v, %v", f, r.Warnings)
	}
	w.write(".ai/prompts/acme/hello.md", "```yaml\ntitle: Hello\nversion: one\n```\n\nHello.\n")
	w.signAll(alice)
	w.refused(
		`".ai/prompts/acme/hello.md": invalid "prompt:acme/hello": line 4, column 10: Field 'version' must be semver format (X.Y.Z), got 'one'`)
	w.write(".ai/prompts/acme/hello.md", "```yaml\ntitle: Hello\n```\n\nHello.\n")
	w.signAll(alice)
	// An extractor that doesn't count is reported each time.
	w.write(".ai/tools/rye/core/extractors/config/config_extractor.yaml",
		strings.NewReplacer("directory: prompts", "directory: tools", "kind: prompt", "kind: other",
			"extractors/prompt", "extractors/config").Replace(promptExtractor))
	w.signAll(alice)
	for range 2 {
		r, err := Create(t.Context(), w.o)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Warnings) != 1 || r.Remembered {
			t.Errorf("%v", r.Warnings)
		}
	}
}

// Many at once leave one whole manifest.
func TestCreateAtOnce(t *testing.T) {
	w := newWorld(t)
	w.remember()
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			o := w.o
			o.Sign = func(d *manifest.Document) error { return d.Sign([]key.Private{alice, eve}[i%2], created) }
			if _, err := Create(t.Context(), o); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	b, err := bundle.Parse([]byte(w.read(at)))
	if err != nil || len(b.Signatures) == 0 || len(b.Files) != 7 {
		t.Errorf("%v, %v", b, err)
	}
	entries, err := os.ReadDir(w.path(".ai/bundles/acme/deploy"))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestCreateErrors(t *testing.T) {
	bad := errors.New("bad")
	for want, err := range map[string]error{
		`"a": bad`:        &Problem{Path: "a", Err: bad},
		"bad":             &Problem{Err: bad},
		"\"a\": bad\nbad": &RefusedError{Problems: []Problem{{Path: "a", Err: bad}, {Err: bad}}},
		`invalid "tool:a": line 1, column 2: x`: &InvalidError{model.Ref{Kind: "tool", ID: "a"},
			[]*value.Problem{{Message: "w", Warning: true}, {At: value.Pos{Line: 1, Column: 2}, Message: "x"}}},
		`"tool:a" needs its directory "d": "d/x" and 1 more files there are not in the bundle`: missingFiles(
			model.Ref{Kind: "tool", ID: "a"}, "d", []string{"d/x", "d/y"}),
	} {
		if err.Error() != want {
			t.Errorf("%s, want %s", err, want)
		}
		switch err.(type) {
		case *Problem, *RefusedError:
			if !errors.Is(err, bad) {
				t.Errorf("%s doesn't unwrap", err)
			}
		}
	}
}
