package session_test

import (
	"context"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/session"
)

// BenchmarkCall calls a tool of the library that this process runs itself, as the lock pins it.
func BenchmarkCall(b *testing.B) {
	p := testProject(b)
	must(b, p.write("rye.yaml", "roots:\n  - tool:rye/core/system/system\n"), p.lock())
	type nothing struct {
		Item string `json:"item"`
	}
	s, err := p.open(b, session.Options{Functions: func(*session.Session) function.Functions {
		return function.Functions{"system": function.Of(nil,
			func(context.Context, *function.Call, nothing) (any, error) {
				return map[string]any{"success": true, "data": map[string]any{"unix": 0}}, nil
			})}
	}})
	must(b, err)
	call := &exec.Call{Ref: model.Ref{Kind: "tool", ID: "rye/core/system/system"}}
	for b.Loop() {
		if r, err := s.Call(b.Context(), call, nil); err != nil || r.Failed {
			b.Fatal(r, err)
		}
	}
}
