package runs

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/manifest/jcs"
)

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
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s", cli.Escape(it.Ref.String(), a.Term.Ascii))
	if t.Description != "" {
		fmt.Fprintf(&b, ": %s", cli.Escape(t.Description, a.Term.Ascii))
	}
	b.WriteString("\n")
	fields := schema.Fields()
	if len(fields) == 0 {
		b.WriteString("  It declares no parameters.\n")
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
		fmt.Fprintf(&b, "  -p %-*s  %s\n", width+1, cli.Escape(f.Name, a.Term.Ascii)+"=", cli.Escape(strings.Join(words, "; "), a.Term.Ascii))
		if f.Description != "" {
			fmt.Fprintf(&b, "     %-*s  %s\n", width+1, "", cli.Escape(f.Description, a.Term.Ascii))
		}
	}
	return b.String(), nil
}
