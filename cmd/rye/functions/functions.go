package functions

import (
	"context"
	"io"
	"strings"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/primitive/function/lint"
)

// Functions returns what tools may have rye do, by name. Each does it as the command does that a person would type.
func Functions(a *cli.App) function.Functions {
	return function.Functions{
		"bundler": function.Of(BundlerNeeds, func(ctx context.Context, c *function.Call, p BundlerParams) (any, error) {
			return bundlerFunction(ctx, a, c, p)
		}),
		"lint": lint.Function(places.Machine(a)),
		"system": function.Of(SystemNeeds, func(ctx context.Context, c *function.Call, p SystemParams) (any, error) {
			return systemFunction(ctx, a, c, p)
		}),
		"telemetry": function.Of(TelemetryNeeds, func(ctx context.Context, c *function.Call, p TelemetryParams) (any, error) {
			return telemetryFunction(ctx, a, c, p)
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
func inside(a *cli.App, c *function.Call) *cli.App {
	h := a.Host
	h.Stdin, h.Hidden, h.Chdir = strings.NewReader(""), nil, nil
	b := &cli.App{Host: h, Globals: a.Globals, Commands: a.Commands, Clock: a.Clock, ByID: true}
	b.Globals.Yes = false
	if c.Files.Project != "" {
		b.Globals.Project = c.Files.Project
		b.Getwd = func() (string, error) { return c.Files.Project, nil }
	}
	b.Term = cli.NewTerminal(cli.Stream{Writer: io.Discard}, cli.Stream{Writer: c.Errs})
	b.Term.Quiet = true
	return b
}

// no is the answer of a function to what went wrong, in the words of the command. Whoever was stopped says that instead.
func no(ctx context.Context, err error) (any, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f := fault.Of(err)
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
