package main

import (
	"slices"

	"github.com/rye-build/rye/cmd/rye/approvals"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/builds"
	"github.com/rye-build/rye/cmd/rye/bundles"
	"github.com/rye-build/rye/cmd/rye/catalogs"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/demos"
	"github.com/rye-build/rye/cmd/rye/exchange"
	"github.com/rye-build/rye/cmd/rye/explain"
	"github.com/rye-build/rye/cmd/rye/functions"
	"github.com/rye-build/rye/cmd/rye/initcmd"
	"github.com/rye-build/rye/cmd/rye/items"
	"github.com/rye-build/rye/cmd/rye/locks"
	"github.com/rye-build/rye/cmd/rye/operations"
	"github.com/rye-build/rye/cmd/rye/prune"
	"github.com/rye-build/rye/cmd/rye/registries"
	"github.com/rye-build/rye/cmd/rye/remotes"
	"github.com/rye-build/rye/cmd/rye/runs"
	"github.com/rye-build/rye/cmd/rye/secrets"
	"github.com/rye-build/rye/cmd/rye/serves"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/stores"
	"github.com/rye-build/rye/cmd/rye/threads"
	"github.com/rye-build/rye/cmd/rye/trusts"
)

// commands returns the table of all commands in the order of the help. Two packages get functions as parameters
// because they must not import the packages that hold them.
func commands() []cli.Command {
	return slices.Concat(demos.Commands(), initcmd.Commands(), cli.Commands(), items.Commands(locks.Relock),
		trusts.Commands(), signs.Commands(), bundles.Commands(), remotes.Commands(), exchange.Commands(),
		registries.Commands(),
		locks.Commands(), explain.Commands(), runs.Commands(functions.Functions, locks.Relock), builds.Commands(),
		secrets.Commands(), audits.Commands(), threads.Commands(), operations.Commands(), runs.ThreadCommands(),
		approvals.Commands(), prune.Commands(), serves.Commands(), catalogs.Commands(), stores.Commands())
}
