// Package skill reads Agent Skills, makes items of them, and gives them back. Package client puts them where clients
// look.
//
// # A skill
//
// A skill is a folder with a file SKILL.md, which has front matter in YAML between two lines "---", and then Markdown.
// Beside it may be scripts/, references/, assets/ and whatever else. Of the front matter this package reads
//
//	name           1 to 64 of a-z, 0-9 and "-"; no "-" first, last or doubled; the name of the folder
//	description    1 to 1,024 characters
//	license        a text
//	compatibility  1 to 500 characters
//	metadata       a mapping of texts
//	allowed-tools  a text, with spaces or commas between the tools, or a list of texts
//
// and keeps every other field, with a warning. Folders may lie anywhere below what is imported; the outermost SKILL.md
// makes a folder a skill, and what lies below belongs to it.
//
// # Items
//
// The skill NAME becomes two items of a category, and the files as they were:
//
//	.ai/tools/CATEGORY/NAME/skill.yaml      tool:CATEGORY/NAME/skill: gives the text of one of the files
//	.ai/tools/CATEGORY/NAME/_files/…        every file of the skill, byte for byte
//	.ai/directives/CATEGORY/NAME.md         directive:CATEGORY/NAME: the text of SKILL.md as a prompt; "-" is "_"
//	                                        here
//
// The tool is one of several files, so its signature covers all of the skill and a lock pins them. It says where the
// skill came from (origin), and runs none of its scripts. The directive may use that tool and nothing else:
// allowed-tools are what an author asks for, and not what is granted.
//
// # What is refused
//
// By name, and before anything is written: links and other files that aren't regular; paths that aren't portable, or
// are one where case doesn't count; two entries of an archive with one name; files, skills and archives beyond the
// limits below; characters in a text that a person doesn't see (package flags); a NUL in SKILL.md; front matter that
// is malformed, with line and column; signature lines of rye. Of archives zip and tar.gz are read, and only where all
// readers agree about them: nothing in front, between or behind, no encryption, local names as in the directory.
package skill
