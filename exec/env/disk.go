package env

import (
	"io/fs"
	"os"

	"github.com/rye-build/rye/cas/osfile"
)

// Disk is the disk of this machine.
type Disk struct{}

// Stat implements Files.
func (Disk) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// Open implements Files.
func (Disk) Open(name string) (fs.File, error) {
	return os.OpenFile(name, os.O_RDONLY|osfile.Nonblock, 0)
}

// Real implements Files.
func (Disk) Real(name string) (string, error) { return osfile.Real(name) }
