package model

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/goldentest"
)

// builtinKind returns a kind of the kernel.
func builtinKind(t testing.TB, name string) *Kind {
	t.Helper()
	for _, k := range Builtin() {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("no kind %s", name)
	return nil
}

// kindOf returns the kind of the kernel in whose directory a path is.
func kindOf(t testing.TB, path string) *Kind {
	t.Helper()
	for _, k := range Builtin() {
		if strings.HasPrefix(path, k.Dir+"/") {
			return k
		}
	}
	t.Fatalf("no kind for %s", path)
	return nil
}

func TestGolden(t *testing.T) {
	root := filepath.Join("testdata", "items")
	n := 0
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(file, ".json") {
			return err
		}
		n++
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		path := filepath.ToSlash(rel)
		t.Run(path, func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			k := kindOf(t, path)
			ref, err := k.RefOf(path)
			if err != nil {
				t.Fatal(err)
			}
			got := dump(t, k.Read(ref, path, content), k.Marked(path, content))
			goldentest.File(t, file+".json", got)
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 15 {
		t.Fatalf("only %d items", n)
	}
}

// dump writes a model as JSON.
func dump(t testing.TB, m *Model, marked bool) []byte {
	t.Helper()
	out := map[string]any{
		"ref": m.Ref.String(), "item": m.Marked, "may be one": marked, "invalid": m.Invalid(), "version": m.Version,
		"title":       m.Title,
		"description": m.Description, "category": m.Category, "tags": m.Tags, "fields": tree(m.Fields),
		"interface": m.Interface(), "grants": m.Grants(),
	}
	if m.Body != "" {
		out["body"], out["body at"] = m.Body, m.BodyAt
	}
	switch {
	case m.Directive != nil:
		d := m.Directive
		out["directive"] = map[string]any{
			"name": d.Name, "author": d.Author, "model": declared.Plain(d.Model), "limits": declared.Plain(d.Limits),
			"permissions": declared.Canonical(d.Permissions),
			"hooks":       len(d.Hooks), "inputs": inputs(d.Inputs), "outputs": d.Outputs,
		}
	case m.Tool != nil:
		x := m.Tool
		tool := map[string]any{
			"name": x.Name, "type": x.Type, "executor": x.Executor, "primitive": x.Primitive, "risk": x.Risk.String(),
			"pure":    x.Pure,
			"network": x.Network.String(), "secrets": x.Secrets, "permissions": declared.Canonical(x.Permissions),
			"limits": declared.Plain(x.Limits),
			"inputs": x.Inputs, "outputs": x.Outputs, "files": x.Files,
		}
		for name, v := range map[string]*value.Value{"config": x.Config, "env_config": x.EnvConfig, "anchor": x.Anchor,
			"verify_deps": m.Fields.Get("verify_deps")} {
			if v != nil {
				tool[name] = declared.Plain(v)
			}
		}
		for _, c := range x.Constraints {
			tool["of "+c.Child] = []string{c.Min, c.Max, c.Range}
		}
		out["tool"] = tool
	case m.Knowledge != nil:
		out["knowledge"] = m.Knowledge
	}
	var problems []string
	for _, p := range m.Problems {
		text := p.Error()
		if p.Warning {
			text = "warning: " + text
		}
		problems = append(problems, "["+p.Field+"] "+text)
	}
	out["problems"] = problems
	b, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func inputs(list []declared.Input) []any {
	var out []any
	for _, in := range list {
		out = append(out, map[string]any{"name": in.Name, "type": in.Type, "required": in.Required,
			"default": declared.Plain(in.Default), "description": in.Description})
	}
	return out
}

// tree writes a value with its keys in order, without what stands in them.
func tree(v *value.Value) []string {
	var keys []string
	for _, e := range v.Map {
		keys = append(keys, e.Key)
	}
	return keys
}
