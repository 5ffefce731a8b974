package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// A v1Home is a home with a directory that has a v1 bundle, as older programs made it.
type v1Home struct {
	*bundleHome
	files []string
}

const (
	v1Run  = ".ai/tools/acme/run.py"
	v1Many = ".ai/tools/acme/many/many.py"
	v1At   = ".ai/bundles/acme/old/manifest.yaml"
)

func newV1Home(t *testing.T) *v1Home {
	t.Helper()
	h := &v1Home{newBundleHome(t), []string{v1Run, v1Many, ".ai/tools/acme/many/__init__.py", "docs/how.md"}}
	if err := os.RemoveAll(filepath.Join(h.dir, ".ai", "tools")); err != nil {
		t.Fatal(err)
	}
	h.write(v1Run, itemText("run"))
	h.write(v1Many, strings.Replace(itemText("many"), `"acme"`, `"acme/many"`, 1))
	h.rye(fault.ExitDone, "sign", v1Run, v1Many, "--format", "v1")
	h.write(".ai/tools/acme/many/__init__.py", "\n")
	h.write("docs/how.md", "How.\n")
	h.list("default")
	return h
}

// list writes the manifest and signs it.
func (h *v1Home) list(key string) {
	h.t.Helper()
	var b strings.Builder
	b.WriteString(
		"bundle:\n  id: acme/old\n  version: 0.9.0\n  entrypoint: ''\n  description: 'From before'\n  created_at: '2026-02-15T05:39:45Z'\n  type: package\nfiles:\n")
	slices.Sort(h.files)
	for _, name := range h.files {
		text := h.read(name)
		fmt.Fprintf(&b, "  %s:\n    sha256: %x\n    inline_signed: %v\n", name, sha256.Sum256(text),
			bytes.Contains(text, []byte("rye:signed:")))
	}
	h.write(v1At, b.String())
	// Such a signature is for no name.
	h.rye(fault.ExitDone, "sign", filepath.Join(h.dir, filepath.FromSlash(v1At)), "--as", "tool:acme/manifest",
		"--format", "v1", "--key", key)
}

func (h *v1Home) read(name string) []byte {
	h.t.Helper()
	b, err := os.ReadFile(filepath.Join(h.dir, filepath.FromSlash(name)))
	if err != nil {
		h.t.Fatal(err)
	}
	return b
}

// says wants an exit status, and what is said to match none but these.
func (h *v1Home) says(want int, words string, args ...string) {
	h.t.Helper()
	out := h.rye(want, args...)
	for _, word := range strings.Split(words, "|") {
		if !strings.Contains(out, word) {
			h.t.Errorf("%q says nothing of %q:\n%s", args, word, out)
		}
	}
}

func (h *v1Home) accept() {
	h.t.Helper()
	h.rye(fault.ExitDone, "trust", "add", "default", "--names", "**", "--accept", "v1", "--yes")
}

