package runs

import (
	"cmp"
	"context"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread/provider"
)

// CheckProviders reports which providers of models are ready, and what the others lack.
func CheckProviders(ctx context.Context, a *cli.App) paths.Finding {
	s, err := Open(ctx, a, session.Mode{})
	if err != nil && fault.CodeOf(err) == fault.NotLocked && a.Env("CI") == "" {
		s, err = Open(ctx, a, session.Mode{Unlocked: true})
	}
	if err != nil {
		return paths.Bad(paths.StatusWarn, err)
	}
	defer s.Close()
	all, err := provider.Candidates(ctx, s.Session)
	if err != nil {
		return paths.Bad(paths.StatusWarn, err)
	}
	var ready, rest []string
	hint := ""
	for _, candidate := range all {
		var lacks []string
		if len(candidate.Lacks) == 0 {
			at, listening := candidate.Listening(ctx)
			if listening {
				ready = append(ready, candidate.Ref.ID)
				continue
			}
			lacks = append(lacks, "nothing listens at "+at)
		}
		for _, l := range candidate.Lacks {
			var why []string
			if l.Unset {
				why = append(why, "not set")
				hint = cmp.Or(hint, fault.Command("rye auth set", l.Secret))
			}
			if l.Denied {
				why = append(why, "not allowed by your policy (exec: secrets)")
			}
			lacks = append(lacks, l.Secret+" is "+strings.Join(why, " and "))
		}
		rest = append(rest, candidate.Ref.ID+": "+strings.Join(lacks, ", "))
	}
	f := paths.Good("ready: %s", strings.Join(ready, ", "))
	if len(ready) == 0 { // no warning: only rye run needs a model
		f = paths.Finding{Status: paths.StatusOK, Detail: "none is ready", Hint: hint}
	}
	if len(rest) > 0 {
		f.Detail += "; not ready: " + strings.Join(rest, "; ")
	}
	return f
}
