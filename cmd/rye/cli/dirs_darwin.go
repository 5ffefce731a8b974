package cli

import (
	"fmt"
	"path/filepath"
)

// homeVariable has the user's home directory.
const homeVariable = "HOME"

// systemDir returns the system's directory for a kind of files, as Apple's file system guide defines it.
func systemDir(p Place, env func(string) string) (dir, origin string, err error) {
	home := env(homeVariable)
	if !filepath.IsAbs(home) {
		return "", homeVariable, fmt.Errorf("HOME is %q, not the absolute path of a home directory", home)
	}
	switch p {
	case CachePlace:
		return filepath.Join(home, "Library", "Caches"), "default", nil
	case StatePlace:
		return filepath.Join(home, "Library", "Application Support", "rye", "state"), "default", nil
	}
	return filepath.Join(home, "Library", "Application Support"), "default", nil
}
