package source

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/snapshot"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest"
)

// This file makes a bundle of a plugin that has no manifest. Its manifest is what rye would write for it, without
// signatures: the policy admits it by its digest, which every machine computes from the same files.

// A plain is such a plugin in a source.
type plain struct {
	*bundle.Bundle
	tree    cas.Digest
	listing *plugin.Listing
	root    *os.Root
}

// close ends the use of the plugin's files.
func (p *plain) close() error { return p.root.Close() }

// plain returns the plugin of a source, read and hashed once; nil if the source has a manifest of the bundle, or no
// plugin.
func (s *Sources) plain(ctx context.Context, id string, src project.Source) (*plain, error) {
	_, ofGit := src.Git()
	_, image := src.OCI()
	_, registered := src.Registry()
	switch {
	case src.Index || image || registered || ofGit && s.o.Git == nil || src.Remote() && !ofGit && s.o.Fetch == nil:
		return nil, nil
	case s.archived(src):
		u, r, err := s.packed(ctx, src)
		if r != nil {
			err = errors.Join(err, r.Close())
		}
		if u == nil || err != nil {
			return nil, err
		}
		return u.plain, nil
	}
	open := s.pluginDirectory
	if ofGit {
		open = s.pluginCommit
	}
	root, err := open(ctx, id, src)
	if root == nil || err != nil {
		return nil, err
	}
	return s.plains.get(ctx, src.Where, func() (*plain, error) {
		at, err := root()
		if err != nil {
			return nil, err
		}
		p, err := readPlain(ctx, at)
		if err != nil {
			at.Close()
		}
		return p, err
	})
}

// pluginDirectory returns a function that opens the directory of a plugin without a manifest; nil if there is none.
func (s *Sources) pluginDirectory(_ context.Context, id string, src project.Source) (func() (*os.Root, error), error) {
	dir := s.path(src.Where)
	if is, err := isDir(dir); err != nil || !is {
		return nil, nil // reported by its reader
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	at, err := bundle.FindManifest(root.FS(), id)
	if err == nil {
		_, err = root.Lstat(at)
	}
	if !errors.Is(err, fs.ErrNotExist) || !plugin.Is(root.FS()) {
		return nil, nil
	}
	return func() (*os.Root, error) { return os.OpenRoot(dir) }, nil
}

// pluginCommit is pluginDirectory for a commit, whose files it writes into a directory.
func (s *Sources) pluginCommit(ctx context.Context, id string, src project.Source) (func() (*os.Root, error), error) {
	place, _ := src.Git()
	commit, err := s.commit(ctx, src, place)
	if err != nil {
		return nil, err
	}
	if _, _, err = manifestAt(ctx, commit, place, id); !errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if _, err := commit.Copy(ctx, io.Discard, path.Join(place.Dir, plugin.ManifestFile), maxManifest); err != nil {
		return nil, nil
	}
	return func() (*os.Root, error) {
		dir, err := commit.Temp()
		if err != nil {
			return nil, err
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		if err = commit.Unpack(ctx, place.Dir, root, func(name string) bool { return name == ".git" }); err != nil {
			root.Close()
			return nil, err
		}
		return root, nil
	}, nil
}

// readPlain reads a plugin in a directory and hashes its files.
func readPlain(ctx context.Context, root *os.Root) (*plain, error) {
	read, err := plugin.Read(rooted{root.FS(), root})
	if err != nil {
		return nil, err
	}
	if err := read.Rejected(); err != nil {
		return nil, err
	}
	p := &plain{listing: read.Listing, root: root}
	files := make([]manifest.File, len(read.Files))
	for i := range read.Files {
		f := &read.Files[i]
		if strings.HasPrefix(f.Path, plugin.Namespace+"/") {
			return nil, fault.New(fault.Unsigned, "the plugin %q has %q and no manifest", read.Manifest.Name, f.Path).
				On("reason", "namespace").On("file", f.Path).
				Because("files in " + plugin.Namespace + " belong to a signed plugin: its manifest is missing").
				Try("rye docs plugins")
		}
		files[i] = manifest.File{Path: f.Path, Size: f.Size, Mode: f.Mode()}
	}
	if err := p.each(ctx, files, func(ctx context.Context, i int, r io.Reader) error {
		h := cas.NewHasher()
		n, err := io.Copy(h, cas.Until(ctx, r))
		if err == nil && n != files[i].Size {
			err = changedFile(files[i].Path)
		}
		files[i].Digest = h.Digest()
		return err
	}); err != nil {
		return nil, err
	}
	if p.tree, err = install.Tree(ctx, files); err != nil {
		return nil, err
	}
	p.Bundle, err = manifestOf(read, p.tree, files)
	return p, err
}

// manifestOf returns the bundle of an unsigned plugin.
func manifestOf(p *plugin.Plugin, tree cas.Digest, files []manifest.File) (*bundle.Bundle, error) {
	m := &p.Manifest
	_, list, err := manifest.AppendFileList(nil, &manifest.FileList{
		BundleID: p.BundleID(), Version: p.UnsignedVersion(tree), Description: plugin.Visible(m.Description),
		License: plugin.Visible(m.License), Plugin: manifest.PluginVersion, Requires: m.Extension.Requires,
	}, files)
	if err != nil {
		return nil, err
	}
	return &bundle.Bundle{FileList: list, Files: files}, nil
}

// each opens the files of the plugin, several at once. Links lead where they led when the plugin was listed, or the
// digest differs.
func (p *plain) each(ctx context.Context, files []manifest.File,
	do func(ctx context.Context, i int, r io.Reader) error) error {
	return cas.Parallel(ctx, 0, len(files), func(ctx context.Context, i int) error {
		f, err := openRegular(p.root, files[i].Path)
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || info.Size() != files[i].Size {
			return cmp.Or(err, changedFile(files[i].Path))
		}
		return do(ctx, i, f)
	})
}

// rooted is the file system of a root in which nothing waits: a FIFO may take a file's place at any time.
type rooted struct {
	fs.FS
	root *os.Root
}

// Open implements fs.FS.
func (r rooted) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return openRegular(r.root, name)
}

// ReadDir implements fs.ReadDirFS.
func (r rooted) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(r.FS, name) }

