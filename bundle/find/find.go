// Package find is the search for bundles by name: the library in the binary, a bundle of the project, an installed
// one, one in the store, a directory with .ai, or an archive. It doesn't verify what it finds.
//
// # How a find goes through here
//
// Finder.Find looks at the name's form. byDigest searches the store, At opens a directory, manifest or archive, and
// byID asks the library, the project, the installed bundles and the store in this order. The Found that they return
// is unread: Read or Unpack reads its manifest, Source passes it to bundle.Verify, and Import verifies it and copies
// it into a store.
package find

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
	"sync"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/foreign"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/manifest"
)

// A Finder knows the places of bundles. It doesn't search empty places.
type Finder struct {
	Dir       string         // the base of relative paths
	Project   string         // the directory that holds the project's .ai
	User      string         // the same of the user
	Installed *install.Space // works without a store
	OnlyIDs   bool           // names are ids, never paths or archives
	Input     io.Reader      // the archive of the name "-"
	Now       time.Time      // decides whether a manifest has expired

	// opens the store; fs.ErrNotExist without one
	Store func() (*disk.Store, error)
	// receives what must stay open while a found bundle is used
	Keep func(io.Closer)
	// reports something unreadable that is left out
	Warn func(what string, err error)
	// spaces that a bundle's items may use
	Below func(ctx context.Context, id string, requires []manifest.Require) ([]*ai.Space, []bundle.Need, error)
}

// Find returns the bundle of a name; an empty name means the project's only bundle. A name is an id, ID@VERSION, the
// digest of a manifest, a directory, a manifest, an archive, or "-".
func (f *Finder) Find(ctx context.Context, name string) (*Found, error) {
	switch {
	case name == "":
		return f.inDirectory(f.Project, f.Project)
	case name == "-":
		return &Found{Where: InArchive, Place: StandardInput, Archive: f.Input, finder: f}, nil
	case strings.HasPrefix(name, "blake3:"):
		return f.byDigest(ctx, name)
	case !f.OnlyIDs && IsPath(name):
		return f.At(ctx, name)
	}
	id, version, _ := strings.Cut(name, "@")
	if ValidID(id) {
		if found, err := f.byID(ctx, id, version); found != nil || err != nil {
			return found, err
		}
	}
	if !f.OnlyIDs {
		if _, err := os.Stat(f.absolute(name)); err == nil {
			return f.At(ctx, name)
		}
	}
	return nil, f.unknown(ctx, name)
}

// byDigest finds a bundle in the store by its manifest's digest or a prefix of it.
func (f *Finder) byDigest(ctx context.Context, name string) (*Found, error) {
	store, err := f.Store()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, f.unknown(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	if id, err := cas.ParseDigest(name); err == nil {
		if has, err := store.Has(cas.ID{Kind: cas.Document, Digest: id}); err != nil {
			return nil, err
		} else if has {
			return f.Stored(ctx, id)
		}
		return nil, f.unknown(ctx, name)
	}
	digits, ok := cas.ParsePrefix(name)
	if !ok {
		return nil, f.unknown(ctx, name)
	}
	all, err := store.Find(ctx, digits)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(id cas.ID) bool { return id.Kind != cas.Document })
	switch len(all) {
	case 0:
		return nil, f.unknown(ctx, name)
	case 1:
		return f.Stored(ctx, all[0].Digest)
	}
	e := fault.New(fault.Ambiguous, "%d objects begin with %q", len(all), name)
	for _, id := range all[:min(len(all), fault.MaxLines)] {
		e.Because(id.String())
	}
	return nil, e
}

// Newest returns the bundle to install for a name, and whether the name leaves the version open. If it does, the
// bundle is the project's or the newest in the store, instead of the installed one.
func (f *Finder) Newest(ctx context.Context, name string) (found *Found, open bool, err error) {
	id, version, given := strings.Cut(name, "@")
	switch {
	case strings.HasPrefix(name, "blake3:"):
		found, err = f.Find(ctx, name)
		return found, false, err
	case name == "-" || IsPath(name) || !ValidID(id) || id == LibraryID:
		found, err = f.Find(ctx, name)
		return found, true, err
	}
	if f.Project != "" && !given {
		ids, err := InProjectIDs(f.Project)
		if err != nil {
			return nil, false, err
		}
		if slices.Contains(ids, id) {
			found, err = f.in(InProject, f.Project, id)
			return found, true, err
		}
	}
	if found, err = f.latest(ctx, id, version); found == nil && err == nil {
		found, err = f.Find(ctx, name)
	}
	return found, !given, err
}

