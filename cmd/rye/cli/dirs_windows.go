package cli

import (
	"fmt"
	"path/filepath"
)

// homeVariable has the user's home directory.
const homeVariable = "USERPROFILE"

// systemDir returns the system's directory for a kind of files: all are below the local application data, which
// doesn't roam between machines.
func systemDir(p Place, env func(string) string) (dir, origin string, err error) {
	base := env("LOCALAPPDATA")
	if home := env(homeVariable); base == "" && home != "" {
		base = filepath.Join(home, "AppData", "Local") // where it is for every account
	}
	if !filepath.IsAbs(base) {
		return "", "LOCALAPPDATA", fmt.Errorf("LOCALAPPDATA is %q, not an absolute path", base)
	}
	switch p {
	case StatePlace:
		return filepath.Join(base, "rye", "state"), "LOCALAPPDATA", nil
	case CachePlace:
		return filepath.Join(base, "rye", "cache"), "LOCALAPPDATA", nil
	}
	return base, "LOCALAPPDATA", nil
}
