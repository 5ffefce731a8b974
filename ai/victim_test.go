package ai_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
)

// bob is trusted for tools below acme/, and the project below is one that he signed and an attacker changed.
var bob = keytest.Seeded(5)

func bobTrust(t *testing.T) *admission.Trust {
	t.Helper()
	text := fmt.Sprintf("rye: policy/2\n\nkeys:\n  bob: {key: %q}\n\nnames:\n  \"tool:acme/**\": {keys: [bob]}\n",
		bob.Public())
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &admission.Trust{Root: policy.Side{Policy: p}, Now: noon}
}

// cloned is a project that bob signed.
func cloned(t *testing.T) (*ai.Space, fstest.MapFS) {
	t.Helper()
	s := space("project", files{
		"tools/acme/one.py":            pyTool("acme/one", python),
		"tools/acme/two.py":            pyTool("acme/two", python),
		"tools/acme/own.yaml":          tool("acme/own", "acme/run"),
		"tools/acme/run.yaml":          tool("acme/run", subprocess),
		"tools/acme/multi/m.py":        pyTool("acme/multi/m", python),
		"tools/acme/multi/__init__.py": "",
		"tools/acme/multi/h.py":        "x = 1\n",
		"tools/acme/multi/run.sh":      "#!/bin/sh\nset -e\n",
	})
	v := view(t, noOverride, s)
	signIn(t, v, s, bob, "tool:acme/one", "tool:acme/two", "tool:acme/own", "tool:acme/run", "tool:acme/multi/m")
	return s, s.FS.(fstest.MapFS)
}

// used reports whether a tool, and all that its chain reaches, may be used by a victim, and why not.
func used(t *testing.T, s *ai.Space, text string) error {
	t.Helper()
	tr := bobTrust(t)
	v, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{s, stdSpace()}, Trust: tr,
		MayOverride: tr.Root.Policy.MayOverride})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := ai.Walk(t.Context(), v, ref(text))
	if err != nil {
		return err
	}
	a := ai.NewAdmitter(v, tr)
	for _, link := range chain.Links {
		if err := a.Require(t.Context(), link, policy.ToUse); err != nil {
			return err
		}
	}
	return nil
}

func signedBy(t *testing.T, k key.Private, name, text string) string {
	t.Helper()
	return signText(t, name, text, 1, k)
}

