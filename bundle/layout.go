package bundle

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/manifest"
)

// A Layout is where a bundle has its items and its manifest, relative to its directory. A project has them in .ai. A
// plugin has them in rye's own directory, so that it stays a plugin for every other client.
type Layout struct {
	Items    string // the directory of items
	Manifest string // the file, in the directory of the evidence
}

// PluginManifest is the path of a plugin's manifest, and PluginKeys that of the public keys of its signers.
const (
	PluginManifest = plugin.Namespace + "/" + manifestName
	PluginKeys     = plugin.Namespace + "/keys"
)

const manifestName = "manifest.yaml"

// LayoutOf returns the layout of a bundle.
func LayoutOf(list *manifest.FileList) Layout {
	if list.Plugin != "" {
		return Layout{Items: plugin.ItemsDir, Manifest: PluginManifest}
	}
	at, _ := ManifestPath(list.BundleID) // a parsed list has a valid id
	return Layout{Items: dotAI, Manifest: at}
}

// Layout returns the layout of the bundle.
func (b *Bundle) Layout() Layout { return LayoutOf(b.FileList) }

// In returns the path of a file within the directory of items; false for a file outside of it.
func (l Layout) In(file string) (string, bool) {
	if len(file) > len(l.Items) && file[len(l.Items)] == '/' && file[:len(l.Items)] == l.Items {
		return file[len(l.Items)+1:], true
	}
	return "", false
}

// Evidence returns the path of a file of evidence.
func (l Layout) Evidence(name string) string { return path.Join(path.Dir(l.Manifest), name) }

// The errors of items that a bundle can't have.
var (
	ErrOtherID     = errors.New("an item of a plugin must have an id below the plugin's own")
	ErrOtherPlugin = errors.New("an item of a bundle can only use the files of its own plugin")
)

// MayHave returns why a bundle can't have an item, or nil. A plugin has none outside of its own id, so that it is safe
// to add one beside others, and no item uses the files of another's plugin.
func MayHave(list *manifest.FileList, m *model.Model) error {
	if list.Plugin != "" && !strings.HasPrefix(m.Ref.ID, list.BundleID+"/") {
		return ErrOtherID
	}
	if m.Tool != nil && m.Tool.Plugin != "" && (list.Plugin == "" || m.Tool.Plugin != list.BundleID) {
		return ErrOtherPlugin
	}
	return nil
}

// SignersOf returns the text of PluginKeys for a plugin with these signatures: the keys that are known, and those of
// the old text. A key is what its fingerprint says, wherever it comes from.
func SignersOf(signed manifest.Signatures, known []manifest.SignerKey, old []byte) ([]byte, error) {
	before, _ := manifest.ReadSigners(bytes.NewReader(old)) // damaged or missing: it is written anew
	var keys []manifest.SignerKey
	for _, line := range signed {
		for _, k := range slices.Concat(known, before) {
			if k.Public.Fingerprint() == line.Key {
				keys = append(keys, k)
				break
			}
		}
	}
	return manifest.AppendSigners(nil, keys)
}

// FindManifest returns the path of a bundle's manifest in a directory: below .ai/bundles or, if there is none, that of
// a plugin, whatever its id. A directory without any has the first.
func FindManifest(root fs.FS, id string) (string, error) {
	at, err := ManifestPath(id)
	if err != nil {
		return "", err
	}
	if _, err := fs.Stat(root, at); errors.Is(err, fs.ErrNotExist) {
		if info, err := fs.Stat(root, PluginManifest); err == nil && info.Mode().IsRegular() {
			return PluginManifest, nil
		}
	}
	return at, nil
}
