//go:build !linux

package worktree

import "io/fs"

type listBuffer struct{}

func openDir(path string) (folder, folderInfo, error) { return openRoot(path) }

const execBit = 0o100

// modeOf returns the type bits of a stamp's mode.
func modeOf(mode uint32) fs.FileMode { return fs.FileMode(mode) & fs.ModeType }
