package create

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/bundle/secret"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest"
)

// ofManifest reports whether a file of a plugin is its manifest or belongs to it. The list has every other file.
func (c *creation) ofManifest(file string) bool {
	rest, ok := strings.CutPrefix(file, plugin.Namespace+"/")
	if !ok || strings.Contains(rest, "/") {
		return false
	}
	if file == bundle.PluginManifest || file == bundle.PluginKeys {
		return true
	}
	return c.old != nil && slices.ContainsFunc(c.old.Evidence, func(e manifest.Evidence) bool {
		return e.Name == rest
	})
}

// writeKeys writes the public keys of a plugin's signers beside its manifest.
func (c *creation) writeKeys(root *os.Root, list *manifest.FileList) error {
	if !c.Recipe.Plugin || c.Keys == nil {
		return nil
	}
	old, unread := root.ReadFile(bundle.PluginKeys)
	text, err := bundle.SignersOf(list.Signatures, c.Keys(list.Signatures), old)
	if err != nil || unread == nil && bytes.Equal(old, text) {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(bundle.PluginKeys), 0o777); err != nil {
		return err
	}
	return osfile.In{Root: root}.Write(bundle.PluginKeys, 0o666, false, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
}

// allows reports whether a file may have what looks like a secret. What rye made of the skills of a plugin repeats
// files of the plugin, which are scanned themselves.
func (c *creation) allows(file string) bool {
	rest, derived := strings.CutPrefix(file, plugin.ItemsDir+"/")
	return c.Recipe.Allows(file) != "" || c.Recipe.Plugin && derived && !strings.Contains(rest, "/servers/")
}

// CheckServers refuses a plugin whose list of servers seems to hold a secret, as Create does. It is for before the
// servers are shown and started.
func CheckServers(root fs.FS, r *recipe.Recipe) error {
	if r.Allows(plugin.ServersFile) != "" {
		return nil
	}
	file, err := root.Open(plugin.ServersFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	found, err := secret.NewScanner().Scan(plugin.ServersFile, file)
	if err != nil || len(found) == 0 {
		return err
	}
	refused := &RefusedError{}
	for _, at := range found {
		refused.Problems = append(refused.Problems, Problem{Path: plugin.ServersFile, Err: &SecretError{at}})
	}
	return refused
}
