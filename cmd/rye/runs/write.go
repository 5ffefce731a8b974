package runs

import (
	"context"
	"slices"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/items"
	"github.com/rye-build/rye/exec/thread"
)

// writable refuses --write before the model costs money, if the result can't be written.
func (c *runRun) writable(ctx context.Context, app *cli.App, s *Opened, ref model.Ref) error {
	it, err := s.Item(ctx, ref)
	if err != nil {
		return Reworded(app, err)
	}
	var outputs []declared.Output
	if it.Model.Directive != nil { // a graph has none
		outputs = it.Model.Directive.Outputs
	}
	for _, name := range []string{"content", "extension", "ref"} {
		if !slices.ContainsFunc(outputs, func(o declared.Output) bool { return o.Name == name }) {
			return fault.New(fault.Validation,
				"%q returns no item: --write needs the outputs ref, extension and content", ref).On("missing", name).
				Try("rye docs directive-format")
		}
	}
	if !app.Globals.Yes && !app.CanAsk() {
		return fault.New(fault.Approval, "--write needs a terminal to ask before it writes").
			Try(app.With("--yes"))
	}
	return nil
}

// write writes and signs the item that a thread returned.
func (c *runRun) write(ctx context.Context, a *cli.App, r *thread.Result) (*items.Written, error) {
	made, err := items.MadeOf(r.Outputs, "thread "+r.Thread)
	if err != nil {
		return nil, err
	}
	w, err := made.Write(ctx, a, c.KeyFlag, c.lock)
	if err != nil {
		f := fault.Of(err)
		return nil, f.On("thread", r.Thread).Try("rye thread show " + fault.Quote(r.Thread))
	}
	return w, nil
}
