// Items that a directive has written, for rye run.

package items

import (
	"context"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/trusts"
)

// Made is an item that a directive returned as its outputs ref, extension and content.
type Made struct {
	Ref       string // such as "tool:acme/fetch"
	Extension string // such as ".py"
	Content   string
	From      string // its origin, for errors and the answer
}

// Written is the answer of rye new.
type Written = newAnswer

// MadeOf reads an item from the outputs of a directive. All three outputs are required.
func MadeOf(outputs map[string]any, from string) (*Made, error) {
	m := &Made{From: from}
	for name, to := range map[string]*string{"ref": &m.Ref, "extension": &m.Extension, "content": &m.Content} {
		text, ok := outputs[name].(string)
		if !ok || text == "" {
			return nil, fault.New(fault.Validation, "the output %q is missing, so there is no item to write", name)
		}
		*to = text
	}
	return m, nil
}

// Write shows the file, asks, and then writes and signs it as rye new --from does. It replaces no file.
func (m *Made) Write(ctx context.Context, app *cli.App, k trusts.KeyFlag,
	lock func(context.Context, *cli.App) (bool, error)) (*Written, error) {
	kind, id, ok := strings.Cut(m.Ref, ":")
	if !ok {
		return nil, fault.New(fault.Validation, "invalid output ref %q: expected KIND:ID", m.Ref)
	}
	if !strings.HasPrefix(m.Extension, ".") {
		m.Extension = "." + m.Extension
	}
	c := &newRun{Kind: kind, ID: id, KeyFlag: k, lock: lock, made: m}
	c.approve = func(ctx context.Context, it *ai.Item, ans newAnswer) error {
		app.Term.Note("--- nothing")
		app.Term.Note("+++ %s", ans.File)
		for line := range strings.Lines(string(it.Bytes)) {
			app.Term.Note("+%s", strings.TrimSuffix(line, "\n"))
		}
		return app.Confirm(ctx, "Write "+ans.File+" and sign it?")
	}
	ans, err := c.Run(ctx, app)
	if err != nil {
		return nil, err
	}
	written := ans.(newAnswer)
	return &written, nil
}
