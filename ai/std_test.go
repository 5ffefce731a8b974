package ai_test

import (
	"errors"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/manifest/policy"
)

// TestLibrary: every item in the binary is one, is valid, is admitted, and has a chain if it is run.
func TestLibrary(t *testing.T) {
	tr := trust(t, noOverride)
	v, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{{Label: "system:rye/std", FS: std.FS(),
		Builtin: true}}, Trust: tr})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, "warnings", warnings(v))
	for _, k := range v.Kinds() {
		if k.Builtin {
			t.Errorf("the library has no extractor of %q", k.Name)
		}
	}
	l, err := v.Files(t.Context())
	if err != nil || len(l.Files) == 0 {
		t.Fatal(l, err)
	}
	for _, p := range l.Problems {
		t.Error(p)
	}
	a := ai.NewAdmitter(v, tr)
	for _, f := range l.Files {
		it, err := v.Load(t.Context(), f)
		if errors.Is(err, ai.ErrAsset) {
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		for _, p := range it.Model.Problems {
			t.Errorf("%s: %v", f.Ref, p)
		}
		if err := a.Require(t.Context(), it, policy.ToUse); err != nil {
			t.Errorf("%s: %v", f.Ref, err)
		}
		if tool := it.Model.Tool; tool == nil || tool.Type == "extractor" {
			continue
		}
		if _, err := ai.WalkFrom(t.Context(), v, it); err != nil {
			t.Errorf("%s: %v", f.Ref, err)
		}
	}
	// What a runtime has its interpreter load is its own.
	tree, err := a.Tree(t.Context(), find(t, v, "tool:rye/core/runtimes/python_script_runtime"))
	if err != nil || tree == nil {
		t.Errorf("the launcher of Python isn't covered: %v, %v", tree, err)
	}
}
