package ai_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

func admit(t testing.TB, v *ai.View, tr ai.Examiner, text string) (*ai.Admission, error) {
	t.Helper()
	return ai.NewAdmitter(v, tr).Admit(t.Context(), find(t, v, text), policy.ToUse)
}

func multi() files {
	return files{
		"tools/acme/web/fetch.py":    pyTool("acme/web/fetch", python),
		"tools/acme/web/other.py":    pyTool("acme/web/other", python),
		"tools/acme/web/__init__.py": "",
		"tools/acme/web/lib/a.py":    "a = 1\n",
		"tools/acme/web/data.json":   "{}\n",
		"tools/acme/one.py":          pyTool("acme/one", python),
	}
}

// TestMultiFile: who signs a tool vouches for its helpers, on disk.
func TestMultiFile(t *testing.T) {
	s := onDisk(t, multi())
	v, tr := view(t, noOverride, s), trust(t, noOverride)
	at := func(name string) string { return filepath.Join(s.Dir, "tools/acme/web", name) }

	got, err := admit(t, v, tr, "tool:acme/web/fetch")
	if err != nil || got.Decision.Code != policy.Unsigned {
		t.Fatalf("unsigned: %v, %v", got, err)
	}
	signIn(t, v, s, alice, "tool:acme/web/fetch", "tool:acme/web/other", "tool:acme/one")
	for _, name := range []string{"tool:acme/web/fetch", "tool:acme/web/other", "tool:acme/one"} {
		got, err := admit(t, v, tr, name)
		if err != nil || !got.Decision.Allowed {
			t.Fatalf("%s, signed: %v, %v", name, got, err)
		}
		if one := name == "tool:acme/one"; one != (got.Tree == nil) || !one && len(got.Tree.Files) != 4 {
			t.Errorf("%s has the tree %v", name, got.Tree)
		}
	}
	for _, c := range []struct {
		name         string
		do, undo     func() error
		want, reason string
	}{
		{"a byte", func() error { return os.WriteFile(at("lib/a.py"), []byte("a = 2\n"), 0o644) },
			func() error { return os.WriteFile(at("lib/a.py"), []byte("a = 1\n"), 0o644) }, "tree", ""},
		{"added", func() error { return os.WriteFile(at("urllib.py"), nil, 0o644) },
			func() error { return os.Remove(at("urllib.py")) }, "tree", ""},
		{"removed", func() error { return os.Remove(at("data.json")) },
			func() error { return os.WriteFile(at("data.json"), []byte("{}\n"), 0o644) }, "tree", ""},
		{"executable", func() error {
			return os.Chmod(at("lib/a.py"), 0o755)
		}, func() error { return os.Chmod(at("lib/a.py"), 0o644) }, "tree", ""},
		{"no marker", func() error { return os.Rename(at("__init__.py"), at("init.py")) },
			func() error { return os.Rename(at("init.py"), at("__init__.py")) }, "tree", ""},
		{"link to a file", func() error {
			return os.Symlink("a.py", at("lib/b.py"))
		}, func() error { return os.Remove(at("lib/b.py")) },
			"", `"lib/b.py": is a symbolic link, which a tree can't contain`},
		{"link to a directory", func() error {
			return os.Symlink("/etc", at("etc"))
		}, func() error { return os.Remove(at("etc")) },
			"", `"etc": is a symbolic link, which a tree can't contain`},
	} {
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		_, err := admit(t, v, tr, "tool:acme/web/fetch")
		if ie, ok := errors.AsType[*sign.IntegrityError](err); c.want != "" && (!ok || ie.What != c.want) ||
			err == nil || !strings.HasSuffix(err.Error(), c.reason) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := c.undo(); err != nil {
			t.Fatal(err)
		}
		if got, err := admit(t, v, tr, "tool:acme/web/fetch"); err != nil || !got.Decision.Allowed {
			t.Fatalf("%s, undone: %v", c.name, err)
		}
	}
	// What is only cached by interpreters is not part of it.
	write(t, at("__pycache__/x.pyc"), "")
	if got, err := admit(t, v, tr, "tool:acme/web/fetch"); err != nil || !got.Decision.Allowed {
		t.Errorf("with a cache: %v", err)
	}
	// A marker makes a file of its own a tool of several.
	write(t, filepath.Join(s.Dir, "tools/acme/pyproject.toml"), "")
	if _, err := admit(t, v, tr, "tool:acme/one"); err == nil {
		t.Error("files beside a tool came to belong to it unnoticed")
	}
}

