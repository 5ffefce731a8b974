package ai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
)

// TestProtectedConfig: config of the library is merged with no other, unless the root policy allows it.
func TestProtectedConfig(t *testing.T) {
	library := stdSpace()
	library.FS = small().with(files{"config/rye/loop.yaml": "turns: 5\nallow: none\n"}).fs()
	for policy, want := range map[string]string{
		noOverride: `config:rye/loop is protected: the space "project" may not replace it; "project/config/rye/loop.yaml" replaces the item of system:rye/std; "override:" in the root policy can allow it`,
		override:   "",
	} {
		tr := trust(t, policy)
		p := space("project", files{"config/rye/loop.yaml": "allow: all\n"})
		v, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{p, library}, Trust: tr,
			MayOverride: tr.Root.Policy.MayOverride})
		if err != nil {
			t.Fatal(err)
		}
		p.FS = files{"config/rye/loop.yaml": signText(t, "config:rye/loop", "allow: all\n", 1, alice)}.fs()
		m, err := v.Config(t.Context(), ai.NewAdmitter(v, tr), "rye/loop")
		if want == "" && (err != nil || m.Value.Get("allow").String() != "all" ||
			m.From["turns"] != "system:rye/std") {
			t.Errorf("with override: %v, %v", m, err)
		} else if want != "" {
			wantError(t, err, want)
		}
	}
}

// TestTwoOverrides: that the root policy lets bundles stand in front of the library doesn't put one before the other.
func TestTwoOverrides(t *testing.T) {
	one := func(label string) *ai.Space {
		return space(label, files{"tools/rye/core/runtimes/python.yaml": tool(python, subprocess, anchor)})
	}
	v := view(t, override, one("system:a"), one("system:b"))
	_, err := v.Find(t.Context(), ref("tool:"+python))
	wantError(t, err,
		`tool:rye/core/runtimes/python is ambiguous: 2 files have this id; system:a/tools/rye/core/runtimes/python.yaml; system:b/tools/rye/core/runtimes/python.yaml`)
	v = view(t, override, one("system:a"))
	if it := find(t, v, "tool:"+python); it.Space.Label != "system:a" {
		t.Errorf("found in %s", it.Space.Label)
	}
	v = view(t, override, one("project"), one("system:a"), one("system:b"))
	if it := find(t, v, "tool:"+python); it.Space.Label != "project" {
		t.Errorf("found in %s", it.Space.Label)
	}
}

// TestManyOfOneID: each of many files with one id is a problem, and what they say together doesn't grow with its
// square.
func TestManyOfOneID(t *testing.T) {
	f := files{}
	const bits = 11
	for i := range 1 << bits {
		name := []byte("abcdefghijklmnop"[:bits])
		for j := range bits {
			if i>>j&1 == 1 {
				name[j] -= 'a' - 'A'
			}
		}
		f["tools/"+string(name)+".yaml"] = tool(string(name), "null")
	}
	v := view(t, noOverride, space("project", f))
	l, err := v.Files(t.Context())
	if err != nil || len(l.Problems) != 1<<bits {
		t.Fatalf("%d problems, %v", len(l.Problems), err)
	}
	said := 0
	for _, p := range l.Problems {
		said += len(p.Error())
	}
	if said > len(l.Problems)*1000 {
		t.Errorf("the problems take %d bytes", said)
	}
	if want := fmt.Sprintf(" and %d more", 1<<bits-8); !strings.HasSuffix(l.Problems[0].Error(), want) {
		t.Errorf("got %v", l.Problems[0])
	}
}

// TestNearIsThere: what a message offers instead is an item.
func TestNearIsThere(t *testing.T) {
	v := view(t, noOverride, space("project", files{
		"tools/acme/n.js": "module.exports = {}\n", "tools/acme/s.sh": "#!/bin/sh\n",
		"tools/acme/p.py":   pyTool("acme/p", python),
		"tools/acme/j.json": `{"executor_id": "x"}`, "tools/acme/x.toml": `executor_id = "x"`,
	}))
	for text, want := range map[string]string{
		"tool:acme/n": `tool:acme/n not found; did you mean tool:acme/p?; "project/tools/acme/n.js" is not an item: no executor_id in a header between --- lines`,
		"tool:acme/m": `tool:acme/m not found; did you mean tool:acme/p?`,
		"tool:acme/j": `tool:acme/j not found; did you mean tool:acme/p?; "project/tools/acme/j.json" is not an item: .json files never are`,
		"tool:acme/x": `tool:acme/x not found; did you mean tool:acme/p?; "project/tools/acme/x.toml" is not an item: .toml files never are`,
	} {
		_, err := v.Find(t.Context(), ref(text))
		wantError(t, err, want)
	}
}
