package registries

import (
	"slices"

	"github.com/rye-build/rye/cmd/rye/cli"
)

// Main runs a command line of ryed, and returns the exit status.
func Main(args []string) int {
	return cli.StartAs(cli.Program{Name: "ryed", About: "The servers of a team: the registry of bundles.",
		Daily: []string{"registry"}}, func() []cli.Command { return slices.Concat(cli.Commands(), Commands()) }, args)
}
