//go:build unix && !darwin

package cli

import (
	"fmt"
	"path/filepath"
)

// homeVariable has the user's home directory.
const homeVariable = "HOME"

// systemDir returns the system's directory for a kind of files, as the XDG base directory specification defines it.
func systemDir(p Place, env func(string) string) (dir, origin string, err error) {
	name, below := "XDG_DATA_HOME", ".local/share"
	switch p {
	case StatePlace:
		name, below = "XDG_STATE_HOME", ".local/state"
	case CachePlace:
		name, below = "XDG_CACHE_HOME", ".cache"
	}
	if v := env(name); filepath.IsAbs(v) {
		return v, name, nil
	} else if v != "" {
		return "", name, fmt.Errorf("%s is %q, not an absolute path", name, v)
	}
	home := env(homeVariable)
	if !filepath.IsAbs(home) {
		return "", homeVariable, fmt.Errorf("HOME is %q, not the absolute path of a home directory, and %s is not set", home,
			name)
	}
	return filepath.Join(home, below), "default", nil
}
