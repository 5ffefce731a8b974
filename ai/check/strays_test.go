package check_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
)

func TestStrays(t *testing.T) {
	const v1 = "rye:signed:2026-02-10T02:00:00Z:00:AA:bb"
	files := map[string]string{
		"tools/acme/good.yaml":     "executor_id: rye/core/primitives/subprocess\n",
		"tools/acme/v1.sh":         "#!/bin/sh\n# " + v1 + "\n# Version: 1.0.0\necho\n",
		"tools/acme/v1.js":         "// " + v1 + "\nmodule.exports = {}\n",
		"tools/acme/v1.json":       `{"_": 1,` + "\n  \"" + v1 + "\": 1}\n",
		"tools/acme/plain.json":    "{}",
		"tools/acme/plain.toml":    "x = 1\n",
		"tools/acme/lib.py":        "X = 1\n",
		"tools/acme/tree/lib.py":   "X = 1\n",
		"tools/acme/_lib.py":       "# " + v1 + "\n",
		"tools/.hidden/lib.py":     "# " + v1 + "\n",
		"tools/__pycache__/lib.py": "# " + v1 + "\n",
		"tools/acme/readme.md":     "<!-- " + v1 + " -->\n",
		"tools/acme/logo.svg":      "x",
		"knowledge/plain.md":       "Just text about rye:signed: lines, `rye:signed:` and so on\n",
		"knowledge/signed.md":      "<!-- " + v1 + " -->\n# Text\n",
		"directives/readme.md":     "Text\n",
	}
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	s := &ai.Space{Label: "project", Level: ai.Project, FS: tree}
	v, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{s}})
	if err != nil {
		t.Fatal(err)
	}
	known := func(p string) bool { return strings.HasPrefix(p, "tools/acme/tree/") }
	all, err := check.Strays(t.Context(), v, s, known)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range all {
		got = append(got, fmt.Sprintf("%s %s signed=%t never=%t", f.Kind.Name, f.Path, f.Signed, f.Never))
	}
	want := []string{
		"knowledge knowledge/signed.md signed=true never=false",
		"tool tools/acme/lib.py signed=false never=false",
		"tool tools/acme/plain.json signed=false never=true",
		"tool tools/acme/plain.toml signed=false never=true",
		"tool tools/acme/v1.js signed=true never=false",
		"tool tools/acme/v1.json signed=true never=true",
		"tool tools/acme/v1.sh signed=true never=false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := check.Strays(ctx, v, s, known); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	if all, err := check.Strays(t.Context(), v, &ai.Space{Label: "user", FS: fstest.MapFS{}}, known); err != nil ||
		len(all) > 0 {
		t.Errorf("an empty space: %v, %v", all, err)
	}
}
