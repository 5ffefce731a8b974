package stand

import (
	"cmp"
	"slices"

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
	return fault.New(fault.Validation, "%q is a tool, which rye exec runs", ref).On("ref", ref.String()).Try("rye exec " + cli.JoinArgs(args))
}
