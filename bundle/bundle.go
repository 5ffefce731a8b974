package bundle

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
)

// A Bundle is a parsed manifest. It isn't verified.
type Bundle struct {
	*manifest.FileList
	Files []manifest.File // sorted by path
}

// Read reads a manifest, with or without its signature lines.
func Read(r io.Reader) (*Bundle, error) {
	bundle, most := new(Bundle), 0
	if known, ok := r.(interface{ Len() int }); ok {
		most = known.Len() / leastLine
	}
	var err error
	bundle.FileList, err = manifest.ReadFileList(r, func(f *manifest.File) error {
		if bundle.Files == nil { // not a manifest
			bundle.Files = make([]manifest.File, 0, most)
		}
		bundle.Files = append(bundle.Files, *f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return bundle, nil
}

// leastLine is shorter than any line about a file, which has a digest and three field names.
const leastLine = 100

// Parse reads a manifest from memory.
func Parse(b []byte) (*Bundle, error) { return Read(bytes.NewReader(b)) }

// Body returns the manifest without signature lines. Its digest is the bundle's id.
func (b *Bundle) Body() ([]byte, error) {
	body, _, err := manifest.AppendFileList(nil, b.FileList, b.Files)
	return body, err
}

// File returns the file at a path.
func (b *Bundle) File(path string) (*manifest.File, bool) {
	i, ok := slices.BinarySearchFunc(b.Files, path, func(f manifest.File, path string) int {
		return strings.Compare(f.Path, path)
	})
	if !ok {
		return nil, false
	}
	return &b.Files[i], true
}

// ManifestPath returns the path of a bundle's manifest, relative to the directory that holds .ai.
func ManifestPath(id string) (string, error) {
	if err := portable.CheckID(id); err != nil {
		return "", err
	}
	return ".ai/bundles/" + id + "/manifest.yaml", nil
}
