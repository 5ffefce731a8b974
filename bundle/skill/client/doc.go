// Package client writes skills and commands into the folders of a project where other programs, the clients, look for
// them.
//
// # The list
//
// What was written stands in .ai/installed.yaml, a canonical document (package canon):
//
//	rye: "installed/1"
//	files:
//	  ".claude/skills/pdf/SKILL.md": {ref: "tool:skills/pdf/skill", client: "claude", digest: "blake3:…", mode: "file"}
//
// The list is written before the files that it names, and a file is removed before the list leaves it out. So a file
// that the list doesn't name is never ours, and after a crash the same command goes on.
package client
