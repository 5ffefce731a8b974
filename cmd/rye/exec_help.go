package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/manifest/jcs"
)

// An explainer is a command whose help says more about what stands behind it on the command line.
type explainer interface {
	explain(ctx context.Context, a *app) (string, error)
}

// explained is the help of a command, with what it says about its arguments.
func explained(ctx context.Context, h host, t *terminal, cmds []command, args []string, page helpAnswer) (helpAnswer, error) {
	plain := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--help" || arg == "-h" })
	inv, err := parse(cmds, plain)
	if err != nil || inv.runner == nil {
		return page, nil // nothing stands there that could be looked at
	}
	e, ok := inv.runner.(explainer)
	if !ok {
		return page, nil
	}
	a, err := newApp(h, t, inv.globals, cmds)
	if err != nil {
		return page, err
	}
	a.args = plain
	more, err := e.explain(ctx, a)
	if err == nil {
		page.Page += more
	}
	return page, err
}

// explain shows the parameters of the tool.
func (c *execRun) explain(ctx context.Context, a *app) (string, error) {
	v, err := a.items(ctx)
	if err != nil {
		return "", err
	}
	defer v.close()
	it, err := v.find(ctx, c.Ref)
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
		return "", &exec.ConfigError{Ref: it.Ref, Err: err}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s", escape(it.Ref.String(), a.term.ascii))
	if t.Description != "" {
		fmt.Fprintf(&b, ": %s", escape(t.Description, a.term.ascii))
	}
	b.WriteString("\n")
	fields := schema.Fields()
	if len(fields) == 0 {
		b.WriteString("  It declares no parameters.\n")
	}
	width := 0
	for _, f := range fields {
		width = max(width, len(escape(f.Name, a.term.ascii)))
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
		fmt.Fprintf(&b, "  -p %-*s  %s\n", width+1, escape(f.Name, a.term.ascii)+"=", escape(strings.Join(words, "; "), a.term.ascii))
		if f.Description != "" {
			fmt.Fprintf(&b, "     %-*s  %s\n", width+1, "", escape(f.Description, a.term.ascii))
		}
	}
	return b.String(), nil
}
