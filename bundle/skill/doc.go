// Package skill converts Agent Skills into items and back. Package client installs them for clients.
//
// # A skill
//
// A skill is a folder with a file SKILL.md, which has front matter in YAML between two lines "---", and then
// Markdown. The folder may also have scripts/, references/, assets/ and other files. This package reads these fields
// of the front matter
//
//	name           1 to 64 of a-z, 0-9 and "-"; no "-" first, last or doubled; the name of the folder
//	description    1 to 1,024 characters
//	license        a text
//	compatibility  1 to 500 characters
//	metadata       a mapping of texts
//	allowed-tools  a text, with spaces or commas between the tools, or a list of texts
//
// and keeps every other field, with a warning. Skills may be anywhere below the imported directory. The outermost
// folder with a SKILL.md is a skill, and everything below belongs to it.
//
// # Items
//
// The skill NAME becomes two items of a category, with its files unchanged:
//
//	.ai/tools/CATEGORY/NAME/skill.yaml      tool:CATEGORY/NAME/skill: gives the text of one of the files
//	.ai/tools/CATEGORY/NAME/_files/…        every file of the skill, byte for byte
//	.ai/directives/CATEGORY/NAME.md         directive:CATEGORY/NAME: the text of SKILL.md as a prompt; "-" is "_"
//	                                        here
//
// The tool has several files, so its signature covers the whole skill and a lock pins it. It names the skill's source
// (origin), and runs none of its scripts. The directive may use only that tool: allowed-tools is the author's
// request, not a grant.
//
// # How an import goes through here
//
// ReadDir or ReadArchive lists the source's entries. find assigns them to skills, takeLicences adds licences from
// above, and checkSizes enforces the limits. The source reads the wanted files, and finish checks each skill and
// parses SKILL.md with ParseText. Skill.ToolText and DirectiveText return the texts of the items.
//
// # Refused skills
//
// Before it writes anything, the import refuses, by name: links and other files that aren't regular; paths that
// aren't portable, or that differ only in case; two entries of an archive with one name; files, skills and archives
// beyond the limits below; invisible characters in a text (package flags); a NUL in SKILL.md; front matter that is
// malformed, with line and column; signature lines of rye. Archives must be zip or tar.gz, as package foreign reads
// them.
package skill