// Stat implements fs.StatFS.
func (r rooted) Stat(name string) (fs.FileInfo, error) { return fs.Stat(r.FS, name) }

func openRegular(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|osfile.Nonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = changedFile(name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func changedFile(name string) error {
	return fault.New(fault.Conflict, "%q changed while it was read", name).On("file", name)
}

// put puts the files into a batch. One that differs from the manifest is an error.
func (p *plain) put(ctx context.Context, batch cas.Batch) error {
	return p.each(ctx, p.Files, func(ctx context.Context, i int, r io.Reader) error {
		f := &p.Files[i]
		_, err := batch.Put(ctx, cas.Blob, cas.Verify(cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: f.Digest},
			Size: f.Size}, io.NopCloser(cas.Until(ctx, r))))
		if _, damaged := errors.AsType[*cas.DamagedError](err); damaged {
			return changedFile(f.Path)
		}
		return err
	})
}

// unsigned brings a plugin without a manifest.
func (c *carrier) unsigned(ctx context.Context, p *plain) error {
	if err := c.fits(p.FileList); err != nil {
		return err
	}
	if _, err := c.verify.Admit(p.Bundle); err != nil {
		return Unadmitted(p.Bundle, err)
	}
	batch, err := c.o.Store.Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close() // after the bundle has its name: until then gc spares its objects
	if err := p.put(ctx, batch); err != nil {
		return err
	}
	if err := batch.Commit(ctx); err != nil {
		return err
	}
	for i := range p.Files {
		c.progress(p.Files[i].Size)
	}
	if err := c.verified(ctx, bundle.Given(p.Bundle, c.o.Store)); err != nil {
		return err
	}
	return c.name(ctx, p.Bundle)
}

// An Unsigned is a plugin without a manifest, and the bundle that it becomes. Close it after use: until then gc spares
// its files in the store.
type Unsigned struct {
	*bundle.Bundle
	Tree   cas.Digest
	Plugin *plugin.Plugin // read from the stored bytes
	Source project.Source // as a lock names it

	batch cas.Batch
}

// Close ends the use of the plugin.
func (u *Unsigned) Close() { u.batch.Close() }

