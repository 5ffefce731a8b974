package main

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
	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/manifest"
)

// bundleGroup is what "rye bundle" alone shows.
func bundleGroup() command {
	return command{
		path: "bundle", group: "bundles", help: "Put items together, and bring them to others.",
		aka: []string{"bundles", "package", "packages"},
		more: "A bundle is a signed list of files. bundle.yaml says what belongs to it, rye bundle create signs the list and puts it in " +
			".ai/bundles/ID/manifest.yaml, which is committed, and export makes one file of all of it. Whoever gets one verifies it by a " +
			"policy, or by the keys of its makers.\n\n" +
			"A BUNDLE is an id (acme/deploy: of the project, installed, or kept in the store), ID@VERSION or a digest (blake3:…) of one in " +
			"the store, a directory or manifest.yaml of a project, or an archive; \"-\" is an archive on standard input, and rye/std is the " +
			"library in the binary.\n\nExamples:\n\n    rye bundle create\n    rye bundle verify acme/deploy\n    rye bundle export acme/deploy\n" +
			"    rye bundle verify acme-deploy-1.4.0.tar.zst --signer release.pem\n    rye bundle install acme-deploy-1.4.0.tar.zst",
	}
}

// libraryID is the bundle that the binary carries.
const libraryID = "rye/std"

// librarySpace is the space of the library.
func librarySpace() *ai.Space {
	return &ai.Space{Label: stdLabel, Level: ai.System, FS: std.FS(), Builtin: true}
}

// bundles is what one command sees of bundles: the project's, the user's, and the store, which is opened when it is
// needed.
type bundles struct {
	app    *app
	root   project     // zero outside of projects
	open   *disk.Store // nil until it is needed
	opened []io.Closer // archives and directories
}

// bundles begins to look for bundles.
func (a *app) bundles() (*bundles, error) {
	root, err := a.project()
	if err != nil && !errors.Is(err, errNoProject) {
		return nil, err
	}
	return &bundles{app: a, root: root}, nil
}

func (b *bundles) close() {
	for _, c := range b.opened {
		c.Close()
	}
	if b.open != nil {
		b.open.Close()
	}
}

// store opens the store, to write in it too if it is to be made where there is none.
func (b *bundles) store(write bool) (*disk.Store, error) {
	if b.open != nil {
		return b.open, nil
	}
	open := func() (*disk.Store, error) { return b.app.readStore() }
	if write {
		open = func() (*disk.Store, error) { return b.app.makeStore() }
	}
	s, err := open()
	if err == nil {
		b.open = s
	}
	return s, err
}

// space is the user's. Without a store it can be read.
func (b *bundles) space() (*install.Space, error) {
	s := userSpace(b.app.userBase())
	if s.err != nil {
		return nil, s.err
	}
	state := b.app.dir(statePlace)
	if state.err != nil {
		return nil, state.err
	}
	space := &install.Space{Dir: s.value, Journal: b.app.lists().journal(), Now: b.app.now}
	if b.open != nil {
		space.Store = b.open
	}
	return space, nil
}

// Where a bundle was found.
const (
	inProject = "project"
	inUser    = "installed"
	inStore   = "store"
	inArchive = "archive"
	inBinary  = "binary"
)

// A located bundle is one that was found.
type located struct {
	where string
	place string         // for people
	id    string         // "" in an archive
	dir   string         // of a project
	first fs.FS          // the files of a bundle of the first format; nil for one of today
	file  io.Reader      // of an archive
	read  *bundle.Bundle // nil in a project and in an archive, until it is needed
	has   cas.Getter     // its files; nil in an archive
}

// size is how many bytes the files of a bundle have; 0 where nobody has read that.
func (l *located) size() int64 {
	if l.read == nil {
		return 0
	}
	return l.read.Bytes
}

