package signs

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "trust check", Group: "trust",
			Help: "Show which keys may sign a name, or check a file's signatures.",
			More: "With FILE it is the same as rye verify. Without, it shows which rule of your policy and of the " +
				"project's decides about NAME. If no key may sign it, the exit status is 1.\n\n" +
				"Examples:\n\n" +
				"    rye trust check tool:acme/fetch\n" +
				"    rye trust check tool:acme/fetch fetch.py",
			Aka: []string{"trust explain", "trust why"},
			New: func() cli.Runner { return new(trustCheckRun) }, Schema: "trust-check/1", Output: trustCheckAnswer{},
		},
		{
			Path: "sign", Quiet: true, Group: "trust", Help: "Sign items, or a file under a name.",
			More: "An ITEM is a ref (tool:acme/fetch), a glob over refs ('tool:acme/**'), or a file or directory " +
				"below .ai. Globs and --all match items of the project, or of the user space outside of projects. " +
				"All items are checked first, as rye check does; if one is invalid, none is signed. The signature " +
				"of a tool covers every other file of the tool too.\n\n" +
				"Any other file needs --as NAME: kind:id, as in tool:acme/fetch, or the name of a document: " +
				"bundle:ID@VERSION, policy:NAME, revocations:NAME, rotation:RULE.\n\n" +
				"The signature is a comment line in the file and covers its bytes and its name. Valid signatures " +
				"of others stay; invalid ones are removed, and rye says so. Signing an unchanged file again " +
				"changes nothing. --upgrade replaces a signature of the first format (v1), if the policy accepts " +
				"that one.\n\n" +
				"Examples:\n\n" +
				"    rye sign tool:acme/fetch\n" +
				"    rye sign 'directive:acme/**' --dry-run\n" +
				"    rye sign --all --key release\n" +
				"    rye sign fetch.py --as tool:acme/fetch\n" +
				"    rye sign --upgrade directive:acme/old",
			New: func() cli.Runner { return new(SignRun) }, Schema: "sign/2", Output: &SignAnswer{},
		},
		{
			Path: "verify", Group: "trust", Help: "Verify the signatures of items, or of a file under a name.",
			More: "An ITEM is a ref (tool:acme/fetch), a glob over refs ('tool:acme/**', '**'), or a file or " +
				"directory below .ai. Any other file needs --as NAME, the name to verify it under: kind:id, as in " +
				"tool:acme/fetch, or the name of a document: bundle:ID@VERSION, policy:NAME, revocations:NAME, " +
				"rotation:RULE.\n\n" +
				"It reads every file, the other files of a tool included, checks the signatures, and asks the " +
				"policy (see rye trust); it uses no cache. If a bundle of the lock is missing, a glob that may " +
				"match its items is refused.\n\n" +
				"If one of the items fails, the exit status is 1 and the code says why. If the policy itself is " +
				"refused, it is 4. --installed compares what rye export put into the folders of clients with the " +
				"lock instead; if something differs, the exit status is 1. --format sarif writes a report for " +
				"code scanning, --format markdown one for a job summary (see rye docs ci).\n\n" +
				"Examples:\n\n" +
				"    rye verify tool:acme/fetch\n" +
				"    rye verify '**' --json\n" +
				"    rye verify --trust team.yaml fetch.py --as tool:acme/fetch",
			New: func() cli.Runner { return new(VerifyRun) }, Schema: "verify/2", Output: &VerifyReport{},
		},
	}
}
