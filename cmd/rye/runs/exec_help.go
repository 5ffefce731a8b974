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
func (c *execRun) Explain(ctx context.Context, a *cli.App) (string, error) {
	v, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return "", err
	}
	defer v.Close()
	it, err := v.FindNamed(ctx, toolArg(a, c.Ref))
	if err != nil {
		return "", err
	}
	t := it.Model.Tool
	if t == nil {
		_, err := c.ref(ctx, a)
		return "", err
	}
	schema, err := exec.Input(t)
	if err != nil {
		return "", exec.ConfigError(it.Ref, err)
	}
	return explained(a, it, schema, "-p", "It declares no parameters."), nil
}

// Explain shows the inputs of the directive.
func (c *runRun) Explain(ctx context.Context, a *cli.App) (string, error) {
	ref, err := c.ref(a)
	if err != nil {
		return "", err
	}
	v, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return "", err
	}
	defer v.Close()
	it, err := v.FindNamed(ctx, ref.String())
	if ref.Kind == "tool" && (err != nil || !graph.Is(it.Model.Tool)) {
		return "", graphview.NoGraph(a, ref)
	}
	if err != nil {
		return "", err
	}
	schema, err := agenttools.Inputs(it)
	if err != nil {
		return "", err
	}
	return explained(a, it, schema, "-i", "It declares no inputs."), nil
}

// explained lists the parameters of an item and the flag that sets them.
func explained(a *cli.App, it *ai.Item, schema *params.Schema, flag, none string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s", cli.Escape(it.Ref.String(), a.Term.Ascii))
	if d := it.Model.Description; d != "" {
		fmt.Fprintf(&b, ": %s", cli.Escape(d, a.Term.Ascii))
	}
	b.WriteString("\n")
	fields := schema.Fields()
	if len(fields) == 0 {
		fmt.Fprintf(&b, "  %s\n", none)
	}
	width := 0
	for _, f := range fields {
		width = max(width, len(cli.Escape(f.Name, a.Term.Ascii)))
	}
	for _, f := range fields {
		words := []string{cmp.Or(f.Type, "any value")}
		if len(f.Values) > 0 {
			words[0] = "one of " + strings.Join(f.Values, ", ")
		}
		if f.Required {
			words = append(words, "required")
		}
		if f.HasDefault {
			if text, err := jcs.Append(nil, f.Default); err == nil {
				words = append(words, "default "+string(text))
			}
		}
		fmt.Fprintf(&b, "  %s %-*s  %s\n", flag, width+1, cli.Escape(f.Name, a.Term.Ascii)+"=",
			cli.Escape(strings.Join(words, "; "), a.Term.Ascii))
		if f.Description != "" {
			fmt.Fprintf(&b, "     %-*s  %s\n", width+1, "", cli.Escape(f.Description, a.Term.Ascii))
		}
	}
	return b.String()
}
