package closure_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/manifest/jcs"
)

func TestConfig(t *testing.T) {
	w := &world{spaces: map[string]files{
		"project": {"config/agent.yaml": "loop: {turns: 5}\n"},
		"user":    {"config/agent.yaml": "loop: {turns: 9}\nmine: true\n", "config/mine.yaml": "a: [1, 2]\n"},
		base: {"config/agent.yaml": "loop: {turns: 3, depth: 2}\nlist: [1]\n",
			"config/mine.yaml": "a: [0]\nb: 1.50\n"},
	}}
	c, _ := w.build(t).close()
	same(t, "pins", pinned(c), []string{"config:agent project", "config:mine user"})
	same(t, "uses", uses(c), []string{"- config config:agent", "- root config:agent", "- config config:mine"})
	same(t, "warnings", texts(c.Warnings),
		[]string{`"user/config/agent.yaml": not merged: the project has a config of this name`})
	var got []string
	for _, d := range c.Definitions {
		got = append(got, d.Name+" "+d.Digest.String())
	}
	same(t, "definitions", got, []string{
		"config:agent " + cas.Sum([]byte(`{"list":[1],"loop":{"depth":2,"turns":5},"name":"agent"}`)).String(),
		"config:mine " + cas.Sum([]byte(`{"a":[1,2],"b":1.5,"name":"mine"}`)).String(),
	})
	for _, p := range c.Pins {
		if p.Ref.Kind == "config" && (!p.Interface.IsZero() || !p.Grants.IsZero() || p.Version != "") {
			t.Errorf("config has a pin %+v", p)
		}
	}
}

// TestConfigExtends: what config extends is in its definition, and is pinned; a file may replace those below it.
func TestConfigExtends(t *testing.T) {
	w := &world{spaces: map[string]files{
		"project": {"config/agent.yaml": "extends: shared\nloop: {turns: 5, depth: null}\n",
			"config/alone.yaml": "extends: none\nx: 1\n"},
		base: {"config/agent.yaml": "loop: {depth: 2}\n", "config/shared.yaml": "loop: {spawns: 1}\nlist: [{id: a}]\n",
			"config/alone.yaml": "z: 1\n"},
	}}
	c, _ := w.build(t).close()
	same(t, "uses", uses(c), []string{"- config config:agent", "- root config:agent", "- config config:alone",
		"- root config:alone", "- config config:shared", "config:agent config config:shared line 2"})
	var got []string
	for _, d := range c.Definitions {
		got = append(got, d.Name+" "+d.Digest.String())
	}
	same(t, "definitions", got, []string{
		"config:agent " + cas.Sum([]byte(`{"list":[{"id":"a"}],"loop":{"spawns":1,"turns":5},"name":"agent"}`)).
			String(),
		"config:alone " + cas.Sum([]byte(`{"name":"alone","x":1}`)).String(),
		"config:shared " + cas.Sum([]byte(`{"list":[{"id":"a"}],"loop":{"spawns":1},"name":"shared"}`)).String(),
	})
}

