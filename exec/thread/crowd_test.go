package thread_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
)

// BenchmarkChildren is a thread that starts 25 others at once.
func BenchmarkChildren(b *testing.B) {
	items := map[string]string{
		"directives/acme/plan.md": strings.ReplaceAll(parent, "LIMITS", `<limits spawns="1000"/>`),
		"directives/acme/leaf.md": strings.ReplaceAll(strings.ReplaceAll(parent, "LIMITS", ""), `name="plan"`,
			`name="leaf"`),
		"config/resilience.yaml": "concurrency: {max_concurrent_children: 100}\n",
	}
	w, results := family(b, items, func(first string) (calls []provider.ToolCall) {
		if strings.Contains(first, "start many") {
			for i := range 25 {
				calls = append(calls, starts(fmt.Sprint(i), "acme/leaf", nil))
			}
		}
		return calls
	})
	for b.Loop() {
		r, err := w.run(b.Context(), thread.Start{Directive: model.Ref{Kind: "directive", ID: "acme/plan"},
			Inputs: params.Values(object{"what": "many"})})
		must(b, err)
		if got := results(); !r.Success || len(got) != 25 || got[0]["status"] != "completed" {
			b.Fatalf("%+v: %v", r, got)
		}
	}
}
