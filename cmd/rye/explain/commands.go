package explain

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "why", Group: "lock", Help: "Show why an item, a bundle or a package is locked.",
			More: "It shows a shortest path from a root of the project, and every item that uses it directly.\n\nExamples:\n\n" +
				"    rye why tool:rye/core/primitives/subprocess\n    rye why acme/base\n    rye why pypi:requests@2.32.3",
			Aka: []string{"explain"},
			New: func() cli.Runner { return new(whyRun) }, Schema: "why/1", Output: whyAnswer{},
		},
		{
			Path: "tree", Group: "lock", Help: "Show the tree of locked dependencies.",
			More: "(*) marks an item whose dependencies are shown above. --depth 1 shows the roots and what they use. -v also shows the extractors, " +
				"which define how the files of a kind are read.\n\nExamples:\n\n    rye tree\n    rye tree directive:acme/release --depth 2",
			New: func() cli.Runner { return new(treeRun) }, Schema: "tree/1", Output: treeAnswer{},
		},
		{
			Path: "licences", Group: "lock", Help: "List the licences of locked bundles and packages.",
			More: "It reads what bundles and packages of npm and PyPI say of themselves. A licence is an expression of SPDX; a text that is none is " +
				"NOASSERTION. --deny GLOB, in any case, makes the exit status 1 if a licence matches: of A OR B only if both do, of A AND B if one " +
				"does. --format markdown writes a table for a job summary.\n\nExamples:\n\n    rye licences\n    rye licences --deny 'AGPL-*' --deny " +
				"'GPL-*' --deny NOASSERTION\n    rye licences --json",
			Aka: []string{"licenses", "license", "licence"},
			New: func() cli.Runner { return new(licencesRun) }, Schema: "licences/1", Output: &licencesAnswer{},
		},
	}
}
