package functions

import (
	"context"

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

// no returns a function's answer to an error, in the words of the command. If the call was cancelled, it returns the cause.
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
