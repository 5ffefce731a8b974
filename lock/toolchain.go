package lock

import (
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/file"
)

// ProgramName is what a program is called in a lock: as its file, since where that lies depends on the machine.
func ProgramName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".exe") }

// NoVersion stands for the version of a program that says none where it lies.
const NoVersion = "unknown"

// PlainName is the name of a program without what tells it from others.
func PlainName(name string) string {
	plain, _, _ := strings.Cut(name, ":")
	return plain
}

// Program returns what the lock says of a program on a platform: the line with this digest, else one that has another
// under its name, else nil.
func (s *Set) Program(name, platform string, digest cas.Digest) *file.Program {
	var other *file.Program
	for i := range s.lock.Toolchain {
		p := &s.lock.Toolchain[i]
		if p.Platform != platform || PlainName(p.Name) != name {
			continue
		}
		if p.Digest == digest {
			return p
		}
		if other == nil {
			other = p
		}
	}
	return other
}
