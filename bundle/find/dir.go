package find

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/legacy"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest"
)

const (
	dotAI        = ".ai"
	manifestName = "manifest.yaml"
)

// in returns the v1 or v2 bundle of an id below a directory.
func (f *Finder) in(where, dir, id string) (*Found, error) {
	found := &Found{Where: where, Place: dir, ID: id, Dir: dir, finder: f}
	v1, err := IsV1(dir, id)
	if err != nil || !v1 {
		return found, err
	}
	space, err := ai.OpenDir(dir, id, ai.Project)
	if err != nil {
		return nil, err
	}
	f.Keep(space)
	found.V1 = space.FS
	return found, nil
}

// ManifestOf splits the path of a manifest: DIR/.ai/bundles/ID/manifest.yaml.
func ManifestOf(file string) (dir, id string, ok bool) {
	const mark = "/" + dotAI + "/bundles/"
	slashed, found := strings.CutSuffix(filepath.ToSlash(file), "/"+manifestName)
	i := strings.LastIndex(slashed, mark)
	if i < 0 || !found {
		return "", "", false
	}
	id = slashed[i+len(mark):]
	return filepath.FromSlash(slashed[:i]), id, ValidID(id)
}

// InProjectIDs returns the ids of the bundles below a directory, sorted. A plugin there is one.
func InProjectIDs(dir string) (ids []string, err error) {
	root := filepath.Join(dir, dotAI, "bundles")
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.Type().IsRegular() && path.Base(name) == manifestName && path.Dir(name) != ".":
			if id := path.Dir(name); ValidID(id) {
				ids = append(ids, id)
			}
		}
		return nil
	})
	if id := pluginID(dir); id != "" && !slices.Contains(ids, id) {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, err
}

// pluginID returns the id of the bundle whose manifest a plugin's directory has; "" if there is none.
func pluginID(dir string) string {
	r, err := osfile.OpenRegular(filepath.Join(dir, filepath.FromSlash(bundle.PluginManifest)))
	if err != nil {
		return ""
	}
	defer r.Close()
	list, err := manifest.ReadFileListHead(io.LimitReader(r, bundle.MaxManifest))
	if err != nil || list.Plugin == "" {
		return ""
	}
	return list.BundleID
}

// ReadManifest reads the manifest of a bundle below a directory.
func ReadManifest(dir, id string) (*bundle.Bundle, error) { return readManifest(dir, id, bundle.Read) }

func readManifest[T any](dir, id string, read func(io.Reader) (*T, error)) (*T, error) {
	file, err := manifestFile(dir, id)
	if err != nil {
		return nil, err
	}
	r, err := osfile.OpenRegular(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return read(io.LimitReader(r, bundle.MaxManifest))
}

// IsV1 reports whether the manifest of a bundle below a directory is a v1 manifest. An unreadable one is not.
func IsV1(dir, id string) (bool, error) {
	file, err := manifestFile(dir, id)
	if err != nil {
		return false, err
	}
	r, err := osfile.OpenRegular(file)
	if err != nil {
		return false, nil
	}
	defer r.Close()
	head, _ := io.ReadAll(io.LimitReader(r, maxHead))
	return legacy.IsV1(head), nil
}

// maxHead is larger than the signature lines at the beginning of any manifest.
const maxHead = 64 << 10

// Blobs is a cas.Getter for files below a directory, by their digests.
type Blobs struct {
	FS fs.FS
	At map[cas.Digest]manifest.File
}

// BlobsOf returns the files and the evidence of a bundle; prefix is cut from the paths of the files.
func BlobsOf(fsys fs.FS, b *bundle.Bundle, prefix string) *Blobs {
	c := &Blobs{fsys, make(map[cas.Digest]manifest.File, len(b.Files))}
	for _, f := range b.Files {
		f.Path = strings.TrimPrefix(f.Path, prefix)
		c.At[f.Digest] = f
	}
	for _, e := range b.Evidence {
		c.At[e.Digest] = manifest.File{Path: b.Layout().Evidence(e.Name), Size: e.Size}
	}
	return c
}

// Get implements cas.Getter.
func (c *Blobs) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	f, ok := c.At[id.Digest]
	if !ok || id.Kind != cas.Blob {
		return cas.Object{}, cas.NotFound(id)
	}
	r, err := c.FS.Open(f.Path)
	if err != nil {
		return cas.Object{}, err
	}
	return cas.Verify(cas.Info{ID: id, Size: f.Size}, r), nil
}
