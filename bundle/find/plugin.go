package find

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest"
)

// Plugin returns the recipe of the plugin in a directory: its own id needs a policy that names it.
func Plugin(p *plugin.Plugin) (*recipe.Recipe, error) {
	m := &p.Manifest
	id := p.BundleID()
	if m.Extension.ID != "" {
		id = m.Extension.ID
	}
	if manifest.CheckVersion(m.Version) != nil {
		return nil, fault.New(fault.Validation, "%s: a signed bundle needs a semantic version, and version is %q",
			plugin.ManifestFile, fault.Clip(m.Version, 100)).On("reason", "version").
			Because(`write "version": "0.1.0" into ` + plugin.ManifestFile).Try("rye docs plugins")
	}
	r, err := recipe.New(id, m.Version)
	if err != nil {
		return nil, err
	}
	r.Plugin, r.Description, r.License, r.Requires = true, plugin.Visible(m.Description), plugin.Visible(m.License),
		m.Extension.Requires
	for _, allowed := range m.Extension.AllowSecret {
		r.AllowSecret = append(r.AllowSecret, recipe.Allowed{Glob: allowed.Glob, Reason: allowed.Why})
	}
	return r, nil
}

// ReadPlugin reads the plugin in a directory; nil if the directory has none.
func ReadPlugin(dir string) (*plugin.Plugin, func(), error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	if !plugin.Is(root.FS()) {
		return nil, nil, root.Close()
	}
	p, err := plugin.Read(root.FS())
	if err != nil {
		root.Close()
		return nil, nil, err
	}
	return p, func() { root.Close() }, nil
}

// packed returns the signed plugin in an archive that another program made. It is unpacked into a private directory.
func (f *Finder) packed(ctx context.Context, path string, archive *os.File) (*Found, error) {
	read, err := plugin.ReadArchive(ctx, archive, -1, path)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	dir, err := osfile.TempDir("plugin")
	if err != nil {
		return nil, err
	}
	f.Keep(temporary(dir))
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := read.Unpack(ctx, root); err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	if _, err := root.Lstat(filepath.FromSlash(bundle.PluginManifest)); err != nil {
		return nil, fault.New(fault.NotFound, "the plugin in %q is not signed", path).On("reason", "unsigned").
			Because("a bundle has a signed manifest").Try(fault.Command("rye add", path), "rye docs unsigned-plugins")
	}
	found, err := f.inDirectory(dir, path)
	if err == nil {
		found.Where, found.Place = InArchive, path
	}
	return found, err
}

// temporary is a directory that is removed when it is closed.
type temporary string

// Close implements io.Closer.
func (t temporary) Close() error { return os.RemoveAll(string(t)) }

// PluginDir returns the nearest directory, from dir upwards, that is a plugin; "" if none is. The directory that holds
// .git is the last one looked at, and one that holds bundle.yaml is a project.
func PluginDir(dir string) string {
	for {
		if _, err := os.Lstat(filepath.Join(dir, recipe.File)); err == nil {
			return ""
		}
		if plugin.Is(os.DirFS(dir)) {
			return dir
		}
		up := filepath.Dir(dir)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil || up == dir {
			return ""
		}
		dir = up
	}
}
