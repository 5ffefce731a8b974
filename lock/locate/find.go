package locate

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock/workspace"
)

// A Finder finds bundles from a workspace, which closes what is opened for them.
type Finder struct {
	*workspace.Workspace
	Stdin io.Reader                    // what "-" is read from
	Abs   func(string) (string, error) // makes paths absolute; nil: only ids and digests name bundles
}

// Find returns the bundle that an argument names; without one the project's only bundle.
func (f *Finder) Find(ctx context.Context, text string) (*Bundle, error) {
	switch {
	case text == "":
		if f.Root.Root == "" {
			_, err := f.OpenProject()
			return nil, fault.Of(cmp.Or(err, workspace.ErrNoProject)).Try("rye bundle list --all")
		}
		return f.inDirectory(f.Root.Root, f.Root.Root)
	case text == "-":
		return Archive(StandardInput, f.Stdin), nil
	case strings.HasPrefix(text, "blake3:"):
		return f.byDigest(ctx, text)
	case f.Abs != nil && LooksLikePath(text):
		return f.AtPath(text)
	}
	id, version, _ := strings.Cut(text, "@")
	if workspace.ValidBundleID(id) {
		found, err := f.byID(ctx, id, version)
		if found != nil || err != nil {
			return found, err
		}
	}
	if f.Abs != nil {
		if at, err := f.Abs(text); err == nil {
			if _, err := os.Stat(at); err == nil {
				return f.AtPath(text)
			}
		}
	}
	return nil, f.notFound(ctx, text)
}