// TestBundleV1: v1 bundles are seen, and believed where the policy accepts them.
func TestBundleV1(t *testing.T) {
	h := newV1Home(t)
	h.says(fault.ExitDone, "acme/old|0.9.0|v1 format|From before", "bundle", "list")
	h.says(fault.ExitDone, `"format":"v1"`, "bundle", "list", "--json")
	h.says(fault.ExitDone, "acme/old@0.9.0|the first (v1)|tool:acme/run|tool:acme/many/many", "bundle", "inspect")
	h.says(fault.ExitDone, `"format":"v1"`, "bundle", "inspect", "acme/old", "--json")

	// A policy that doesn't accept them.
	h.says(fault.ExitNo, "does not accept|POLICY_DENIED", "bundle", "verify")
	h.says(fault.ExitRefused, "does not accept", "bundle", "import", ".")
	h.says(fault.ExitNo, "first format", "verify", "tool:acme/run")

	h.accept()
	h.says(fault.ExitDone, "verified  acme/old@0.9.0|the first (v1)|4 files|2, signed: 2 by default", "bundle",
		"verify")
	h.says(fault.ExitDone, `"format":"v1"|"trust":"signed"|"items":2`, "bundle", "verify", h.dir, "--json")
	h.says(fault.ExitDone, "verified", "bundle", "verify", v1At)
	h.says(fault.ExitRefused, "--signer", "bundle", "verify", "--signer", "default")
	h.says(fault.ExitUsage, "has no evidence", "bundle", "verify", "--require", "sbom")
	for _, args := range [][]string{{"export"}, {"cosign"}, {"sbom"}, {"attest"}, {"install", "acme/old"}} {
		h.says(fault.ExitRefused, "v1 bundle|rye bundle create acme/old", append([]string{"bundle"}, args...)...)
	}

	// Its items count because it lists them, with what is beside them.
	h.says(fault.ExitDone, "signed by default", "ls")
	h.says(fault.ExitDone, "", "verify", "tool:acme/run", "tool:acme/many/many")
	h.says(fault.ExitDone, `"trust":"signed"`, "show", "tool:acme/many/many", "--json")
	h.write(".ai/tools/acme/many/more.py", "x = 1\n")
	h.says(fault.ExitDone, `"trust":"refused"|evidence-only`, "show", "tool:acme/many/many", "--json")
	h.says(fault.ExitNo, "", "verify", "tool:acme/many/many")
	if err := os.Remove(filepath.Join(h.dir, ".ai", "tools", "acme", "many", "more.py")); err != nil {
		t.Fatal(err)
	}

	h.says(fault.ExitDone, "imported acme/old@0.9.0, verified, 4 files, 2 items", "bundle", "import", ".")
	h.says(fault.ExitDone, "imported", "bundle", "import", v1At)
	h.says(fault.ExitDone, "store", "bundle", "list", "--all")
	root := h.dir
	h.dir = t.TempDir()
	h.says(fault.ExitDone, "verified  acme/old@0.9.0|(store)", "bundle", "verify", "acme/old")
	h.says(fault.ExitMissing, "acme/old", "bundle", "verify", "acme/old@1.0.0")
	h.says(fault.ExitDone, "docs/how.md", "bundle", "inspect", "acme/old@0.9.0", "--json")
	h.says(fault.ExitRefused, "rye bundle create acme/old --package DIR", "bundle", "install", "acme/old")
	h.rye(fault.ExitDone, "store", "gc", "--grace", "0s")
	h.rye(fault.ExitDone, "store", "gc", "--grace", "0s")
	h.says(fault.ExitDone, "verified", "bundle", "verify", "acme/old")

	// A bundle of today is made of it, and they are compared.
	h.dir = root
	h.write("bundle.yaml", "id: acme/old\nversion: 1.0.0\ninclude: [\".ai/**\"]\nassets: [\"docs/*\"]\n")
	h.says(fault.ExitDone, "made  acme/old@1.0.0|replaced the v1 manifest", "bundle", "create")
	h.says(fault.ExitDone, "0.9.0|1.0.0|the files are the same", "bundle", "diff", "acme/old@0.9.0")
	h.says(fault.ExitDone, "verified  acme/old@1.0.0", "bundle", "verify")
	h.rye(fault.ExitDone, "bundle", "install", "acme/old")
	h.dir = t.TempDir()
	h.says(fault.ExitDone, "", "verify", "tool:acme/run")
	h.says(fault.ExitDone, `"trust":"signed"`, "show", "tool:acme/many/many", "--json")
}

