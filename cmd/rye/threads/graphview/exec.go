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

// NoGraph is the error of a tool that exec runs.
func NoGraph(a *cli.App, ref model.Ref) error {
	args := slices.DeleteFunc(slices.Clone(a.Args), func(arg string) bool { return arg == "run" })
	for i, arg := range args {
		args[i] = cmp.Or(map[string]string{"-i": "-p", "--inputs": "--params"}[arg], arg)
	}
	return fault.New(fault.Validation, "%q is a tool, which rye exec runs", ref).On("ref",
		ref.String()).Try("rye exec " + cli.JoinArgs(args))
}

// Meant is the error of a directive that is missing, where a tool has its id, which is what runs the tool.
func Meant(a *cli.App, err error, tool *ai.Item) error {
	f, ok := fault.Find(err)
	if !ok || f.Code != fault.NotFound || f.Details["ref"] != "directive:"+tool.Ref.ID {
		return err
	}
	if !graph.Is(tool.Model.Tool) {
		f.Hint = fault.Of(NoGraph(a, tool.Ref)).Hint
		return f
	}
	args := slices.Clone(a.Args)
	for i, arg := range args {
		if arg == tool.Ref.ID {
			args[i] = tool.Ref.String()
		}
	}
	f.Hint = []string{"rye " + cli.JoinArgs(args)}
	return f
}
