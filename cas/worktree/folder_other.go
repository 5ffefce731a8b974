//go:build !linux

package worktree

import (
	"io/fs"
	"os"
	"syscall"
)

type listBuffer struct{}

func openDir(path string) (folder, folderInfo, error) { return openRoot(path) }

// There is no ctime here, so nothing is remembered.
func ownStamps(*os.Root) bool { return false }

const (
	nonblock = syscall.O_NONBLOCK
	execBit  = 0o100
)

// modeOf is asked about the mode of a stamp.
func modeOf(mode uint32) fs.FileMode { return fs.FileMode(mode) & fs.ModeType }

// stampOf returns what a file looked like; of a file that isn't regular, an error that says so.
func stampOf(fi fs.FileInfo) (stamp, error) {
	s := stamp{size: fi.Size(), mtime: fi.ModTime().UnixNano(), mode: uint32(fi.Mode())}
	if !fi.Mode().IsRegular() {
		return s, describe(fi.Mode())
	}
	return s, nil
}