// TestBundleV1Refused: every fault is reported, and nothing of a refused bundle is kept.
func TestBundleV1Refused(t *testing.T) {
	h := newV1Home(t)
	h.accept()
	h.rye(fault.ExitDone, "key", "new", "stranger")
	how, manifest, run := h.read("docs/how.md"), h.read(v1At), h.read(v1Run)
	for name, c := range map[string]struct {
		change func()
		words  string
	}{
		"other bytes":  {func() { h.write("docs/how.md", "How!\n") }, "docs/how.md|has other content|sha256:"},
		"missing":      {func() { os.Remove(filepath.Join(h.dir, "docs", "how.md")) }, "docs/how.md|is missing"},
		"a stranger's": {func() { h.list("stranger") }, "insufficient signatures"},
		"other words":  {func() { h.write(v1At, strings.Replace(string(manifest), "0.9.0", "0.9.1", 1)) }, "0.9.1"},
		"no manifest":  {func() { h.write(v1At, "bundle:\n  id: [\n") }, "v1 manifest|line"},
		"another's": {func() {
			h.write(v1At, strings.Replace(string(manifest), "acme/old", "acme/new", 1))
		}, "acme/new"},
		"an item's": {func() {
			h.write(v1Run, strings.Replace(string(run), "default", "other", 1)+"#\n")
			h.list("default")
		}, v1Run},
	} {
		c.change()
		h.says(fault.ExitNo, "refused|"+c.words, "bundle", "verify", "acme/old")
		if name == "no manifest" {
			h.says(fault.ExitNo, `"code":"PARSING_ERROR"|line 2`, "bundle", "inspect", "acme/old", "--json")
		}
		want := fault.ExitRefused
		if name == "no manifest" {
			want = fault.ExitNo
		}
		h.says(want, "", "bundle", "import", ".")
		h.write("docs/how.md", string(how))
		h.write(v1At, string(manifest))
		h.write(v1Run, string(run))
		if t.Failed() {
			t.Fatal(name)
		}
	}
	h.says(fault.ExitDone, "", "bundle", "verify", "acme/old")
	if out := h.rye(fault.ExitDone, "bundle", "list", "--all"); strings.Contains(out, "store") {
		t.Errorf("refused and kept:\n%s", out)
	}
	h.says(fault.ExitMissing, "", "bundle", "import", "./none")
	h.says(fault.ExitDone, "", "bundle", "import", ".")
	id := ""
	for word := range strings.FieldsSeq(h.rye(fault.ExitDone, "store", "refs")) {
		if hex, ok := strings.CutPrefix(word, "bundles-v1/"); ok && !strings.Contains(hex, "/") {
			id = "blake3:" + hex
		}
	}
	h.says(fault.ExitDone, "(store)", "bundle", "verify", id)
	h.says(fault.ExitDone, "removed  acme/old@0.9.0", "bundle", "remove", id, "--yes")
	h.says(fault.ExitDone, "", "store", "refs")
	if out := h.rye(fault.ExitDone, "bundle", "list", "--all"); strings.Contains(out, "store") {
		t.Errorf("removed and there:\n%s", out)
	}
}

// TestBundleV1OfUser: a bundle in the user's own directory is not an installed bundle, and does no harm there.
func TestBundleV1OfUser(t *testing.T) {
	h := newV1Home(t)
	h.accept()
	if err := os.CopyFS(filepath.Join(h.home, ".ai", "bundles"),
		os.DirFS(filepath.Join(h.dir, ".ai", "bundles"))); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(h.home, ".ai", "tools"),
		os.DirFS(filepath.Join(h.dir, ".ai", "tools"))); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(h.home, "docs"), os.DirFS(filepath.Join(h.dir, "docs"))); err != nil {
		t.Fatal(err)
	}
	h.dir = t.TempDir()
	h.says(fault.ExitDone, "acme/old|v1 format", "bundle", "list")
	h.says(fault.ExitDone, "verified  acme/old@0.9.0", "bundle", "verify", "acme/old")
	if out := h.rye(fault.ExitDone, "ls"); strings.Contains(out, "warning") || strings.Contains(out, "refused") {
		t.Errorf("%s", out)
	}
	h.says(fault.ExitDone, "none installed", "doctor")
}
