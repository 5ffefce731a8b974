package graphview

import (
	"cmp"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// NoGraph returns the error for a tool that isn't a graph, with the rye exec command that runs it.
func NoGraph(a *cli.App, ref model.Ref) error {
	args := slices.DeleteFunc(slices.Clone(a.Args), func(arg string) bool { return arg == "run" })
	for i, arg := range args {
		args[i] = cmp.Or(map[string]string{"-i": "-p", "--inputs": "--params"}[arg], arg)
	}
	return fault.New(fault.Validation, "%q is a tool: run it with rye exec", ref).On("ref",
		ref.String()).Try("rye exec " + cli.JoinArgs(args))
}

// Meant adds to the error for a missing directive the command that runs the tool with the same id.
func Meant(a *cli.App, err error, tool *ai.Item) error {
	failure, ok := fault.Find(err)
	if !ok || failure.Code != fault.NotFound || failure.Details["ref"] != "directive:"+tool.Ref.ID {
		return err
	}
	if !graph.Is(tool.Model.Tool) {
		failure.Hint = fault.Of(NoGraph(a, tool.Ref)).Hint
		return failure
	}
	args := slices.Clone(a.Args)
	for i, arg := range args {
		if arg == tool.Ref.ID {
			args[i] = tool.Ref.String()
		}
	}
	failure.Hint = []string{"rye " + cli.JoinArgs(args)}
	return failure
}
