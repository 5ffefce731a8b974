package paths

import (
	"context"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/manifest/trust"
)

// TrustChange is the result of a policy edit. A change that was shown with the question isn't printed again.
type TrustChange struct {
	trust.Change
	shown bool // already shown on standard error, with the question
}

func (c TrustChange) Text(t *cli.Terminal) {
	for _, line := range c.Changes {
		if !c.shown {
			t.Printf("%s\n", line)
		}
	}
}

// An Edit is a change of the root policy. Before runs ahead of the question. Without a Question nothing is asked.
type Edit struct {
	trust.Edit
	Question string
	Before   func()
}

// EditPolicy changes the root policy: it shows the difference, asks, and writes.
func EditPolicy(ctx context.Context, app *cli.App, edit Edit) (ans TrustChange, err error) {
	edit.Approve = func(c trust.Change) error {
		if edit.Before != nil {
			edit.Before()
		}
		if len(c.Changes) == 0 {
			app.Term.Note("the policy says so already")
		}
		if len(c.Changes) == 0 || edit.Question == "" || app.Globals.Yes {
			return nil
		}
		for _, line := range c.Changes {
			app.Term.Say("  ", "%s", []any{line.String()})
		}
		ans.shown = true
		return app.Confirm(ctx, edit.Question)
	}
	ans.Change, err = Paths(app).EditPolicy(ctx, app.Now(), edit.Edit)
	if err != nil {
		return TrustChange{}, err
	}
	if ans.Unsigned {
		app.Term.Warn("the policy is no longer signed: sign it again")
	}
	if len(ans.Changes) > 0 {
		app.Term.Note("wrote %q", ans.Policy)
	}
	return ans, nil
}
