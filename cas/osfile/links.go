package osfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/cas/fault"
)

// RefuseLinks returns an error if a file is a symbolic link, or its path leads through one below the working directory
// wd or one of the other roots: an attacker may have put it there. Links above the roots are the user's own choice.
func RefuseLinks(file, wd string, roots ...string) error {
	roots = append(roots, wd)
	for _, dir := range slices.Clone(roots) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			roots = append(roots, real)
		}
	}
	if !filepath.IsAbs(file) {
		// The system reads ".." as the parent of the directory on disk.
		if real, err := filepath.EvalSymlinks(wd); err == nil {
			wd = real
		}
		file = filepath.Join(wd, file)
	}
	below := func(dir string) bool {
		return slices.ContainsFunc(roots, func(root string) bool {
			rel, err := filepath.Rel(root, dir)
			return err == nil && rel != "." && filepath.IsLocal(rel)
		})
	}
	for at := file; at == file || below(at); at = filepath.Dir(at) {
		if fi, err := os.Lstat(at); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return fault.New(fault.Denied,
				"%q is a symbolic link; rye does not sign, verify or write through links", at).
				Try("ls -l "+fault.Quote(at)).On("reason", "link").On("path", at)
		}
		if at == filepath.Dir(at) {
			break // the root is above itself
		}
	}
	return nil
}
