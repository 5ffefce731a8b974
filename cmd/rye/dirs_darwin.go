package main

import (
	"fmt"
	"path/filepath"
)

// systemDir follows Apple's file system guide.
func systemDir(p place, env func(string) string) (dir, origin string, err error) {
	home := env("HOME")
	if !filepath.IsAbs(home) {
		return "", "HOME", fmt.Errorf("HOME is %q, not the absolute path of a home directory", home)
	}
	switch p {
	case cachePlace:
		return filepath.Join(home, "Library", "Caches"), "default", nil
	case statePlace:
		return filepath.Join(home, "Library", "Application Support", "rye", "state"), "default", nil
	}
	return filepath.Join(home, "Library", "Application Support"), "default", nil
}
