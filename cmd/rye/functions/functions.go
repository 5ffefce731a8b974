package functions

import (
	"context"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/primitive/function/lint"
)

// Functions returns the functions that tools may call, by name. Each acts as the command of the same purpose does.
func Functions(app *cli.App) function.Functions {
	return function.Functions{
		"bundler": function.Of(BundlerNeeds, func(ctx context.Context, c *function.Call, p BundlerParams) (any,
			error) {
			return bundlerFunction(ctx, app, c, p)
		}),
		"lint": lint.Function(paths.Machine(app)),
		"sign": function.Of(SignNeeds, func(ctx context.Context, c *function.Call, p SignParams) (any, error) {
			return signFunction(ctx, app, c, p)
		}),
		"system": function.Of(SystemNeeds, func(ctx context.Context, c *function.Call, p SystemParams) (any, error) {
			return systemFunction(ctx, app, c, p)
		}),
		"telemetry": function.Of(TelemetryNeeds,
			func(ctx context.Context, c *function.Call, p TelemetryParams) (any, error) {
				return telemetryFunction(ctx, app, c, p)
			}),
	}
}

// capabilityFor returns the capability to do verb with one item or bundle. For an invalid id it returns the
// capability for all of the kind, so that an invalid id never needs less.
func capabilityFor(verb, kind, id string) capability.Capability {
	if c, err := capability.For(verb, kind, id); err == nil {
		return c
	}
	c, _ := capability.Parse(verb + ":" + kind + ":*")
	return c
}
