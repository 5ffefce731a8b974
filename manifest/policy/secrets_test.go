package policy

import (
	"strings"
	"testing"
)

func TestMayHave(t *testing.T) {
	root := mustParse(t, "exec: {secrets: {token: [acme/**], other: [x]}}\n")
	for _, c := range []struct {
		project, item string
		want          bool
	}{
		{"", "tool:acme/a", true}, {"", "tool:b", false}, {"", "acme", false},
		{"{}", "tool:acme/a", true},
		{"exec: {secrets: {}}", "tool:acme/a", false},
		{"exec: {secrets: {token: [acme/b]}}", "tool:acme/a", false},
		{"exec: {secrets: {token: [acme/b]}}", "tool:acme/b", true},
		{"exec: {secrets: {token: [b]}}", "tool:b", false},
	} {
		var project *Policy
		if c.project != "" {
			project = mustParse(t, c.project)
		}
		if MayHave("token", c.item, root, project) != c.want {
			t.Errorf("%q, %s: want %v", c.project, c.item, c.want)
		}
	}
}

func TestGrantsAndOverride(t *testing.T) {
	p := mustParse(t,
		"grants:\n  \"**\": [none]\n  acme/**: [a, b]\n  tool:acme/x: []\noverride: [\"tool:rye/web/*\"]\n")
	for item, want := range map[string]string{"tool:acme/y": "a b", "tool:acme/x": "", "tool:z": "none",
		"knowledge:acme/x": "a b", "audit:x": "-", "z": "-"} {
		got, ok := p.Grants(item)
		if s := strings.Join(got, " "); ok != (want != "-") || ok && s != want {
			t.Errorf("%s: %q %v", item, s, ok)
		}
	}
	for item, want := range map[string]bool{"tool:rye/web/a": true, "tool:rye/bash": false,
		"knowledge:rye/web/a": false, "rye/web/a": false} {
		if p.MayOverride(item) != want {
			t.Errorf("%s: want %v", item, want)
		}
	}
}

// TestRuleOf: the rule that decides is found whatever its keys are worth today.
func TestRuleOf(t *testing.T) {
	p := mustParse(t, `keys:
  alice: {key: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", expires: "2020-01-01"}

names:
  "**": {keys: [alice], except: ["rye/**"]}
  "tool:acme/**": {keys: [alice]}

lists:
  acme: {from: nowhere.yaml, key: alice, max-age: 7d}
`)
	for name, want := range map[string]string{"tool:acme/x": "tool:acme/**", "knowledge:acme/x": "**",
		"tool:rye/x": "", "policy:x": "", "acme": ""} {
		if r, ok := p.RuleOf(name); r.Glob != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", name, r.Glob, ok)
		}
	}
}
