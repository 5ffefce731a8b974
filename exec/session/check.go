package session

import (
	"context"
	"fmt"
	"sync"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/template"
)

// CheckConfig is a rule of check. It warns of undefined names in the configuration of a tool, so that every
// call fails. Those of a runtime may be parameters of the tools that it runs.
func CheckConfig(_ context.Context, checker *check.Checker, it *check.Checked) (lines []check.Problem) {
	tool := it.Model.Tool
	if it.Chain == nil || tool.Config.IsNull() || tool.Primitive || tool.Type == "runtime" || graph.Is(tool) {
		return nil
	}
	var links []template.Link
	for _, l := range it.Chain.Links {
		links = append(links, template.Link{Name: l.Ref.String(), Config: l.Model.Tool.Config})
	}
	merged, err := template.Merge(links...)
	if err != nil {
		return nil // the model reports a configuration that isn't an object
	}
	declares := sync.OnceValue(func() func(string) bool { // most tools have no name in their own configuration
		schema, err := exec.Input(tool)
		if err != nil {
			return func(string) bool { return true }
		}
		return schema.Declares
	})
	for _, wrong := range merged.Unknown(it.Ref.String(), exec.Named(), func(name string) bool {
		return declares()(name)
	}) {
		l := checker.About(it.File, wrong.At, nil)
		l.Severity, l.Field = check.Warning, "config"
		l.Message = fmt.Sprintf("config %q: %s", wrong.Path, wrong.Err)
		lines = append(lines, l)
	}
	return lines
}
