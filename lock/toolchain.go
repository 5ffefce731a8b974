package lock

import (
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/file"
)

// ProgramName is a program's name in a lock: its file name, since its directory depends on the machine.
func ProgramName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".exe") }

// NoVersion is the version of a program without a known version.
const NoVersion = "unknown"

// PlainName returns a program's name without its suffix.
func PlainName(name string) string {
	plain, _, _ := strings.Cut(name, ":")
	return plain
}

// Program returns the lock's line for a program on a platform: the line with this digest, otherwise another line with
// its name, otherwise nil.
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