// installed reads what is installed under an id; nil if nothing is.
func (b *bundles) installed(id string) (*install.Installed, error) {
	space, err := b.space()
	if err != nil {
		return nil, nil // no home, nothing installed
	}
	at, err := space.Get(id)
	if _, none := errors.AsType[*install.NotInstalledError](err); none {
		return nil, nil
	}
	if bad, ok := errors.AsType[*install.ManifestError](err); ok && b.firstOfUser(bad) {
		return nil, nil
	}
	return at, err
}

// below are the spaces that the items of a bundle may use: the library, and of the bundles that it requires those that
// the project's lock has, or else that are installed, in a version that will do.
func (b *bundles) below(ctx context.Context, id string, requires []manifest.Require) ([]*ai.Space, error) {
	all := []*ai.Space{librarySpace()}
	for _, r := range requires {
		if locked, err := b.lockedBelow(ctx, id, r); err != nil {
			return nil, err
		} else if locked != nil {
			all = append(all, locked...)
			continue
		}
		at, err := b.installed(r.BundleID)
		if err != nil {
			return nil, err
		}
		allowed, err := semver.Parse(r.Version)
		switch {
		case err != nil:
			return nil, err
		case at == nil:
			b.app.term.warn("%q, which %q requires, is not installed", r.BundleID, id)
			continue
		case !allowed.Contains(at.Version):
			b.app.term.warn("%q requires %q %s, and %s is installed", id, r.BundleID, r.Version, at.Version)
			continue
		}
		if _, err := b.store(false); err != nil {
			return nil, err
		}
		space, err := b.space()
		if err != nil {
			return nil, err
		}
		s, err := space.Open(ctx, r.BundleID)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// projectLock is the project's lock; nil where there is none that can be read.
func (b *bundles) projectLock() *locking {
	if b.root.root == "" {
		return nil
	}
	l := &locking{app: b.app, dir: b.root.root, dotAI: b.root.dotAI(), found: b}
	if err := l.readLock(false); err != nil || l.old == nil {
		return nil
	}
	return l
}

// lockedBelow are the spaces of a bundle that the project's lock has, and of all that it needs; nil if it has none in a
// version that will do.
func (b *bundles) lockedBelow(ctx context.Context, id string, r manifest.Require) (spaces []*ai.Space, err error) {
	l := b.projectLock()
	if l == nil || l.old.Bundle(r.BundleID) == nil {
		return nil, nil
	}
	allowed, err := semver.Parse(r.Version)
	if err != nil {
		return nil, err
	}
	if at := l.old.Bundle(r.BundleID).Version; !allowed.Contains(at) {
		b.app.term.warn("%q requires %q %s, and %s is locked", id, r.BundleID, r.Version, at)
		return nil, nil
	}
	objects, err := l.objects()
	if err != nil {
		return nil, err
	}
	if l.vendor != nil {
		b.opened = append(b.opened, l.vendor)
	}
	seen := map[string]bool{}
	var add func(id string) error
	add = func(id string) error {
		line := l.old.Bundle(id)
		if seen[id] || line == nil {
			return nil
		}
		seen[id] = true
		read, err := bundle.ReadStored(ctx, objects, objects, line.Manifest)
		if errors.Is(err, fs.ErrNotExist) {
			return &lock.MissingError{ID: cas.ID{Kind: cas.Document, Digest: line.Manifest}, NeededBy: "bundle:" + id + "@" + line.Version}
		}
		if err != nil {
			return err
		}
		spaces = append(spaces, lock.BundleSpace(ctx, objects, read))
		for _, need := range read.Requires {
			if err := add(need.BundleID); err != nil {
				return err
			}
		}
		return nil
	}
	err = add(r.BundleID)
	return spaces, err
}

// source is what looks at a bundle, with the spaces that its items may use.
func (b *bundles) source(ctx context.Context, l *located, p *progress) (bundle.Source, []*ai.Space, error) {
	id, requires, err := b.requires(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	below, err := b.below(ctx, id, requires)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case l.first != nil:
		return bundle.Given(l.read, l.has), below, nil
	case l.where == inProject:
		return bundle.InDir(l.dir, l.id), below, nil
	case l.where == inArchive:
		return bundle.InArchive(p.counted(l.file)), below, nil
	}
	return bundle.Given(l.read, l.has), below, nil
}

// requires reads which bundles a bundle needs, if it can be read; that it can't is for others to report.
func (b *bundles) requires(ctx context.Context, l *located) (id string, all []manifest.Require, err error) {
	switch {
	case l.read != nil:
		return l.read.BundleID, l.read.Requires, nil
	case l.where == inProject:
		if read, err := readManifest(l.dir, l.id); err == nil {
			return read.BundleID, read.Requires, nil
		}
	case l.where == inArchive:
		file, ok := l.file.(io.ReadSeeker)
		if !ok {
			return "", nil, nil // standard input comes once
		}
		var h headOnly
		archive.Read(ctx, file, &h)
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return "", nil, err
		}
		if h.list != nil {
			return h.list.BundleID, h.list.Requires, nil
		}
	}
	return "", nil, nil
}

// A headOnly reads an archive as far as its manifest.
type headOnly struct{ list *manifest.FileList }

var errEnough = errors.New("the head is enough")

func (h *headOnly) Begin(head *archive.Head) error {
	h.list = head.List
	return errEnough
}

func (h *headOnly) File(archive.Entry, io.Reader) error { return errEnough }

// readManifest reads the manifest of a project's bundle.
func readManifest(dir, id string) (*bundle.Bundle, error) {
	at, err := bundle.ManifestPath(id)
	if err != nil {
		return nil, err
	}
	f, err := openRegular(filepath.Join(dir, filepath.FromSlash(at)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bundle.Read(io.LimitReader(f, maxBundleManifest))
}

// maxBundleManifest is more than a manifest with its signatures has.
const maxBundleManifest = manifest.MaxListBytes + 1<<20

// projectBundles are the ids of the bundles of a project, sorted.
func projectBundles(dir string) (ids []string, err error) {
	root := filepath.Join(dir, markerDir, "bundles")
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.Type().IsRegular() && path.Base(name) == bundleManifest && path.Dir(name) != ".":
			if id := path.Dir(name); validBundleID(id) {
				ids = append(ids, id)
			}
		}
		return nil
	})
	slices.Sort(ids)
	return ids, err
}

