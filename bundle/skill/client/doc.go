// Package client is the installer of skills and commands for other programs, the clients, in a project's folders.
//
// # The list
//
// .ai/installed.yaml lists the written files, as a canonical document (package canon):
//
//	rye: "installed/1"
//	files:
//	  ".claude/skills/pdf/SKILL.md": {ref: "tool:skills/pdf/skill", client: "claude", digest: "blake3:…", mode: "file"}
//
// The list is written before the files that it names, and a file is removed before the list leaves it out. So an
// unlisted file never belongs to rye, and after a crash the same command can be repeated.
//
// # How an install goes through here
//
// Client.SkillFiles or DirectiveFiles returns the files, and Open opens the project. Place.Install refuses files that
// are unlisted or changed, sweeps leftovers of crashes, removes the item's old files, writes the list, and then the
// files. Place.Compare compares the result with the lock.
package client