// Now returns the unsigned plugin that a source has now, unread and not admitted; nil if it has something else.
func (s *Sources) Now(ctx context.Context, id string, src project.Source) (*bundle.Bundle, error) {
	src, err := s.pin(ctx, id, src)
	if err != nil {
		return nil, err
	}
	p, err := s.plain(ctx, id, src)
	switch _, image := src.OCI(); {
	case err != nil:
		return nil, err
	case p != nil:
		return p.Bundle, p.named(id)
	case !src.Remote() && !image:
		if _, err := isDir(s.path(src.Where)); err != nil { // nothing is no other plugin
			return nil, inSource(id, "", src.Where, err)
		}
	}
	return nil, nil
}

// Unsigned returns the unsigned plugin of a source, whose files it puts into the store; nil if the source has
// something else. Nothing is admitted.
func (s *Sources) Unsigned(ctx context.Context, id string, src project.Source) (*Unsigned, error) {
	src, err := s.pin(ctx, id, src)
	if err != nil {
		return nil, err
	}
	p, err := s.plain(ctx, id, src)
	if p == nil || err != nil {
		return nil, err
	}
	if err := p.named(id); err != nil {
		return nil, err
	}
	batch, err := s.o.Store.Batch(ctx)
	if err != nil {
		return nil, err
	}
	u := &Unsigned{Bundle: p.Bundle, Tree: p.tree, Source: src, batch: batch}
	if err = p.put(ctx, batch); err == nil {
		err = batch.Commit(ctx)
	}
	if err == nil {
		u.Plugin, err = p.listing.Read(snapshot.FS(ctx, s.o.Store, p.Files, "."))
	}
	if err == nil {
		err = u.Plugin.Rejected()
	}
	// plugin.json may have changed between its first reading and its digest.
	if err == nil && (u.Plugin.BundleID() != u.BundleID || u.Plugin.UnsignedVersion(u.Tree) != u.Version) {
		err = changedFile(plugin.ManifestFile)
	}
	if err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

// named refuses a plugin that was asked for by another id than the one that an unsigned plugin has.
func (p *plain) named(id string) error {
	if id == p.BundleID {
		return nil
	}
	return fault.New(fault.Unsigned, "the plugin is not signed, so its id is %q, not %q", p.BundleID, id).
		On("bundle", p.BundleID).On("reason", "id").
		Because("an id of its own counts only for a signed plugin").Try("rye docs plugins")
}

// An UnadmittedError is the error for an unsigned plugin that the policy doesn't admit by its digest.
type UnadmittedError struct {
	ID, Version string
	Manifest    cas.Digest
	Err         error
}

func (e *UnadmittedError) Error() string { return fault.Of(e.Fault()).Text }

// Unwrap returns the error of the policy.
func (e *UnadmittedError) Unwrap() error { return e.Err }

// Name is the name of the bundle in signatures.
func (e *UnadmittedError) Name() string { return "bundle:" + e.ID + "@" + e.Version }

// Fault implements the interface of package fault.
func (e *UnadmittedError) Fault() *fault.Error {
	return fault.New(fault.Unsigned, "the plugin %q is not signed, and your policy doesn't list its digest", e.ID).
		From(e).On("bundle", e.ID).On("version", e.Version).On("manifest", e.Manifest.String()).
		Because("version   "+e.Version, "manifest  "+e.Manifest.String()).
		Try("rye add "+fault.Quote(e.ID), e.Admit())
}

// Admit is the command that admits the plugin.
func (e *UnadmittedError) Admit() string {
	return fault.Command("rye trust add", e.Manifest.String(), "--as", e.Name())
}

// Unadmitted adds to the refusal of an unsigned plugin how to admit it.
func Unadmitted(b *bundle.Bundle, err error) error {
	no, ok := errors.AsType[*bundle.NotAdmittedError](err)
	if !ok || no.Decision.Code.Fault() != fault.Unsigned || b.Plugin == "" || len(b.Signatures) > 0 ||
		!plugin.IsUnsigned(b.BundleID, b.Version) {
		return err
	}
	return &UnadmittedError{ID: b.BundleID, Version: b.Version, Manifest: b.ID, Err: err}
}

// LeftOut lists what of a plugin isn't in its bundle, and its symbolic links.
func (u *Unsigned) LeftOut() (left, links []string) {
	for _, found := range u.Plugin.Problems {
		if found.Effect == plugin.Left {
			left = append(left, found.Path)
		}
	}
	for i := range u.Plugin.Files {
		if link := u.Plugin.Files[i].Link; link != "" && !slices.Contains(links, link) {
			links = append(links, link)
		}
	}
	return left, links
}
