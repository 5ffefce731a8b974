package exchange

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{Path: "import", Group: "exchange", Help: "Import skills and instructions."},
		{
			Path: "import skill", Quiet: true, Group: "exchange", Help: "Import Agent Skills as items of the project.",
			More: "SOURCE is a folder, a zip, a tar.gz, or the https address of one. Every folder below it that has a SKILL.md is a skill; --only " +
				"chooses some. The skill NAME becomes tool:skills/NAME/skill, which has all of its files as they were, and directive:skills/NAME " +
				"(with _ for -), which runs its text. --as changes the category skills.\n\nrye shows what each skill would be able to touch: the tools that it wants " +
				"allowed, its scripts and their interpreters, commands that a client runs on its own, hosts, paths and secrets that they name. It runs none of them, and signs nothing: " +
				"read it, then sign it.\n\nA skill that is there in another version is replaced after a yes. A skill with a link, a path that isn't portable, hidden characters or malformed front matter is " +
				"refused, and nothing is written. See rye docs skills.\n\nExamples:\n\n    rye import skill ./pdf-forms\n" +
				"    rye import skill skills.zip --only pdf-forms --dry-run\n    rye import skill https://example.com/skills.tar.gz --as acme",
			New: func() cli.Runner { return new(importSkillRun) }, Schema: "import-skill/1", Output: &importAnswer{},
		},
		{
			Path: "import agents", Quiet: true, Group: "exchange", Help: "Import AGENTS.md as a knowledge item.",
			More: "The text of FILE, AGENTS.md or one like it, becomes knowledge:agents behind metadata, byte for byte. --as changes the id. Agents " +
				"find it by rye search. One that is there and differs is replaced after a yes.\n\nExamples:\n\n    rye import agents AGENTS.md\n    rye import agents services/api/AGENTS.md --as acme/api",
			New: func() cli.Runner {
				return new(importAgentsRun)
			}, Schema: "import-agents/1", Output: &importAgentsAnswer{},
		},
		{Path: "export", Group: "exchange", Help: "Export skills and directives."},
		{
			Path: "export skill", Quiet: true, Group: "exchange", Help: "Export a skill to a folder or a client.",
			More: "With DIR it writes the folder DIR/NAME: of an imported skill the files as they were, of a directive a SKILL.md made of it. The " +
				"folder must not exist.\n\nWith --to it puts the skill that rye.lock pins into the folder of a client and lists the files in " +
				".ai/installed.yaml. A file that rye didn't write, or that was changed since, is never replaced. --remove takes away exactly the " +
				"files that are listed. rye verify --installed compares them with the lock.\n\nClients: agents, claude, codex, copilot, cursor, gemini, opencode." +
				"\n\nExamples:\n\n    rye export skill tool:skills/pdf-forms/skill ./out\n" +
				"    rye export skill tool:skills/pdf-forms/skill --to claude\n    rye export skill tool:skills/pdf-forms/skill --to claude --remove",
			New: func() cli.Runner { return new(exportRun) }, Schema: "export-skill/1", Output: &exportAnswer{},
		},
		{
			Path: "export directive", Quiet: true, Group: "exchange",
			Help: "Export a directive to a client as a command.",
			More: "It puts the directive that rye.lock pins into the folder of a client as a slash command, or as a skill where the client has no " +
				"commands in a project (agents, codex). What was written is listed, replaced and removed as for rye export skill.\n\n" +
				"Examples:\n\n    rye export directive directive:acme/review --to claude\n    rye export directive directive:acme/review --to cursor --remove",
			New: func() cli.Runner {
				return new(exportDirectiveRun)
			}, Schema: "export-directive/1", Output: &exportAnswer{},
		},
	}
}