// IsPath reports whether a name means a path rather than an id.
func IsPath(name string) bool {
	return filepath.IsAbs(name) || strings.HasPrefix(name, ".") || strings.Contains(name, `\`) ||
		slices.ContainsFunc([]string{".zst", ".zip", ".tar.gz", ".tgz", ".yaml", "/"},
			func(end string) bool { return strings.HasSuffix(name, end) })
}

// ValidID reports whether a text can be the id of a bundle.
func ValidID(id string) bool {
	_, err := bundle.ManifestPath(id)
	return err == nil
}

func (f *Finder) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(f.Dir, path)
}

// byID finds a bundle by its id in the library, the project, the installed bundles, then the store; nil if none has
// it. A version applies only to places that can have several.
func (f *Finder) byID(ctx context.Context, id, version string) (*Found, error) {
	if id == LibraryID {
		return Library()
	}
	if f.Project != "" && version == "" {
		if file, err := manifestFile(f.Project, id); err == nil {
			if _, err := os.Lstat(file); err == nil {
				return f.in(InProject, f.Project, id)
			}
		}
	}
	at, err := f.Current(id)
	if err != nil {
		return nil, err
	}
	if at != nil && (version == "" || at.Version == version) {
		s, err := f.Store()
		if err != nil {
			return nil, err
		}
		return &Found{Where: InUser, Place: InUser, ID: id, Bundle: at.Bundle, Files: s, finder: f}, nil
	}
	if at == nil && f.User != "" && version == "" {
		if found, err := f.in(InUser, f.User, id); err != nil || found.V1 != nil {
			return found, err
		}
	}
	return f.latest(ctx, id, version)
}

// At returns the bundle in a directory, that of a manifest, or an archive.
func (f *Finder) At(ctx context.Context, path string) (*Found, error) {
	file := f.absolute(path)
	fi, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Files, "no file or directory %q", path).Missing().From(err).On("path",
			file).Try("rye bundle list --all")
	}
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		// The directory of a manifest means the manifest.
		inside := filepath.Join(file, manifestName)
		if dir, id, ok := ManifestOf(inside); ok {
			if _, err := os.Lstat(inside); err == nil {
				return f.in(InProject, dir, id)
			}
		}
		if filepath.Base(file) == dotAI {
			file = filepath.Dir(file)
		}
		return f.inDirectory(file, path)
	}
	if dir, id, ok := ManifestOf(file); ok {
		return f.in(InProject, dir, id)
	}
	archive, err := osfile.OpenRegular(file)
	if err != nil {
		return nil, err
	}
	if filepath.Base(file) == manifestName {
		archive.Close()
		return nil, fault.New(fault.Validation, "%q is a manifest without its bundle", path).
			Because("a manifest lists the files of the project in which it is .ai/bundles/ID/"+manifestName).
			Try("rye docs bundles").On("path", path)
	}
	first := make([]byte, foreign.MagicSize)
	if n, _ := archive.ReadAt(first, 0); foreign.Is(first[:n]) {
		defer archive.Close()
		return f.packed(ctx, path, archive)
	}
	f.Keep(archive)
	return &Found{Where: InArchive, Place: path, Archive: archive, finder: f}, nil
}

// inDirectory returns the bundle of a directory that holds .ai: bundle.yaml's, or the only one.
func (f *Finder) inDirectory(dir, text string) (*Found, error) {
	ids, err := InProjectIDs(dir)
	if err != nil {
		return nil, err
	}
	if len(ids) > 1 {
		if r, err := recipe.Read(dir); err == nil && r != nil && slices.Contains(ids, r.ID) {
			ids = []string{r.ID}
		}
	}
	switch len(ids) {
	case 1:
		return f.in(InProject, dir, ids[0])
	case 0:
		if p, done, err := ReadPlugin(dir); p != nil || err != nil {
			if err != nil {
				return nil, err
			}
			done()
			if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(bundle.PluginManifest))); err == nil {
				return f.in(InProject, dir, p.BundleID()) // its manifest can't be read, and the reader says why
			}
			return nil, fault.New(fault.NotFound, "the plugin in %q is not signed", text).On("reason", "unsigned").
				Because("a bundle, in an archive or an image too, has a signed manifest").
				Try("rye -C "+fault.Quote(text)+" bundle create", "rye docs unsigned-plugins")
		}
		return nil, fault.New(fault.NotFound, "no bundle in %q", text).Try("rye bundle create", "rye bundle list")
	}
	return nil, fault.New(fault.Ambiguous, "%d bundles in %q", len(ids), text).Because(ids...).On("bundles",
		ids).Try("rye bundle verify " + ids[0])
}

// Current returns the installed bundle of an id; nil if none is installed.
func (f *Finder) Current(id string) (*install.Installed, error) {
	if f.Installed == nil {
		return nil, nil // without a home nothing is installed
	}
	at, err := f.Installed.Get(id)
	if bad, ok := errors.AsType[*install.ManifestError](err); errors.Is(err, fs.ErrNotExist) || ok && f.isUserV1(bad) {
		return nil, nil
	}
	return at, err
}

// AllInstalled returns the installed bundles. V1 manifests that older programs left there are not among them.
func (f *Finder) AllInstalled(ctx context.Context) ([]*install.Installed, error) {
	if f.Installed == nil {
		return nil, nil
	}
	all, err := f.Installed.List(ctx)
	var others []error
	for _, e := range each(err) {
		if bad, ok := errors.AsType[*install.ManifestError](e); !ok || !f.isUserV1(bad) {
			others = append(others, e)
		}
	}
	return all, errors.Join(others...)
}

// each splits a joined error.
func each(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}

// isUserV1 reports whether an unreadable manifest of an installed bundle is a v1 manifest.
func (f *Finder) isUserV1(e *install.ManifestError) bool {
	id, ok := strings.CutPrefix(filepath.ToSlash(filepath.Dir(e.Path)), "bundles/")
	v1, err := IsV1(f.User, id)
	return ok && f.User != "" && err == nil && v1
}

// unknown returns the error for a name without a bundle, with similar names.
func (f *Finder) unknown(ctx context.Context, name string) error {
	e := fault.New(fault.NotFound, "no bundle %q", name).On("bundle", name).Try("rye bundle list --all")
	if meant := suggest.Names(name, f.IDs(ctx)); len(meant) > 0 {
		e.Because("did you mean "+strings.Join(meant, ", ")+"?").On("did_you_mean", meant)
	}
	return e
}

// IDs returns the ids of all bundles that have one, sorted.
func (f *Finder) IDs(ctx context.Context) []string {
	all := []string{LibraryID}
	if f.Project != "" {
		ids, _ := InProjectIDs(f.Project)
		all = append(all, ids...)
	}
	installed, _ := f.AllInstalled(ctx)
	for _, at := range installed {
		all = append(all, at.BundleID)
	}
	stored, _ := f.stored(ctx)
	for _, l := range stored {
		all = append(all, l.Bundle)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// LibraryID is the bundle that the binary carries.
const LibraryID = recipe.Library

// LibrarySpace returns the items of the library.
var LibrarySpace = sync.OnceValue(func() *ai.Space {
	return &ai.Space{Label: "system:" + LibraryID, Level: ai.System, FS: std.FS(), Builtin: true}
})

// Library returns the library in the binary.
func Library() (*Found, error) {
	list, files, err := std.Files()
	if err != nil {
		return nil, err
	}
	b := &bundle.Bundle{FileList: list, Files: files}
	return &Found{Where: InBinary, Place: "this binary", ID: LibraryID, Bundle: b,
		Files: BlobsOf(std.FS(), b, dotAI+"/")}, nil
}

// Stored returns the bundle in the store whose manifest has a digest.
func (f *Finder) Stored(ctx context.Context, id cas.Digest) (*Found, error) {
	store, err := f.Store()
	if err != nil {
		return nil, err
	}
	if found, err := f.storedV1(ctx, store, id); found != nil || err != nil {
		return found, err
	}
	b, err := bundle.ReadStored(ctx, store, store, id)
	if err != nil {
		return nil, err
	}
	return &Found{Where: InStore, Place: InStore, ID: b.BundleID, Bundle: b, Files: store, finder: f}, nil
}

// latest returns the newest bundle of an id in the store, a v2 bundle before any v1 bundle; nil without one.
func (f *Finder) latest(ctx context.Context, id, version string) (*Found, error) {
	all, err := f.stored(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(l Line) bool { return l.Bundle != id || version != "" && l.Version != version })
	if len(all) == 0 {
		return nil, nil
	}
	last := all[len(all)-1]
	var same []string
	for _, l := range all {
		if l.Format == last.Format && manifest.CompareVersions(l.Version, last.Version) == 0 {
			same = append(same, l.Manifest)
		}
	}
	if len(same) > 1 {
		return nil, fault.New(fault.Ambiguous, "the store has several bundles %s@%s", id,
			last.Version).Because(same...).Try("rye bundle inspect " + last.Manifest)
	}
	return f.Stored(ctx, last.digest)
}

func compareLines(x, y Line) int {
	return cmp.Or(cmp.Compare(x.Bundle, y.Bundle), cmp.Compare(x.Format, y.Format),
		manifest.CompareVersions(x.Version, y.Version), x.digest.Compare(y.digest))
}

// manifestFile returns the file of a bundle's manifest below a directory.
func manifestFile(dir, id string) (string, error) {
	at, err := bundle.FindManifest(os.DirFS(dir), id)
	return filepath.Join(dir, filepath.FromSlash(at)), err
}
