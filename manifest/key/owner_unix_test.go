//go:build unix

package key

import (
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

type ownedBy struct {
	fs.FileInfo
	uid uint32
}

func (o ownedBy) Sys() any { return &syscall.Stat_t{Uid: o.uid} }

func TestOwner(t *testing.T) {
	path := t.TempDir()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkOwn(path, info, 0); err != nil {
		t.Error(err)
	}
	if err := checkOwn(path, ownedBy{info, uint32(os.Geteuid()) + 1}, 0); err == nil || fault.CodeOf(err) != fault.Denied {
		t.Errorf("another's: %v", err)
	}
}
