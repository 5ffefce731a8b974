package graph

import (
	"context"

	"github.com/rye-build/rye/ai/check"
)

// Check is a check.Rule. It reports the problems of a graph.
func Check(_ context.Context, c *check.Checker, it *check.Checked) []check.Problem {
	if !Is(it.Model.Tool) {
		return nil
	}
	_, problems := Read(it.Model.Tool)
	return c.Fields(it.File, problems)
}
