package main

import (
	"context"
	"io"
	"strings"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/exec/primitive/function"
)

// functions returns what tools may have rye do, by name. Each does it as the command does that a person would type.
func functions(a *app) function.Functions {
	return function.Functions{
		"bundler": function.Of(bundlerNeeds, func(ctx context.Context, c *function.Call, p bundlerParams) (any, error) {
			return a.bundlerFunction(ctx, c, p)
		}),
		"lint": function.Seeking(function.Of(nil, func(ctx context.Context, c *function.Call, p lintParams) (any, error) {
			return a.lintFunction(ctx, c, p)
		}), lintSeeks),
		"system": function.Of(systemNeeds, func(ctx context.Context, c *function.Call, p systemParams) (any, error) {
			return a.systemFunction(ctx, c, p)
		}),
		"telemetry": function.Of(telemetryNeeds, func(ctx context.Context, c *function.Call, p telemetryParams) (any, error) {
			return a.telemetryFunction(ctx, c, p)
		}),
	}
}

// capabilityFor is the right to do something with what has an id; with all of the kind where that can't be one.
func capabilityFor(verb, kind, id string) capability.Capability {
	if c, err := capability.For(verb, kind, id); err == nil {
		return c
	}
	c, _ := capability.Parse(verb + ":" + kind + ":*")
	return c
}

// inside is what a function works with: it is about the project of its call, nobody is there to be asked, nothing counts as
// agreed to, and what is said goes where the call says things.
func (a *app) inside(c *function.Call) *app {
	h := a.host
	h.stdin, h.hidden = strings.NewReader(""), nil
	b := &app{host: h, globals: a.globals, commands: a.commands, clock: a.clock, byID: true}
	b.globals.Yes = false
	if c.Files.Project != "" {
		b.globals.Project = c.Files.Project
		b.getwd = func() (string, error) { return c.Files.Project, nil }
	}
	b.term = newTerminal(stream{Writer: io.Discard}, stream{Writer: c.Errs})
	b.term.quiet = true
	return b
}

// no is the answer of a function to what went wrong, in the words of the command. Whoever was stopped says that instead.
func no(ctx context.Context, err error) (any, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f := classify(err)
	v := map[string]any{"success": false, "error": f.Text, "code": f.Code}
	if len(f.Why) > 0 {
		v["why"] = f.Why
	}
	if len(f.Hint) > 0 {
		v["hint"] = f.Hint
	}
	return v, nil
}

// yes is the answer of a function that has done it.
func yes(data any) (any, error) { return map[string]any{"success": true, "data": data}, nil }