// TestRevokedHelper: a tool is revoked when any of its files is.
func TestRevokedHelper(t *testing.T) {
	s := space("project", multi())
	v := view(t, noOverride, s)
	signIn(t, v, s, alice, "tool:acme/web/fetch")
	got, err := admit(t, v, trust(t, noOverride), "tool:acme/web/fetch")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got.Tree.Files {
		if f.Path != "lib/a.py" {
			continue
		}
		got, err = admit(t, v, trust(t, "\nrevoked:\n  \""+f.Raw.String()+"\": {reason: \"bad\"}\n"),
			"tool:acme/web/fetch")
		if err != nil || got.Decision.Code != policy.DigestRevoked {
			t.Errorf("got %v, %v", got.Decision, err)
		}
	}
}

func TestAnchor(t *testing.T) {
	const lone = "rye/core/runtimes/bash"
	for _, c := range []struct{ name, rule, want string }{
		{"none", "", ""},
		{"auto", "anchor: {enabled: true, markers_any: [mark]}", "tools/a/b"},
		{"auto, no marker", "anchor: {enabled: true, markers_any: [other, '', '..', 'x/mark', '.']}", ""},
		{"auto, no markers", "anchor: {enabled: true}", ""},
		{"always", "anchor: {enabled: true, mode: always}", "tools/a/b"},
		{"never", "anchor: {enabled: true, mode: never, markers_any: [mark]}", ""},
		{"not enabled", "anchor: {enabled: false, mode: always}", ""},
		{"nothing said", "anchor: {mode: always}", ""},
		{"parent", "anchor: {enabled: true, mode: always, root: tool_parent}", "tools/a"},
		{"project", "anchor: {enabled: true, mode: always, root: project_path}", "tools/a/b"},
	} {
		v := view(t, noOverride, space("project",
			files{"tools/a/b/x.yaml": tool("a/b/x", lone, c.rule), "tools/a/b/mark": ""}))
		got, err := ai.NewAdmitter(v, nil).Anchor(t.Context(), find(t, v, "tool:a/b/x"))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if dir := dirOf(got); dir != c.want {
			t.Errorf("%s: got %q, want %q", c.name, dir, c.want)
		}
	}
	for _, c := range []struct{ rule, want string }{
		{"anchor: {enabled: true, mode: sometimes}",
			`"project/tools/x.yaml": the anchor's mode is "sometimes", which means nothing`},
		{"anchor: {enabled: true, mode: always, root: '/'}",
			`"project/tools/x.yaml": the anchor's root is "/", which means nothing`},
	} {
		v := view(t, noOverride, space("project", files{"tools/x.yaml": tool("x", lone, c.rule)}))
		_, err := ai.NewAdmitter(v, nil).Anchor(t.Context(), find(t, v, "tool:x"))
		wantError(t, err, c.want)
	}
	// Above the directory of tools is no tool.
	v := view(t, noOverride, space("project", files{"tools/x.yaml": tool("x", lone,
		"anchor: {enabled: true, mode: always, root: tool_parent}")}))
	if got, err := ai.NewAdmitter(v, nil).Anchor(t.Context(), find(t, v, "tool:x")); err != nil ||
		dirOf(got) != "tools" {
		t.Errorf("got %v, %v", got, err)
	}
}

func dirOf(a *ai.Anchor) string {
	if a == nil {
		return ""
	}
	return a.Dir
}

