package worktree

import "io/fs"

// On Windows, untrusted and foreign would need access control lists, which package os doesn't support.

func untrusted(fs.FileInfo) string { return "" }

func foreign(fs.FileInfo) bool { return false }
