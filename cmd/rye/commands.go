package main

import (
	"context"

	"github.com/rye-build/rye/exec/primitive/function"
)

// A command is one line of the table that everything about commands is read from: the grammar, the help,
// the completion, the schemas and what is suggested when somebody types something else.
type command struct {
	path   string        // the words typed after rye: "version", "store put"
	group  string        // the heading it stands under in the help
	help   string        // one line
	more   string        // paragraphs and indented examples, shown by "rye help COMMAND"
	aka    []string      // what other tools call it: typing one of these is answered with path
	hidden bool          // not for people
	new    func() runner // its flags and arguments as kong tags; nil for a group of commands
	schema string        // the name of its output, "NAME/N"; changes to an output of one N are additions
	output answer        // a zero value of its output

	functions func(a *app) function.Functions // of the command that runs tools: what they may have rye do, by name
}

// A runner is a parsed command line. It returns what it found, or why not; where it returns both, the
// answer is the evidence for the error.
type runner interface {
	run(ctx context.Context, a *app) (answer, error)
}

// An answer is what a command found. --json writes it as it marshals, which must be an object; text writes
// it for people. A nil answer is for commands that have written their data themselves.
type answer interface {
	text(t *terminal)
}

// commands lists every command in the order in which the help shows them.
func commands() []command {
	exec := execCommand()
	exec.functions = functions
	return []command{
		initCommand(),
		demoCommand(),
		doctorCommand(),
		docsCommand(),
		configCommand(),
		helpCommand(),
		schemaCommand(),
		completionCommand(),
		versionCommand(),
		newCommand(),
		lsCommand(),
		showCommand(),
		loadCommand(),
		mvCommand(),
		rmCommand(),
		searchCommand(),
		checkCommand(),
		keyGroup(),
		keyNewCommand(),
		keyListCommand(),
		keyShowCommand(),
		keyExportCommand(),
		keyImportCommand(),
		keyRotateCommand(),
		keyRemoveCommand(),
		trustGroup(),
		trustAddCommand(),
		trustListCommand(),
		trustCheckCommand(),
		trustRevokeCommand(),
		trustRemoveCommand(),
		trustUpdateCommand(),
		signCommand(),
		verifyCommand(),
		bundleGroup(),
		bundleCreateCommand(),
		bundleVerifyCommand(),
		bundleInspectCommand(),
		bundleListCommand(),
		bundleDiffCommand(),
		bundleCosignCommand(),
		bundleExportCommand(),
		bundleIndexCommand(),
		bundleImportCommand(),
		bundleInstallCommand(),
		bundleRollbackCommand(),
		bundleRemoveCommand(),
		bundleSbomCommand(),
		bundleAttestCommand(),
		addCommand(),
		removeCommand(),
		updateCommand(),
		outdatedCommand(),
		lockCommand(),
		diffCommand(),
		whyCommand(),
		treeCommand(),
		vendorCommand(),
		fetchCommand(),
		restoreCommand(),
		exec,
		buildCommand(),
		testCommand(),
		authGroup(),
		authSetCommand(),
		authLsCommand(),
		authRmCommand(),
		auditGroup(),
		auditListCommand(),
		auditShowCommand(),
		auditVerifyCommand(),
		auditExportCommand(),
		auditStatsCommand(),
		auditVouchCommand(),
		storeGroup(),
		storePutCommand(),
		storeCatCommand(),
		storeLsCommand(),
		storeStatCommand(),
		storeTreeCommand(),
		storeCheckoutCommand(),
		storeRefsCommand(),
		storeFsckCommand(),
		storeGcCommand(),
		storeRepackCommand(),
		storeReindexCommand(),
		cacheGroup(),
		cacheLsCommand(),
		cacheClearCommand(),
		completeCommand(),
	}
}