// TestLib: what a runtime has its interpreter load is vouched for by who signed the runtime.
func TestLib(t *testing.T) {
	const rule = "anchor: {enabled: false, mode: auto, lib: lib/py}"
	s := space("project", files{
		"tools/acme/run.yaml":           tool("acme/run", subprocess, rule),
		"tools/acme/lib/py/_launch.py":  "run()\n",
		"tools/acme/lib/js/_launch.cjs": "run()\n",
		"tools/acme/other.yaml":         tool("acme/other", subprocess),
		"tools/acme/x/tool.yaml":        tool("acme/x/tool", "acme/run"),
		"tools/acme/bad.yaml":           tool("acme/bad", subprocess, "anchor: {lib: ../up}"),
		"tools/acme/none.yaml":          tool("acme/none", subprocess, "anchor: {lib: none}"),
	})
	v, tr := view(t, noOverride, s), trust(t, noOverride)
	signIn(t, v, s, alice, "tool:acme/run", "tool:acme/x/tool", "tool:acme/none")
	got, err := admit(t, v, tr, "tool:acme/run")
	if err != nil || !got.Decision.Allowed || got.Tree == nil || len(got.Tree.Files) != 1 ||
		got.Tree.Files[0].Path != "lib/py/_launch.py" {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, name := range []string{"tool:acme/x/tool", "tool:acme/none"} {
		if got, err := admit(t, v, tr, name); err != nil || !got.Decision.Allowed || got.Tree != nil {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	m := s.FS.(fstest.MapFS)
	m["tools/acme/lib/js/_launch.cjs"].Data = []byte("other()\n")
	if _, err = admit(t, v, tr, "tool:acme/run"); err != nil {
		t.Errorf("another runtime's launcher: %v", err)
	}
	m["tools/acme/lib/py/_launch.py"].Data = []byte("other()\n")
	_, err = admit(t, v, tr, "tool:acme/run")
	if ie, ok := errors.AsType[*sign.IntegrityError](err); !ok || ie.What != "tree" {
		t.Errorf("a changed launcher: %v", err)
	}
	_, err = admit(t, v, tr, "tool:acme/bad")
	wantError(t, err, `"project/tools/acme/bad.yaml": the anchor's lib: path "../up": ".." is not a name`)
}

// TestTreeNeedsChain: who runs a tool decides what belongs to it, so that without its executor nothing is known.
func TestTreeNeedsChain(t *testing.T) {
	s := space("project", files{"tools/x.py": pyTool("x", "rye/core/runtimes/gone"),
		"knowledge/k.md": "---\nid: k\ntitle: K\n---\ntext\n"})
	v := view(t, noOverride, s)
	_, err := admit(t, v, trust(t, noOverride), "tool:x")
	ce, ok := errors.AsType[*ai.ChainError](err)
	if !ok || ce.Code != fault.ExecutorNotFound {
		t.Errorf("got %v", err)
	}
	if got, err := admit(t, v, trust(t, noOverride), "knowledge:k"); err != nil ||
		got.Decision.Code != policy.Unsigned {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestName: a signature is for a name, so that an item under another one isn't the same item.
func TestName(t *testing.T) {
	text := signText(t, "tool:acme/safe", tool("acme/safe", "rye/core/runtimes/bash"), sign.Hash, alice)
	s := space("project", files{"tools/acme/safe.yaml": text, "tools/acme/root.yaml": text})
	v := view(t, noOverride, s)
	if got, err := admit(t, v, trust(t, noOverride), "tool:acme/safe"); err != nil || !got.Decision.Allowed {
		t.Errorf("got %v, %v", got, err)
	}
	_, err := admit(t, v, trust(t, noOverride), "tool:acme/root")
	if _, ok := errors.AsType[*sign.SignatureInvalidError](err); !ok {
		t.Errorf("got %v", err)
	}
}

func TestRequire(t *testing.T) {
	s := space("project", files{"tools/acme/x.yaml": tool("acme/x", "rye/core/runtimes/bash")})
	v := view(t, noOverride, s)
	a := ai.NewAdmitter(v, trust(t, noOverride))
	if err := a.Require(t.Context(), find(t, v, "tool:"+python), policy.ToUse); err != nil {
		t.Errorf("what is in the binary: %v", err)
	}
	wantError(t, a.Require(t.Context(), find(t, v, "tool:acme/x"), policy.ToUse),
		`"tool:acme/x" is unsigned; "**" requires 1 key`)
	signIn(t, v, s, eve, "tool:acme/x")
	err := a.Require(t.Context(), find(t, v, "tool:acme/x"), policy.ToUse)
	if fault.CodeOf(err) != fault.UntrustedKey {
		t.Errorf("got %v", err)
	}
	// What is examined is the bytes that were read.
	it := find(t, v, "tool:acme/x")
	it.Bytes = append([]byte(it.Bytes), it.Bytes...)
	if _, err := a.Admit(t.Context(), it, policy.ToUse); err == nil {
		t.Error("other bytes than were signed are admitted")
	}
	// Without a policy only builtin items are admitted.
	alone := ai.NewAdmitter(v, nil)
	if err := alone.Require(t.Context(), find(t, v, "tool:acme/x"), policy.ToUse); err == nil {
		t.Error("admitted without a policy")
	}
	if err := alone.Require(t.Context(), find(t, v, "tool:"+python), policy.ToUse); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ai.NewAdmitter(v, nil).Tree(ctx, find(t, v, "tool:acme/x")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestRemembered: the executors of many tools are read once in one operation, and never their own files.
func TestRemembered(t *testing.T) {
	f := files{}
	for _, name := range []string{"a", "b", "c"} {
		f["tools/"+name+".py"] = pyTool(name, python)
	}
	v := view(t, noOverride, space("project", f))
	a := ai.NewAdmitter(v, trust(t, noOverride))
	before, _ := v.Counts()
	for _, name := range []string{"a", "b", "c"} {
		if _, err := a.Admit(t.Context(), find(t, v, "tool:"+name), policy.ToUse); err != nil {
			t.Fatal(err)
		}
	}
	after, bytes := v.Counts()
	if hits, misses := a.Rate(); after-before != 3+2 || hits != 2 || misses != 1 || bytes == 0 {
		t.Errorf("read %d items, remembered %d times and not %d times", after-before, hits, misses)
	}
}
