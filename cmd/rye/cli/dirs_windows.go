package cli

import (
	"fmt"
	"path/filepath"
)

// systemDir keeps everything below the local application data, which doesn't roam.
func systemDir(p Place, env func(string) string) (dir, origin string, err error) {
	base := env("LOCALAPPDATA")
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
