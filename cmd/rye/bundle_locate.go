package main

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
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

// locate finds what an argument stands for; without one the project's only bundle.
func (b *bundles) locate(ctx context.Context, text string) (*located, error) {
	switch {
	case text == "":
		if b.root.root == "" {
			_, err := b.app.project()
			f := classify(cmp.Or(err, errNoProject))
			f.Hint = append(f.Hint, "rye bundle list --all")
			return nil, f
		}
		return b.inDirectory(b.root.root, b.root.root)
	case text == "-":
		return &located{where: inArchive, place: standardInput, file: b.app.input(ctx)}, nil
	case strings.HasPrefix(text, "blake3:"):
		s, err := b.store(false)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, b.noBundle(ctx, text)
		}
		if err != nil {
			return nil, err
		}
		o, err := resolve(ctx, s, text, cas.Document)
		if err != nil && classify(err).Code == fault.NotFound {
			return nil, b.noBundle(ctx, text)
		}
		if err != nil {
			return nil, err
		}
		return b.stored(ctx, o.id.Digest)
	case !b.app.byID && looksLikePath(text):
		return b.atPath(text)
	}
	id, version, _ := strings.Cut(text, "@")
	if validBundleID(id) {
		found, err := b.byName(ctx, id, version)
		if found != nil || err != nil {
			return found, err
		}
	}
	if b.app.byID {
		return nil, b.noBundle(ctx, text)
	}
	if s := b.app.absolute(setting{value: text}); s.err == nil {
		if _, err := os.Stat(s.value); err == nil {
			return b.atPath(text)
		}
	}
	return nil, b.noBundle(ctx, text)
}

