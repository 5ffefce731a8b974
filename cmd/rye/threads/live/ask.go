package live

import (
	"context"
	"maps"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/manifest/jcs"
)

// maxShown is how many bytes of a parameter a question shows.
const maxShown = 4 << 10

// Question shows the call that a question is about.
func Question(app *cli.App, q *consent.Question) {
	app.Term.Prompt("%s needs an approval: %s\n", q.Ref.String(), q.Why())
	for _, name := range slices.Sorted(maps.Keys(q.Params)) {
		b, err := jcs.Append(nil, q.Params[name])
		text := string(b)
		if err != nil {
			text = err.Error()
		}
		if len(text) > maxShown {
			text = fault.Clip(text, maxShown) + " (" + fault.Count(int64(len(text)), "byte") + ")"
		}
		app.Term.Prompt("  %s: %s\n", name, text)
	}
}

// Asks returns a function that asks about the calls of a thread; nil without a terminal.
func (v *View) Asks(a *cli.App) toolcall.Ask {
	if !a.CanAsk() {
		return nil
	}
	return func(ctx context.Context, q *consent.Question) (_ toolcall.Reply, err error) {
		var line string
		v.Ask(func() {
			Question(a, q)
			line, err = a.Ask(ctx, "run it?", "[y] once, [t] always in this thread, [N] no:")
		})
		switch line {
		case "y", "yes":
			return toolcall.Once, err
		case "t":
			return toolcall.ThisThread, err
		}
		return toolcall.No, err
	}
}
