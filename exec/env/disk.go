package env

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Disk is the disk of this machine.
type Disk struct{}

// Stat implements Files.
func (Disk) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// Open implements Files.
func (Disk) Open(name string) (fs.File, error) { return os.Open(name) }

// Real implements Files.
func (Disk) Real(name string) (string, error) { return filepath.EvalSymlinks(name) }
