package runs

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/threads/graphview"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/jcs"
)

// This file adds the parameters of an item to the help of exec and run.

// Explain shows the parameters of the tool.
func (c *execRun) Explain(ctx context.Context, app *cli.App) (string, error) {
	v, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return "", err
	}
	defer v.Close()
	it, err := v.FindNamed(ctx, toolArg(app, c.Ref))
	if err != nil {
		return "", err
	}
	t := it.Model.Tool
	if t == nil {
		_, err := c.ref(ctx, app)
		return "", err
	}
	schema, err := exec.Input(t)
	if err != nil {
		return "", exec.ConfigError(it.Ref, err)
	}
	return explained(app, it, schema, "-p", "It declares no parameters."), nil
}

// Explain shows the inputs of the directive.
func (c *runRun) Explain(ctx context.Context, app *cli.App) (string, error) {
	ref, err := c.ref(app)
	if err != nil {
		return "", err
	}
	v, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return "", err
	}
	defer v.Close()
	it, err := v.FindNamed(ctx, ref.String())
	if ref.Kind == "tool" && (err != nil || !graph.Is(it.Model.Tool)) {
		return "", graphview.NoGraph(app, ref)
	}
	if err != nil {
		return "", err
	}
	schema, err := agenttools.Inputs(it)
	if err != nil {
		return "", err
	}
	return explained(app, it, schema, "-i", "It declares no inputs."), nil
}

// explained lists the parameters of an item and the flag that sets them.
func explained(app *cli.App, it *ai.Item, schema *params.Schema, flag, none string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s", cli.Escape(it.Ref.String(), app.Term.Ascii))
	if d := it.Model.Description; d != "" {
		fmt.Fprintf(&out, ": %s", cli.Escape(d, app.Term.Ascii))
	}
	out.WriteString("\n")
	fields := schema.Fields()
	if len(fields) == 0 {
		fmt.Fprintf(&out, "  %s\n", none)
	}
	width := 0
	for _, f := range fields {
		width = max(width, len(cli.Escape(f.Name, app.Term.Ascii)))
	}
	for _, field := range fields {
		words := []string{cmp.Or(field.Type, "any value")}
		if len(field.Values) > 0 {
			words[0] = "one of " + strings.Join(field.Values, ", ")
		}
		if field.Required {
			words = append(words, "required")
		}
		if field.HasDefault {
			if text, err := jcs.Append(nil, field.Default); err == nil {
				words = append(words, "default "+string(text))
			}
		}
		fmt.Fprintf(&out, "  %s %-*s  %s\n", flag, width+1, cli.Escape(field.Name, app.Term.Ascii)+"=",
			cli.Escape(strings.Join(words, "; "), app.Term.Ascii))
		if field.Description != "" {
			fmt.Fprintf(&out, "     %-*s  %s\n", width+1, "", cli.Escape(field.Description, app.Term.Ascii))
		}
	}
	return out.String()
}
