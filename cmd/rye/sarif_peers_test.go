//go:build peers

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// TestSARIFSchema: what is written as SARIF keeps to the schema of SARIF 2.1.0, as Microsoft's matchers for jest bring
// it.
func TestSARIFSchema(t *testing.T) {
	work := t.TempDir()
	npm(t, work, "install", "--ignore-scripts", "--no-audit", "--no-package-lock", "--legacy-peer-deps",
		"@microsoft/jest-sarif@1.0.0-beta.0")
	b, err := os.ReadFile(filepath.Join(work, "node_modules/@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json"))
	if err != nil {
		t.Fatal(err)
	}
	schema := new(jsonschema.Schema)
	if err := json.Unmarshal(b, schema); err != nil {
		t.Fatal(err)
	}
	// it says draft 4; the keywords that it uses mean the same in both
	schema.Schema = "http://json-schema.org/draft-07/schema#"
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob("sarif/testdata/*.sarif")
	if err != nil || len(logs) < 3 {
		t.Fatal(logs, err)
	}
	// What the commands themselves write of a project in which all is wrong, counts too.
	p := newPipeline(t, "github")
	p.breakIt("invalid")
	p.breakIt("damaged")
	p.steps(nil, nil)
	for name, args := range map[string][]string{"diff": {"diff"}, "licences": {"licences"},
		"usage": {"verify", "tool:none"}} {
		log := p.output(append(args, "--format", "sarif")...)
		if err := os.WriteFile(filepath.Join(p.runner, "rye", name+".sarif"), log, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	written, err := filepath.Glob(filepath.Join(p.runner, "rye", "*.sarif"))
	if err != nil || len(written) != 6 {
		t.Fatal(written, err)
	}
	for _, name := range append(logs, written...) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var log map[string]any
		if err := json.Unmarshal(b, &log); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(log); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// The schema is asked, and says no.
		log["runs"].([]any)[0].(map[string]any)["results"] = []any{map[string]any{"level": "fatal"}}
		if resolved.Validate(log) == nil {
			t.Errorf("%s: a wrong level is valid", name)
		}
	}
}
