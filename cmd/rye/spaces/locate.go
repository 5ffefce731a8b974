package spaces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/classify"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

// Locate finds what an argument stands for; without one the project's only bundle.
func Locate(ctx context.Context, b *places.Workspace, text string) (*Located, error) {
	switch {
	case text == "":
		if b.Root.Root == "" {
			_, err := places.OpenProject(b.App)
			f := classify.Classify(cmp.Or(err, workspace.ErrNoProject))
			f.Hint = append(f.Hint, "rye bundle list --all")
			return nil, f
		}
		return inDirectory(b, b.Root.Root, b.Root.Root)
	case text == "-":
		return &Located{Where: InArchive, Place: StandardInput, File: b.App.Input(ctx)}, nil
	case strings.HasPrefix(text, "blake3:"):
		s, err := b.OpenStore(false)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, noBundle(ctx, b, text)
		}
		if err != nil {
			return nil, err
		}
		o, err := places.Resolve(ctx, s, text, cas.Document)
		if err != nil && classify.Classify(err).Code == fault.NotFound {
			return nil, noBundle(ctx, b, text)
		}
		if err != nil {
			return nil, err
		}
		return Stored(ctx, b, o.Id.Digest)
	case !b.App.ByID && LooksLikePath(text):
		return AtPath(b, text)
	}
	id, version, _ := strings.Cut(text, "@")
	if workspace.ValidBundleID(id) {
		found, err := byName(ctx, b, id, version)
		if found != nil || err != nil {
			return found, err
		}
	}
	if b.App.ByID {
		return nil, noBundle(ctx, b, text)
	}
	if s := b.App.Absolute(cli.Setting{Value: text}); s.Err == nil {
		if _, err := os.Stat(s.Value); err == nil {
			return AtPath(b, text)
		}
	}
	return nil, noBundle(ctx, b, text)
}