// looksLikePath reports whether an argument can't be an id, or isn't meant as one.
func looksLikePath(text string) bool {
	return filepath.IsAbs(text) || strings.HasPrefix(text, ".") || strings.Contains(text, `\`) ||
		strings.HasSuffix(text, ".zst") || strings.HasSuffix(text, ".yaml") || strings.HasSuffix(text, "/")
}

// byName finds a bundle by its id: the library's, the project's, the installed one, the latest in the store; nil if
// there is none. A version is looked for where there are several.
func (b *bundles) byName(ctx context.Context, id, version string) (*located, error) {
	if id == libraryID {
		return library()
	}
	if b.root.root != "" && version == "" {
		at, _ := bundle.ManifestPath(id)
		if _, err := os.Lstat(filepath.Join(b.root.root, filepath.FromSlash(at))); err == nil {
			return b.inDir(inProject, b.root.root, id)
		}
	}
	at, err := b.installed(id)
	if err != nil {
		return nil, err
	}
	if at != nil && (version == "" || at.Version == version) {
		s, err := b.store(false)
		if err != nil {
			return nil, err
		}
		return &located{where: inUser, place: "installed", id: id, read: at.Bundle, has: s}, nil
	}
	if home := b.app.userBase(); at == nil && home.err == nil && version == "" {
		if l, err := b.inDir(inUser, home.value, id); err != nil || l.first != nil {
			return l, err
		}
	}
	digest, err := b.latest(ctx, id, version)
	if err != nil {
		return nil, err
	}
	if digest.IsZero() {
		return b.latestFirst(ctx, id, version)
	}
	return b.stored(ctx, digest)
}

// standardInput is where an archive is that comes from there.
const standardInput = "standard input"

// library is rye/std.
func library() (*located, error) {
	list, files, err := std.Files()
	if err != nil {
		return nil, err
	}
	read := &bundle.Bundle{FileList: list, Files: files}
	return &located{where: inBinary, place: "this binary", id: libraryID, read: read, has: blobsOf(std.FS(), read, ".ai/")}, nil
}

// stored is a bundle of the store.
func (b *bundles) stored(ctx context.Context, id cas.Digest) (*located, error) {
	s, err := b.store(false)
	if err != nil {
		return nil, err
	}
	if l, err := b.storedFirst(ctx, s, id); l != nil || err != nil {
		return l, err
	}
	read, err := bundle.ReadStored(ctx, s, s, id)
	if err != nil {
		return nil, err
	}
	return &located{where: inStore, place: "store", id: read.BundleID, read: read, has: s}, nil
}

// latest finds a bundle in the store by its name; a zero digest if there is none.
func (b *bundles) latest(ctx context.Context, id, version string) (cas.Digest, error) {
	all, err := b.storedLists(ctx)
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

// storedLists reads what the manifests in the store say, without their signatures, sorted by id and version.
func (b *bundles) storedLists(ctx context.Context) ([]*manifest.FileList, error) {
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
func storedDocuments[T any](ctx context.Context, b *bundles, wanted func(disk.Ref) bool, read func(cas.Object) (T, error)) (all []T, err error) {
	s, err := b.store(false)
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
			b.app.term.warn("the bundle %s in the store: %s", r.ID.Digest.Short(), classify(err).Text)
			continue
		}
		all = append(all, document)
	}
	return all, nil
}

// atPath finds the bundle of a directory or of a manifest in it, or an archive.
func (b *bundles) atPath(text string) (*located, error) {
	s := b.app.absolute(setting{value: text})
	if s.err != nil {
		return nil, s.err
	}
	fi, err := os.Stat(s.value)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{Code: fault.Files, Exit: fault.ExitMissing, Err: err, Text: fmt.Sprintf("there is no file or directory %q", text),
			Hint: []string{"rye bundle list --all"}, Details: map[string]any{"path": s.value}}
	}
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		// Who names the directory of a manifest means that.
		if dir, id, ok := manifestOf(filepath.Join(s.value, bundleManifest)); ok {
			if _, err := os.Lstat(filepath.Join(s.value, bundleManifest)); err == nil {
				return b.inDir(inProject, dir, id)
			}
		}
		if filepath.Base(s.value) == markerDir {
			s.value = filepath.Dir(s.value)
		}
		return b.inDirectory(s.value, text)
	}
	if dir, id, ok := manifestOf(s.value); ok {
		return b.inDir(inProject, dir, id)
	}
	f, err := openRegular(s.value)
	if err != nil {
		return nil, err
	}
	b.opened = append(b.opened, f)
	return &located{where: inArchive, place: text, file: f}, nil
}

// manifestOf takes the path of a manifest apart: DIR/.ai/bundles/ID/manifest.yaml.
func manifestOf(file string) (dir, id string, ok bool) {
	const mark = "/" + markerDir + "/bundles/"
	slashed := filepath.ToSlash(file)
	i := strings.LastIndex(slashed, mark)
	if i < 0 || filepath.Base(file) != bundleManifest {
		return "", "", false
	}
	id, below := strings.CutSuffix(slashed[i+len(mark):], "/"+bundleManifest)
	return filepath.FromSlash(slashed[:i]), id, below && validBundleID(id)
}

// inDirectory is the bundle of a directory that holds .ai: that of bundle.yaml, or the only one.
func (b *bundles) inDirectory(dir, text string) (*located, error) {
	ids, err := projectBundles(dir)
	if err != nil {
		return nil, err
	}
	if len(ids) > 1 {
		if r, err := readRecipe(dir); err == nil && r != nil && slices.Contains(ids, r.ID) {
			ids = []string{r.ID}
		}
	}
	switch len(ids) {
	case 1:
		return b.inDir(inProject, dir, ids[0])
	case 0:
		return nil, &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("there is no bundle in %q", text), Hint: []string{"rye bundle create", "rye bundle list"}}
	}
	return nil, &fault.Error{Code: fault.Ambiguous, Text: fmt.Sprintf("there are %d bundles in %q", len(ids), text), Why: ids,
		Hint: []string{"rye bundle verify " + ids[0]}, Details: map[string]any{"bundles": ids}}
}

// maxRecipe bounds bundle.yaml.
const maxRecipe = 1 << 20

// readRecipe reads bundle.yaml; nil if there is none.
func readRecipe(dir string) (*recipe.Recipe, error) {
	text, err := readSmall(filepath.Join(dir, recipe.File), maxRecipe)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := recipe.Parse(text)
	if err != nil {
		f := classify(err)
		f.Code = fault.Config
		return nil, f
	}
	return r, nil
}

// noBundle says that there is none, and which are meant perhaps.
func (b *bundles) noBundle(ctx context.Context, text string) error {
	f := &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("there is no bundle %q", text), Hint: []string{"rye bundle list --all"},
		Details: map[string]any{"bundle": text}}
	if meant := near.Names(text, b.names(ctx)); len(meant) > 0 {
		f.Why = []string{"did you mean " + strings.Join(meant, ", ") + "?"}
		f.Details["did_you_mean"] = meant
	}
	return f
}

// names are the ids of all that can be found by name.
func (b *bundles) names(ctx context.Context) []string {
	all := []string{libraryID}
	if b.root.root != "" {
		ids, _ := projectBundles(b.root.root)
		all = append(all, ids...)
	}
	if space, err := b.space(); err == nil {
		found, _ := b.installedAll(ctx, space)
		for _, i := range found {
			all = append(all, i.BundleID)
		}
	}
	kept, _ := b.storedLists(ctx)
	for _, l := range kept {
		all = append(all, l.BundleID)
	}
	firsts, _ := b.storedFirsts(ctx)
	for _, l := range firsts {
		all = append(all, l.ID)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// whole reads a bundle that isn't in an archive, with what has its files.
func (b *bundles) whole(ctx context.Context, l *located) error {
	if l.first != nil && l.read == nil {
		_, err := b.readFirst(ctx, l)
		return err
	}
	if l.read != nil || l.where != inProject {
		return nil
	}
	var err error
	if l.read, err = readManifest(l.dir, l.id); err != nil {
		if _, changed := errors.AsType[*sign.IntegrityError](err); changed {
			err = fmt.Errorf("the manifest of %q: %w", l.id, err)
		}
		return err
	}
	if l.read.BundleID != l.id {
		return &fault.Error{Code: fault.Integrity, Text: fmt.Sprintf("the manifest of %q is that of %q", l.id, l.read.BundleID)}
	}
	space, err := ai.OpenDir(l.dir, l.id, ai.Project)
	if err != nil {
		return err
	}
	b.opened = append(b.opened, space)
	l.has = blobsOf(space.FS, l.read, "")
	return nil
}

// completeBundles offers the ids of bundles.
func (a *app) completeBundles(ctx context.Context) (out []candidate) {
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	b, err := a.bundles()
	if err != nil {
		return nil
	}
	defer b.close()
	for _, name := range b.names(ctx) {
		out = append(out, candidate{name, "bundle"})
	}
	return out
}