// TestVictim changes a signed project in every way that an attacker with its files but without bob's key has, or
// who is bob and wants more than tools below acme/.
func TestVictim(t *testing.T) {
	for name := range map[string]bool{"one": true, "two": true, "own": true, "multi/m": true} {
		if s, _ := cloned(t); used(t, s, "tool:acme/"+name) != nil {
			t.Fatalf("%s as it was: %v", name, used(t, s, "tool:acme/"+name))
		}
	}
	const v1 = "rye:signed:2026-01-01T00:00:00Z:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:" +
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==:0123456789abcdef"
	put := func(name, text string) func(fstest.MapFS) {
		return func(m fstest.MapFS) { m[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644} }
	}
	before := func(name, text string) func(fstest.MapFS) {
		return func(m fstest.MapFS) { m[name].Data = append([]byte(text), m[name].Data...) }
	}
	for _, c := range []struct {
		name, ref string
		change    func(fstest.MapFS)
	}{
		{"swapped", "one", func(m fstest.MapFS) {
			m["tools/acme/one.py"], m["tools/acme/two.py"] = m["tools/acme/two.py"], m["tools/acme/one.py"]
		}},
		{"copied", "three", func(m fstest.MapFS) { m["tools/acme/three.py"] = m["tools/acme/one.py"] }},
		{"moved", "x/one", func(m fstest.MapFS) {
			m["tools/acme/x/one.py"] = m["tools/acme/one.py"]
			delete(m, "tools/acme/one.py")
		}},
		{"as a letter", "One", func(m fstest.MapFS) { m["tools/acme/One.py"] = m["tools/acme/one.py"] }},
		{"another extension", "own", func(m fstest.MapFS) { m["tools/acme/own.yml"] = m["tools/acme/own.yaml"] }},
		{"beside a marker", "one", put("tools/acme/__init__.py", "")},
		{"beside a marker, two", "own", put("tools/acme/run.sh", "# ---\n# executor_id: null\n# ---\n")},
		{"a helper's byte", "multi/m", put("tools/acme/multi/h.py", "x = 2\n")},
		{"a helper more", "multi/m", put("tools/acme/multi/os.py", "")},
		{"a helper more, hidden", "multi/m", put("tools/acme/multi/.pth", "")},
		{"a helper's mode", "multi/m", func(m fstest.MapFS) { m["tools/acme/multi/run.sh"].Mode = 0o755 }},
		{"a helper renamed", "multi/m", func(m fstest.MapFS) {
			m["tools/acme/multi/i.py"] = m["tools/acme/multi/h.py"]
			delete(m, "tools/acme/multi/h.py")
		}},
		{"no marker", "multi/m", func(m fstest.MapFS) { delete(m, "tools/acme/multi/__init__.py") }},
		{"a link", "multi/m", func(m fstest.MapFS) {
			m["tools/acme/multi/h.py"] = &fstest.MapFile{Data: []byte("/tmp/h.py"), Mode: fs.ModeSymlink | 0o777}
		}},
		{"a line with a coding", "multi/m", before("tools/acme/multi/h.py", "# "+v1+" coding:unicode_escape\n")},
		{"a line that ends early", "multi/m", before("tools/acme/multi/h.py",
			"# coding: utf-8\n# "+v1+"\rimport evil\n")},
		{"a line that swallows", "multi/m", put("tools/acme/multi/run.sh", "#!/bin/sh\n# "+v1+"\rset -e\n")},
		{"unsigned executor", "own", put("tools/acme/run.yaml", tool("acme/run", subprocess))},
		{"executor of another name", "own", func(m fstest.MapFS) {
			m["tools/acme/own.yaml"].Data = []byte(strings.Replace(string(m["tools/acme/own.yaml"].Data), "acme/run",
				"acme/rum", 1))
			m["tools/acme/rum.yaml"] = m["tools/acme/run.yaml"]
		}},
		{"an executor in front", "one", put("tools/"+python+".yaml",
			signedBy(t, bob, "tool:"+python, tool(python, subprocess)))},
		{"a primitive in front", "own", put("tools/"+subprocess+".yaml",
			signedBy(t, bob, "tool:"+subprocess, tool(subprocess, "null")))},
		{"a broken one in front", "own", put("tools/"+subprocess+".yaml", "executor_id: [")},
		{"a new primitive", "prim", func(m fstest.MapFS) {
			put("tools/acme/prim.yaml", signedBy(t, bob, "tool:acme/prim",
				tool("acme/prim", "rye/core/primitives/raw")))(m)
			put("tools/rye/core/primitives/raw.yaml", signedBy(t, bob, "tool:rye/core/primitives/raw",
				tool("rye/core/primitives/raw", "null")))(m)
		}},
		{"a primitive in capitals", "prim", func(m fstest.MapFS) {
			put("tools/acme/prim.yaml", signedBy(t, bob, "tool:acme/prim",
				tool("acme/prim", "RYE/core/primitives/raw")))(m)
			put("tools/RYE/core/primitives/raw.yaml", signedBy(t, bob, "tool:RYE/core/primitives/raw",
				tool("RYE/core/primitives/raw", "null")))(m)
		}},
		{"a primitive of his own", "prim", put("tools/acme/prim.yaml",
			signedBy(t, bob, "tool:acme/prim", tool("acme/prim", "null")))},
		{"signed as another kind", "prim", put("tools/acme/prim.yaml",
			signedBy(t, bob, "directive:acme/prim", tool("acme/prim", subprocess)))},
		{"signed as a bundle", "prim", put("tools/acme/prim.yaml",
			signedBy(t, bob, "bundle:acme/prim@1.0.0", tool("acme/prim", subprocess)))},
		{"signed by a stranger", "one", put("tools/acme/one.py",
			signedBy(t, eve, "tool:acme/one", pyTool("acme/one", python)))},
	} {
		s, m := cloned(t)
		c.change(m)
		if err := used(t, s, "tool:acme/"+c.ref); err == nil {
			t.Errorf("%s: it is used", c.name)
		}
	}

	// What bob may not say is as if it weren't there.
	s, m := cloned(t)
	extractor := tool("rye/core/extractors/tool_extractor", "null", "tool_type: extractor", "extensions: [.py, .txt]",
		"parser: {.txt: yaml}")
	extractor = strings.Replace(extractor, "tool_type: test\n", "", 1)
	put("tools/rye/core/extractors/tool_extractor.yaml",
		signedBy(t, bob, "tool:rye/core/extractors/tool_extractor", extractor))(m)
	put("config/loop.yaml", signedBy(t, bob, "config:loop", "turns: 100\n"))(m)
	if err := used(t, s, "tool:acme/one"); err != nil {
		t.Errorf("beside an extractor that doesn't count: %v", err)
	}
	tr := bobTrust(t)
	v, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{s, stdSpace()}, Trust: tr,
		MayOverride: tr.Root.Policy.MayOverride})
	if err != nil {
		t.Fatal(err)
	}
	if k, _ := v.Kind("tool"); !k.Builtin || len(v.Warnings()) != 1 {
		t.Errorf("the kind is from %q, with the warnings %v", k.From, v.Warnings())
	}
	if _, err := v.Config(t.Context(), ai.NewAdmitter(v, tr), "loop"); err == nil {
		t.Error("config of an untrusted signer is used")
	}
	// A directory that is called as a marker brings nothing along.
	s, m = cloned(t)
	m["tools/acme/__init__.py"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	if err := used(t, s, "tool:acme/one"); err == nil {
		t.Error("beside other tools and a marker a tool is a file of its own")
	}
}
