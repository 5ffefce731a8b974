//go:build !linux

package osfile

import "path/filepath"

// Real returns a path with all symbolic links resolved.
func Real(path string) (string, error) { return filepath.EvalSymlinks(path) }
