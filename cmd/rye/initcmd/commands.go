package initcmd

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "init", Quiet: true, Group: "start", Help: "Create a project, and a key and a policy if missing.",
			More: "It creates rye.yaml, rye.lock and .ai, and adds missing lines to .gitattributes and .gitignore. Existing files stay unchanged, so " +
				"running it again changes nothing.\n\n--ci SERVICE writes the files with which github, gitlab or pre-commit run rye (see rye docs ci); in " +
				"an existing project it writes only these. rye shows differences and asks before it replaces a file.\n\nExamples:\n\n    rye init\n" +
				"    rye init ../other\n    rye init --ci github",
			Aka: []string{"create", "setup"},
			New: func() cli.Runner { return new(initRun) }, Schema: "init/1", Output: initAnswer{},
		},
		{
			Path: "doctor", Group: "start", Help: "Check that rye can work on this machine.",
			More: "Each line is one check: ok, warn (works, but look at it) or fail. Any failure makes the exit status 1.\n\nExamples:\n\n    rye doctor\n    rye doctor --json",
			Aka:  []string{"diagnose", "health"},
			New:  func() cli.Runner { return new(doctorRun) }, Schema: "doctor/1", Output: doctorAnswer{},
		},
		{
			Path: "docs", Group: "start", Help: "Read the documentation.",
			More: "Without a TOPIC it lists the pages. An error code is explained, and other words find the pages that have them. Pages are items of the library, such as knowledge:rye/overview, so rye search finds them " +
				"too.\n\nExamples:\n\n    rye docs\n    rye docs overview\n    rye docs LOCK_MISMATCH\n    rye docs allow a secret\n    rye docs tool-format | less",
			Aka: []string{"doc", "manual", "guide"},
			New: func() cli.Runner { return new(docsRun) }, Schema: "docs/1", Output: docsAnswer{},
		},
		{
			Path: "config", Group: "start", Help: "Show every effective setting.",
			More: "A flag overrides a variable of the environment, which overrides the default.\n\n" +
				"Examples:\n\n    rye config\n    rye config --explain",
			Aka: []string{"settings", "env"},
			New: func() cli.Runner { return new(configRun) }, Schema: "config/1", Output: configAnswer{},
		},
		{
			Path: "schema", Group: "start", Help: "Print the JSON Schema of a file or a command's output.",
			More: "Without NAME it lists the names. Editors use the schemas of rye.yaml, bundle.yaml, policy.yaml, plugin.json and mcp.json to complete and check these files. " +
				"Every JSON answer names its schema in its field \"schema\".\n\nExamples:\n\n    rye schema\n    rye schema rye.yaml > rye.schema.json\n" +
				"    rye schema version/1",
			New: func() cli.Runner { return new(schemaRun) }, Schema: "schema/1", Output: schemaAnswer{},
		},
		{
			Path: "completion", Group: "start", Help: "Print a shell's completion script.",
			More: "Examples:\n\n    source <(rye completion bash)\n    rye completion zsh > \"${fpath[1]}/_rye\"\n    rye completion fish > ~/.config/fish/completions/rye.fish",
			Aka:  []string{"completions", "autocomplete"},
			New:  func() cli.Runner { return new(completionRun) }, Schema: "completion/1", Output: completionAnswer{},
		},
		// Completion scripts call "rye __complete -- WORD…" with the words typed after rye. It completes the last
		// word and prints one candidate a line: value, tab, description. The values ":files" and ":dirs" ask the
		// shell to complete files or directories.
		{
			Path: "__complete", Help: "Answer a completion script.", Hidden: true,
			New: func() cli.Runner { return new(completeRun) }, Schema: "complete/1", Output: completeAnswer{},
		},
	}
}