const bundleManifest = "manifest.yaml"

func validBundleID(id string) bool {
	_, err := bundle.ManifestPath(id)
	return err == nil
}

// contentBlobs are files under their digests, as a manifest has them.
type contentBlobs struct {
	fs fs.FS
	at map[cas.Digest]manifest.File
}

// blobsOf takes the files of a list from below a directory; evidence stands beside the manifest.
func blobsOf(fsys fs.FS, b *bundle.Bundle, prefix string) *contentBlobs {
	c := &contentBlobs{fsys, make(map[cas.Digest]manifest.File, len(b.Files))}
	for _, f := range b.Files {
		f.Path = strings.TrimPrefix(f.Path, prefix)
		c.at[f.Digest] = f
	}
	home, _ := bundle.ManifestPath(b.BundleID)
	for _, e := range b.Evidence {
		c.at[e.Digest] = manifest.File{Path: path.Join(path.Dir(home), e.Name), Size: e.Size}
	}
	return c
}

// Get implements cas.Getter.
func (c *contentBlobs) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	f, ok := c.at[id.Digest]
	if !ok || id.Kind != cas.Blob {
		return cas.Object{}, absentBlob(id)
	}
	r, err := c.fs.Open(f.Path)
	if err != nil {
		return cas.Object{}, err
	}
	return cas.Verify(cas.Info{ID: id, Size: f.Size}, r), nil
}

// absentBlob says that a bundle has no such bytes.
func absentBlob(id cas.ID) error { return &cas.MissingError{ID: id, Err: fs.ErrNotExist} }
