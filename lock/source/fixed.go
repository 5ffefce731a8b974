package source

import (
	"path"
	"strings"

	"github.com/rye-build/rye/bundle/remote"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest"
)

// Fixed reports whether a source names one version, so that a later one never comes from it: a commit or a digest, a
// tag that is a version, or an archive that has one in its name. follow is a source of the same bundle that has later
// ones; empty if it isn't known.
func Fixed(src project.Source) (fixed bool, follow string) {
	if src.Index {
		return false, ""
	}
	if ref, image := src.OCI(); image {
		_, version := remote.Version(ref.Tag)
		return ref.Digest != "" || version, ref.Repository()
	}
	if g, repository := src.Git(); repository {
		return g.Pinned() || manifest.CheckVersion(strings.TrimPrefix(path.Base(g.Revision), "v")) == nil, ""
	}
	return versionIn(path.Base(src.Where)), ""
}

// versionIn reports whether the name of an archive ends with a version, as rye bundle export writes it.
func versionIn(name string) bool {
	for i, c := range name {
		if c != '-' {
			continue
		}
		for rest := name[i+1:]; rest != ""; rest = strings.TrimSuffix(rest, path.Ext(rest)) {
			if manifest.CheckVersion(rest) == nil {
				return true
			}
			if path.Ext(rest) == "" {
				break
			}
		}
	}
	return false
}
