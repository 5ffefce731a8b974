package hook

import (
	"context"
	"fmt"

	"github.com/rye-build/rye/ai/check"
)

// Check is a check.Rule. It reports a directive's hooks that Read would refuse, so that the first run doesn't fail.
// Config defines the events, so only Read checks their names.
func Check(_ context.Context, c *check.Checker, it *check.Checked) (problems []check.Problem) {
	if it.Model.Directive == nil {
		return nil
	}
	s := &Set{anyEvent: true}
	for i, h := range it.Model.Directive.Hooks {
		field := fmt.Sprintf("hooks[%d]", i)
		if err := s.add(h.Value, Directive, field); err != nil {
			p := c.About(it.File, h.Value.At, nil)
			p.Field, p.Message = field, err.Error()
			problems = append(problems, p)
		}
	}
	return problems
}
