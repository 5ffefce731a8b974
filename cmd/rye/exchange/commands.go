package exchange

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{Path: "import", Group: "exchange", Help: "Import skills and instructions."},
		{
			Path: "import skill", Quiet: true, Group: "exchange", Help: "Import Agent Skills as items of the project.",
			More: "SOURCE is a folder, a zip, a tar.gz, or the https address of one. Every folder below it with a SKILL.md is a skill; --only selects " +
				"some. The skill NAME becomes tool:skills/NAME/skill, which holds all its files unchanged, and directive:skills/NAME (with _ for -), " +
				"which runs its text. --as replaces the category skills.\n\nrye shows what each skill could touch: the tools that it wants allowed, its " +
				"scripts and their interpreters, commands that a client runs on its own, and the hosts, paths and secrets in them. It runs nothing and " +
				"signs nothing: review the skill, then sign it.\n\nrye asks before it replaces another version of a skill. A skill with a link, a path " +
				"that isn't portable, hidden characters or malformed front matter is " +
				"refused, and nothing is written. See rye docs skills.\n\nExamples:\n\n    rye import skill ./pdf-forms\n" +
				"    rye import skill skills.zip --only pdf-forms --dry-run\n    rye import skill https://example.com/skills.tar.gz --as acme",
			New: func() cli.Runner { return new(importSkillRun) }, Schema: "import-skill/1", Output: &importAnswer{},
		},
		{
			Path: "import agents", Quiet: true, Group: "exchange", Help: "Import AGENTS.md as a knowledge item.",
			More: "The text of FILE, byte for byte, becomes knowledge:agents after a block of metadata. --as changes the id. Agents find it by rye " +
				"search. rye asks before it replaces a different text.\n\nExamples:\n\n    rye import agents AGENTS.md\n" +
				"    rye import agents services/api/AGENTS.md --as acme/api",
			New: func() cli.Runner {
				return new(importAgentsRun)
			}, Schema: "import-agents/1", Output: &importAgentsAnswer{},
		},
		{Path: "export", Group: "exchange", Help: "Export skills, directives and plugins."},
		{
			Path: "export skill", Quiet: true, Group: "exchange", Help: "Export a skill to a folder or a client.",
			More: "With DIR it writes the folder DIR/NAME: the original files of an imported skill, or a SKILL.md generated from a directive. The " +
				"folder must not exist.\n\nWith --to it writes the locked skill to the folder of a client and lists the files in " +
				".ai/installed.yaml. A file that rye didn't write, or that was changed since, is never replaced. --remove removes exactly the listed " +
				"files. rye verify --installed compares them with the lock.\n\nClients: agents, claude, codex, copilot, cursor, gemini, opencode." +
				"\n\nExamples:\n\n    rye export skill tool:skills/pdf-forms/skill ./out\n" +
				"    rye export skill tool:skills/pdf-forms/skill --to claude\n    rye export skill tool:skills/pdf-forms/skill --to claude --remove",
			New: func() cli.Runner { return new(exportRun) }, Schema: "export-skill/1", Output: &exportAnswer{},
		},
		{
			Path: "export directive", Quiet: true, Group: "exchange",
			Help: "Export a directive to a client as a command.",
			More: "It writes the locked directive to the folder of a client as a slash command, or as a skill for clients without commands in a " +
				"project (agents, codex). Files are listed, replaced and removed as by rye export skill.\n\n" +
				"Examples:\n\n    rye export directive directive:acme/review --to claude\n    rye export directive directive:acme/review --to cursor --remove",
			New: func() cli.Runner {
				return new(exportDirectiveRun)
			}, Schema: "export-directive/1", Output: &exportAnswer{},
		},
		{
			Path: "export plugin", Quiet: true, Group: "exchange", Help: "Export a bundle as an Agent Plugin.",
			More: "DIR becomes a plugin that every agent client reads (rye docs plugins); it must be missing or empty. BUNDLE is one of the " +
				"project's lock, or as for rye bundle export.\n\nA bundle that was made of a plugin comes back as it was, byte for byte. Of any " +
				"other the skills and directives become skills, and the server in mcp.json is rye, which serves the bundle as a locked and vendored " +
				"project: rye mcp serve -C ${PLUGIN_ROOT} --frozen. It offers tools by their own names only with --tools. rye names the parts " +
				"that a plugin can't have.\n\nA plugin brings no trust: the server doesn't start until the user trusts the signers. The commands " +
				"are printed, and in the plugin's README.md.\n\nExamples:\n\n    rye export plugin acme/deploy ./acme-deploy\n" +
				"    rye export plugin acme/deploy ./deploy --name deploy --tools 'tool:acme/**'",
			New: func() cli.Runner { return new(exportPluginRun) }, Schema: "export-plugin/1", Output: &pluginAnswer{},
		},
	}
}
