package paths

import (
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/workspace"
)

// WarnCovers warns about advisories that cover locked bundles, and says what to run next.
func WarnCovers(app *cli.App, all []workspace.Cover) {
	next := []string{}
	for _, c := range all {
		app.Term.Warn("the advisory %s of %q covers %s (%s, %s): %q", c.Advisory, c.Registry, c.Bundle, c.Severity,
			c.Kind, c.Summary)
		id, _, _ := strings.Cut(c.Bundle, "@")
		if command := fault.Command("rye update", id); !slices.Contains(next, command) {
			next = append(next, command)
		}
	}
	if len(next) > 0 {
		app.Term.Note("next: %s; rye trust update reads the newest advisories", strings.Join(next, ", "))
	}
}