// LooksLikePath reports whether an argument can't be an id, or isn't meant as one.
func LooksLikePath(text string) bool {
	return filepath.IsAbs(text) || strings.HasPrefix(text, ".") || strings.Contains(text, `\`) ||
		strings.HasSuffix(text, ".zst") || strings.HasSuffix(text, ".yaml") || strings.HasSuffix(text, "/")
}

// byID finds a bundle by its id: the library's, the project's, the installed one, the latest in the store; nil if
// there is none. Only the installed one and the store's are asked for a version.
func (f *Finder) byID(ctx context.Context, id, version string) (*Bundle, error) {
	if id == workspace.LibraryID {
		return f.Library()
	}
	if f.Root.Root != "" && version == "" {
		at, _ := bundle.ManifestPath(id)
		if _, err := os.Lstat(filepath.Join(f.Root.Root, filepath.FromSlash(at))); err == nil {
			return f.InDir(InProject, f.Root.Root, id)
		}
	}
	at, err := f.Installed(id)
	if err != nil {
		return nil, err
	}
	if at != nil && (version == "" || at.Version == version) {
		s, err := f.OpenStore(false)
		if err != nil {
			return nil, err
		}
		return &Bundle{Where: InUser, Place: "installed", ID: id, Read: at.Bundle, Has: s, w: f.Workspace}, nil
	}
	if at == nil && f.User.Err == nil && version == "" {
		if l, err := f.InDir(InUser, f.User.Path, id); err != nil || l.V1 != nil {
			return l, err
		}
	}
	digest, err := f.Latest(ctx, id, version)
	if err != nil {
		return nil, err
	}
	if digest.IsZero() {
		return f.latestV1(ctx, id, version)
	}
	return f.Stored(ctx, digest)
}

// Library is rye/std.
func (f *Finder) Library() (*Bundle, error) {
	list, files, err := std.Files()
	if err != nil {
		return nil, err
	}
	read := &bundle.Bundle{FileList: list, Files: files}
	return &Bundle{Where: InBinary, Place: "this binary", ID: workspace.LibraryID, Read: read, Has: workspace.BlobsOf(std.FS(), read, ".ai/"), w: f.Workspace}, nil
}

// AtPath finds the bundle of a directory or of a manifest in it, or an archive.
func (f *Finder) AtPath(text string) (*Bundle, error) {
	at, err := f.Abs(text)
	if err != nil {
		return nil, err
	}
	fi, err := os.Stat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Files, "there is no file or directory %q", text).From(err).Missing().
			Try("rye bundle list --all").On("path", at)
	}
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		// The directory of a manifest means that manifest.
		if dir, id, ok := ManifestOf(filepath.Join(at, workspace.BundleManifest)); ok {
			if _, err := os.Lstat(filepath.Join(at, workspace.BundleManifest)); err == nil {
				return f.InDir(InProject, dir, id)
			}
		}
		if filepath.Base(at) == workspace.MarkerDir {
			at = filepath.Dir(at)
		}
		return f.inDirectory(at, text)
	}
	if dir, id, ok := ManifestOf(at); ok {
		return f.InDir(InProject, dir, id)
	}
	file, err := osfile.OpenRegular(at)
	if err != nil {
		return nil, err
	}
	f.Keep(file)
	b := Archive(text, file)
	b.w = f.Workspace
	return b, nil
}

// ManifestOf splits the path of a manifest: DIR/.ai/bundles/ID/manifest.yaml.
func ManifestOf(file string) (dir, id string, ok bool) {
	const mark = "/" + workspace.MarkerDir + "/bundles/"
	slashed := filepath.ToSlash(file)
	i := strings.LastIndex(slashed, mark)
	if i < 0 || filepath.Base(file) != workspace.BundleManifest {
		return "", "", false
	}
	id, below := strings.CutSuffix(slashed[i+len(mark):], "/"+workspace.BundleManifest)
	return filepath.FromSlash(slashed[:i]), id, below && workspace.ValidBundleID(id)
}

// inDirectory is the bundle of a directory that holds .ai: that of bundle.yaml, or the only one.
func (f *Finder) inDirectory(dir, text string) (*Bundle, error) {
	ids, err := workspace.ProjectBundles(dir)
	if err != nil {
		return nil, err
	}
	if len(ids) > 1 {
		if r, err := ReadRecipe(dir); err == nil && r != nil && slices.Contains(ids, r.ID) {
			ids = []string{r.ID}
		}
	}
	switch len(ids) {
	case 1:
		return f.InDir(InProject, dir, ids[0])
	case 0:
		return nil, fault.New(fault.NotFound, "there is no bundle in %q", text).Try("rye bundle create", "rye bundle list")
	}
	return nil, fault.New(fault.Ambiguous, "there are %d bundles in %q", len(ids), text).Because(ids...).
		Try("rye bundle verify "+ids[0]).On("bundles", ids)
}

// MaxRecipe bounds bundle.yaml.
const MaxRecipe = 1 << 20

// ReadRecipe reads bundle.yaml; nil if there is none.
func ReadRecipe(dir string) (*recipe.Recipe, error) {
	text, err := osfile.ReadSmall(filepath.Join(dir, recipe.File), MaxRecipe)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := recipe.Parse(text)
	if err != nil {
		e := fault.Of(err)
		e.Code = fault.Config
		return nil, e
	}
	return r, nil
}

// notFound says that no bundle has a name, and which similar names there are.
func (f *Finder) notFound(ctx context.Context, text string) error {
	e := fault.New(fault.NotFound, "there is no bundle %q", text).Try("rye bundle list --all").On("bundle", text)
	if meant := near.Names(text, f.IDs(ctx)); len(meant) > 0 {
		e.Because("did you mean "+strings.Join(meant, ", ")+"?").On("did_you_mean", meant)
	}
	return e
}

// IDs are the ids of all bundles that can be found by id.
func (f *Finder) IDs(ctx context.Context) []string {
	all := []string{workspace.LibraryID}
	if f.Root.Root != "" {
		ids, _ := workspace.ProjectBundles(f.Root.Root)
		all = append(all, ids...)
	}
	if space, err := f.Space(); err == nil {
		installed, _ := f.InstalledAll(ctx, space)
		for _, i := range installed {
			all = append(all, i.BundleID)
		}
	}
	stored, _ := f.Lists(ctx)
	for _, l := range stored {
		all = append(all, l.BundleID)
	}
	v1, _ := f.V1Lists(ctx)
	for _, l := range v1 {
		all = append(all, l.ID)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// byDigest finds a manifest in the store by its digest, or by the beginning of one.
func (f *Finder) byDigest(ctx context.Context, text string) (*Bundle, error) {
	s, err := f.OpenStore(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, f.notFound(ctx, text)
	}
	if err != nil {
		return nil, err
	}
	var ids []cas.ID
	if digest, err := cas.ParseDigest(text); err == nil {
		id := cas.ID{Kind: cas.Document, Digest: digest}
		if has, err := s.Has(id); err != nil {
			return nil, err
		} else if has {
			ids = append(ids, id)
		}
	} else if digits, ok := cas.ParsePrefix(strings.TrimPrefix(text, "blake3:")); ok {
		if ids, err = s.Find(ctx, digits); err != nil {
			return nil, err
		}
		ids = slices.DeleteFunc(ids, func(id cas.ID) bool { return id.Kind != cas.Document })
	}
	switch len(ids) {
	case 0:
		return nil, f.notFound(ctx, text)
	case 1:
		return f.Stored(ctx, ids[0].Digest)
	}
	e := fault.New(fault.Ambiguous, "%d bundles begin with %q", len(ids), text)
	for _, id := range ids[:min(len(ids), 5)] {
		e.Because(id.String())
	}
	return nil, e
}