// LooksLikePath reports whether an argument can't be an id, or isn't meant as one.
func LooksLikePath(text string) bool {
	return filepath.IsAbs(text) || strings.HasPrefix(text, ".") || strings.Contains(text, `\`) ||
		strings.HasSuffix(text, ".zst") || strings.HasSuffix(text, ".yaml") || strings.HasSuffix(text, "/")
}

// byName finds a bundle by its id: the library's, the project's, the installed one, the latest in the store; nil if
// there is none. A version is looked for where there are several.
func byName(ctx context.Context, b *places.Workspace, id, version string) (*Located, error) {
	if id == workspace.LibraryID {
		return Library()
	}
	if b.Root.Root != "" && version == "" {
		at, _ := bundle.ManifestPath(id)
		if _, err := os.Lstat(filepath.Join(b.Root.Root, filepath.FromSlash(at))); err == nil {
			return InDir(b, InProject, b.Root.Root, id)
		}
	}
	at, err := b.Installed(id)
	if err != nil {
		return nil, err
	}
	if at != nil && (version == "" || at.Version == version) {
		s, err := b.OpenStore(false)
		if err != nil {
			return nil, err
		}
		return &Located{Where: InUser, Place: "installed", Id: id, Read: at.Bundle, Has: s}, nil
	}
	if home := b.App.UserBase(); at == nil && home.Err == nil && version == "" {
		if l, err := InDir(b, InUser, home.Value, id); err != nil || l.V1 != nil {
			return l, err
		}
	}
	digest, err := Latest(ctx, b, id, version)
	if err != nil {
		return nil, err
	}
	if digest.IsZero() {
		return latestV1(ctx, b, id, version)
	}
	return Stored(ctx, b, digest)
}

// StandardInput is where an archive is that comes from there.
const StandardInput = "standard input"

// Library is rye/std.
func Library() (*Located, error) {
	list, files, err := std.Files()
	if err != nil {
		return nil, err
	}
	read := &bundle.Bundle{FileList: list, Files: files}
	return &Located{Where: InBinary, Place: "this binary", Id: workspace.LibraryID, Read: read, Has: workspace.BlobsOf(std.FS(), read, ".ai/")}, nil
}

// Stored is a bundle of the store.
func Stored(ctx context.Context, b *places.Workspace, id cas.Digest) (*Located, error) {
	s, err := b.OpenStore(false)
	if err != nil {
		return nil, err
	}
	if l, err := storedV1(ctx, b, s, id); l != nil || err != nil {
		return l, err
	}
	read, err := bundle.ReadStored(ctx, s, s, id)
	if err != nil {
		return nil, err
	}
	return &Located{Where: InStore, Place: "store", Id: read.BundleID, Read: read, Has: s}, nil
}

// Latest finds a bundle in the store by its name; a zero digest if there is none.
func Latest(ctx context.Context, b *places.Workspace, id, version string) (cas.Digest, error) {
	all, err := StoredLists(ctx, b)
	if err != nil {
		return cas.Digest{}, err
	}
	all = slices.DeleteFunc(all, func(l *manifest.FileList) bool { return l.BundleID != id || version != "" && l.Version != version })
	if len(all) == 0 {
		return cas.Digest{}, nil
	}
	last := all[len(all)-1]
	f := &fault.Error{Code: fault.Ambiguous, Text: fmt.Sprintf("there are several bundles %s@%s in the store", id, last.Version)}
	for _, l := range all {
		if manifest.CompareVersions(l.Version, last.Version) == 0 {
			f.Why = append(f.Why, l.ID.String())
		}
	}
	if len(f.Why) > 1 {
		f.Hint = []string{"rye bundle inspect " + last.ID.String()}
		return cas.Digest{}, f
	}
	return last.ID, nil
}

const bundleRefs = "bundles/"

// StoredLists reads what the manifests in the store say, without their signatures, sorted by id and version.
func StoredLists(ctx context.Context, b *places.Workspace) ([]*manifest.FileList, error) {
	all, err := storedDocuments(ctx, b, func(r disk.Ref) bool {
		rest, ok := strings.CutPrefix(r.Name, bundleRefs)
		return ok && !strings.Contains(rest, "/")
	}, func(o cas.Object) (*manifest.FileList, error) {
		return manifest.ReadFileList(o, func(*manifest.File) error { return nil })
	})
	slices.SortFunc(all, func(x, y *manifest.FileList) int {
		return cmp.Or(cmp.Compare(x.BundleID, y.BundleID), manifest.CompareVersions(x.Version, y.Version), x.ID.Compare(y.ID))
	})
	return all, err
}

// storedDocuments reads those documents in the store that some refs name. There may be no store; what can't be read is
// told, and left out.
func storedDocuments[T any](ctx context.Context, b *places.Workspace, wanted func(disk.Ref) bool, read func(cas.Object) (T, error)) (all []T, err error) {
	s, err := b.OpenStore(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	refs, err := s.Refs()
	if err != nil {
		return nil, err
	}
	for _, r := range refs {
		if r.ID.Kind != cas.Document || !wanted(r) {
			continue
		}
		var document T
		o, err := s.Get(ctx, r.ID)
		if err == nil {
			document, err = read(o)
			o.Close()
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			b.App.Term.Warn("the bundle %s in the store: %s", r.ID.Digest.Short(), classify.Classify(err).Text)
			continue
		}
		all = append(all, document)
	}
	return all, nil
}

// AtPath finds the bundle of a directory or of a manifest in it, or an archive.
func AtPath(b *places.Workspace, text string) (*Located, error) {
	s := b.App.Absolute(cli.Setting{Value: text})
	if s.Err != nil {
		return nil, s.Err
	}
	fi, err := os.Stat(s.Value)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{Code: fault.Files, Exit: fault.ExitMissing, Err: err, Text: fmt.Sprintf("there is no file or directory %q", text),
			Hint: []string{"rye bundle list --all"}, Details: map[string]any{"path": s.Value}}
	}
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		// Who names the directory of a manifest means that.
		if dir, id, ok := ManifestOf(filepath.Join(s.Value, workspace.BundleManifest)); ok {
			if _, err := os.Lstat(filepath.Join(s.Value, workspace.BundleManifest)); err == nil {
				return InDir(b, InProject, dir, id)
			}
		}
		if filepath.Base(s.Value) == workspace.MarkerDir {
			s.Value = filepath.Dir(s.Value)
		}
		return inDirectory(b, s.Value, text)
	}
	if dir, id, ok := ManifestOf(s.Value); ok {
		return InDir(b, InProject, dir, id)
	}
	f, err := osfile.OpenRegular(s.Value)
	if err != nil {
		return nil, err
	}
	b.Keep(f)
	return &Located{Where: InArchive, Place: text, File: f}, nil
}

// ManifestOf takes the path of a manifest apart: DIR/.ai/bundles/ID/manifest.yaml.
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
func inDirectory(b *places.Workspace, dir, text string) (*Located, error) {
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
		return InDir(b, InProject, dir, ids[0])
	case 0:
		return nil, &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("there is no bundle in %q", text), Hint: []string{"rye bundle create", "rye bundle list"}}
	}
	return nil, &fault.Error{Code: fault.Ambiguous, Text: fmt.Sprintf("there are %d bundles in %q", len(ids), text), Why: ids,
		Hint: []string{"rye bundle verify " + ids[0]}, Details: map[string]any{"bundles": ids}}
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
		f := classify.Classify(err)
		f.Code = fault.Config
		return nil, f
	}
	return r, nil
}

// noBundle says that there is none, and which are meant perhaps.
func noBundle(ctx context.Context, b *places.Workspace, text string) error {
	f := &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("there is no bundle %q", text), Hint: []string{"rye bundle list --all"},
		Details: map[string]any{"bundle": text}}
	if meant := near.Names(text, Names(ctx, b)); len(meant) > 0 {
		f.Why = []string{"did you mean " + strings.Join(meant, ", ") + "?"}
		f.Details["did_you_mean"] = meant
	}
	return f
}

// Names are the ids of all that can be found by name.
func Names(ctx context.Context, b *places.Workspace) []string {
	all := []string{workspace.LibraryID}
	if b.Root.Root != "" {
		ids, _ := workspace.ProjectBundles(b.Root.Root)
		all = append(all, ids...)
	}
	if space, err := b.Space(); err == nil {
		found, _ := b.InstalledAll(ctx, space)
		for _, i := range found {
			all = append(all, i.BundleID)
		}
	}
	kept, _ := StoredLists(ctx, b)
	for _, l := range kept {
		all = append(all, l.BundleID)
	}
	firsts, _ := StoredV1(ctx, b)
	for _, l := range firsts {
		all = append(all, l.ID)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Whole reads a bundle that isn't in an archive, with what has its files.
func Whole(ctx context.Context, b *places.Workspace, l *Located) error {
	if l.V1 != nil && l.Read == nil {
		_, err := ReadV1(ctx, b, l)
		return err
	}
	if l.Read != nil || l.Where != InProject {
		return nil
	}
	var err error
	if l.Read, err = workspace.ReadManifest(l.Dir, l.Id); err != nil {
		if _, changed := errors.AsType[*sign.IntegrityError](err); changed {
			err = fmt.Errorf("the manifest of %q: %w", l.Id, err)
		}
		return err
	}
	if l.Read.BundleID != l.Id {
		return &fault.Error{Code: fault.Integrity, Text: fmt.Sprintf("the manifest of %q is that of %q", l.Id, l.Read.BundleID)}
	}
	space, err := ai.OpenDir(l.Dir, l.Id, ai.Project)
	if err != nil {
		return err
	}
	b.Keep(space)
	l.Has = workspace.BlobsOf(space.FS, l.Read, "")
	return nil
}

// CompleteBundles offers the ids of bundles.
func CompleteBundles(ctx context.Context, a *cli.App) (out []cli.Candidate) {
	ctx, cancel := context.WithTimeout(ctx, CompleteTime)
	defer cancel()
	b, err := places.OpenWorkspace(a)
	if err != nil {
		return nil
	}
	defer b.Close()
	for _, name := range Names(ctx, b) {
		out = append(out, cli.Candidate{Value: name, Help: "bundle"})
	}
	return out
}