func TestConfigProblems(t *testing.T) {
	deep := strings.Repeat("{a: ", 70) + "1" + strings.Repeat("}", 70)
	for _, tc := range []struct {
		name string
		w    *world
		want []string
	}{
		{"two bundles", &world{spaces: map[string]files{"project": {"config/a.yaml": "x: 1\n"},
			base: {"config/a.yaml": "x: 1\n"}, more: {"config/a.yaml": "x: 1\n"}}}, []string{
			`"project/config/a.yaml": config:a is ambiguous: 2 files have this id; system:acme/base/config/a.yaml; system:acme/more/config/a.yaml`}},
		{"two bundles alone", &world{spaces: map[string]files{base: {"config/a.yaml": "x: 1\n"},
			more: {"config/a.yaml": "x: 1\n"}}}, []string{
			`config:a is ambiguous: 2 files have this id; system:acme/base/config/a.yaml; system:acme/more/config/a.yaml`}},
		{"unsigned below", &world{spaces: map[string]files{"project": {"config/a.yaml": "x: 1\n"},
			base: {"config/a.yml": "x: 1\n"}}, unsigned: []string{"config/a.yml"}}, []string{
			`"system:acme/base/config/a.yml": "config:a" is unsigned; "**" requires 1 key`}},
		{"unsigned above", &world{spaces: map[string]files{"project": {"config/a.yml": "x: 1\n"},
			base: {"config/a.yaml": "x: 1\n"}}, unsigned: []string{"config/a.yml"}}, []string{
			`"project/config/a.yml": "config:a" is unsigned; "**" requires 1 key`}},
		{"invalid below", &world{spaces: map[string]files{"project": {"config/a.yaml": "x: 1\n"},
			base: {"config/a.yaml": "x: 1\nx: 2\n"}}}, []string{
			`"system:acme/base/config/a.yaml": line 3, column 1: "x" stands here a second time, after line 2`}},
		{"twice", &world{spaces: map[string]files{"project": {"config/a.yaml": "x: 1\n", "config/a.yml": "x: 1\n"}},
			roots: []string{"tool:rye/core/primitives/*"}}, []string{
			`"project/config/a.yaml": config:a is ambiguous: 2 files have this id; project/config/a.yaml; project/config/a.yml`,
			`"project/config/a.yml": config:a is ambiguous: 2 files have this id; project/config/a.yaml; project/config/a.yml`}},
		{"extends itself", &world{spaces: map[string]files{"project": {"config/a.yaml": "extends: b\n",
			"config/b.yaml": "x: 1\nextends: a\n"}}}, []string{
			`"project/config/a.yaml": line 2: extends: "project/config/b.yaml": line 3: extends: config extends itself: a, b, a`,
			`"project/config/b.yaml": line 3: extends: "project/config/a.yaml": line 2: extends: config extends itself: b, a, b`}},
		{"extends what is missing", &world{spaces: map[string]files{"project": {"config/a.yaml": "extends: gone\n"}}},
			[]string{`"project/config/a.yaml": line 2: extends: config:gone not found`}},
		{"in front of the library", &world{spaces: map[string]files{"project": {"config/rye/loop.yaml": "x: 1\n"},
			base: {"config/rye/loop.yaml": "x: 1\n"}}}, []string{
			`config:rye/loop is protected: the space "project" may not replace it; "project/config/rye/loop.yaml" replaces the item of system:acme/base; "override:" in the root policy can allow it`}},
		{"too deep", one(files{"config/a.yaml": "x: " + deep + "\n"}), []string{
			`"project/config/a.yaml": json: nested more than 64 deep`}},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.w.build(t).problems(tc.want...) })
	}
}

// Config means here what it means to ai.View.Config.
func TestConfigAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var value func(depth int) string
	value = func(depth int) string {
		switch n := rng.IntN(7); {
		case n < 3 && depth < 4:
			var fields []string
			for _, k := range []string{"a", "b", "c"} {
				if rng.IntN(2) == 0 {
					fields = append(fields, k+": "+value(depth+1))
				}
			}
			return "{" + strings.Join(fields, ", ") + "}"
		case n == 3:
			return fmt.Sprintf("[%d, {a: %d}]", rng.IntN(3), rng.IntN(3))
		case n == 4:
			return "null"
		}
		return fmt.Sprint(rng.IntN(100))
	}
	for range 15 {
		w := &world{spaces: map[string]files{}}
		for _, label := range []string{"project", base} {
			f := files{}
			for _, name := range []string{"x", "y"} {
				if rng.IntN(3) > 0 {
					f["config/"+name+".yaml"] = "a: " + value(0) + "\nb: " + value(0) + "\n"
				}
			}
			w.spaces[label] = f
		}
		b := w.build(t)
		c, _ := b.close()
		for _, d := range c.Definitions {
			m, err := b.view.Config(t.Context(), ai.NewAdmitter(b.view, b.trust),
				strings.TrimPrefix(d.Name, "config:"))
			if err != nil {
				t.Fatal(err)
			}
			v, err := m.Value.JSON()
			if err != nil {
				t.Fatal(err)
			}
			text, err := jcs.Append(nil, v)
			if err != nil {
				t.Fatal(err)
			}
			if d.Digest != cas.Sum(text) {
				t.Errorf("%s is %s", d.Name, text)
			}
		}
	}
}

// Of the library's config that is pinned which is named: no file of anybody's changes it. What is named may be
// missing.
func TestConfigOfLibrary(t *testing.T) {
	w := one(files{"tools/acme/t.yaml": tool("acme/t", start,
		`permissions: ["load:config:acme/c", "load:config:acme/none"]`)}, "tool:acme/t")
	w.spaces[base] = files{"config/acme/c.yaml": "x: 1\n", "config/acme/d.yaml": "x: 1\n"}
	b := w.build(t)
	b.spaces[base].Builtin = true
	b.look()
	c, err := closure.Close(t.Context(), b.options(nil))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "pins", pinned(c), []string{"config:acme/c " + base, "tool:acme/t project", "tool:" + start + inStd})
	if len(c.Definitions) != 1 {
		t.Errorf("definitions are %v", c.Definitions)
	}
	same(t, "warnings", texts(c.Warnings),
		[]string{`"project/tools/acme/t.yaml": line 8, column 37: config:acme/none not found`})
}
