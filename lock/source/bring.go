package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/manifest"
)

// Bring ensures that a bundle is in the store, complete and verified, and returns its manifest. If the store has it
// and the policy admits its manifest, Bring reads only the manifest. below are the spaces of the bundles that it
// requires, and the library. An invalid bundle is an *install.RefusedError; like an interrupted one, it leaves
// nothing findable in the store.
func (s *Sources) Bring(ctx context.Context, want file.Bundle, below []*ai.Space) (*bundle.Bundle, error) {
	c := carrier{Sources: s, want: want, verify: s.o.Verify}
	c.verify.Below = below
	bundle, err := c.bring(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if _, known := errors.AsType[*OfflineError](err); known {
			return nil, err
		}
		if about, ok := err.(*Error); ok { // the source as a whole
			err = about.Err
		}
		return nil, inSource(want.ID, want.Version, want.Source.Where, err)
	}
	return bundle, nil
}

// A carrier brings one bundle.
type carrier struct {
	*Sources
	want    file.Bundle
	verify  bundle.VerifyOptions
	missing []cas.ID // objects that the store lacks
}

func (c *carrier) bring(ctx context.Context) (*bundle.Bundle, error) {
	step := c.step(c.want.ID, c.want.Version, c.want.Source, c.want.Manifest)
	if err := c.check(c.want.Source, step); err != nil {
		return nil, err
	}
	opened, err := c.have(ctx)
	if opened == nil {
		if err = c.fetch(ctx, err); err != nil {
			return nil, err
		}
		opened, err = bundle.ReadStored(ctx, c.o.Store, c.o.Store, c.want.Manifest)
	}
	if err != nil {
		return nil, err
	}
	if err := c.fits(opened.FileList); err != nil {
		return nil, err
	}
	if remembered(c.want.Source) {
		if err := c.o.Journal.Record(ctx, step); err != nil {
			return nil, err
		}
	}
	url, listed := c.want.Source.Registry()
	if listed {
		return opened, c.keepProof(ctx, url)
	}
	if c.want.Source.Remote() && !c.want.Source.Index {
		err = c.keep(ctx, archiveRef(c.want.Source.Where), cas.ID{Kind: cas.Document, Digest: opened.ID})
	}
	return opened, err
}

// have returns the bundle if the store has it. Otherwise the error, if any, is the reason why the stored objects
// don't suffice.
func (c *carrier) have(ctx context.Context) (*bundle.Bundle, error) {
	opened, err := bundle.ReadStored(ctx, c.o.Store, c.o.Store, c.want.Manifest)
	if err != nil { // an unreadable bundle can be brought again
		c.missing = []cas.ID{{Kind: cas.Document, Digest: c.want.Manifest}}
		return nil, nil
	}
	if c.missing, err = c.o.Store.Missing(ctx, objects(opened)); err != nil || len(c.missing) > 0 {
		return nil, err
	}
	if _, err := c.verify.Admit(opened); err != nil {
		return nil, Unadmitted(opened, err) // the source may have more signatures
	}
	if id, err := c.o.Store.Ref(install.Ref(opened.ID)); err == nil && id.Digest == opened.ID {
		return opened, nil
	}
	// Its objects came one by one, so the whole bundle is not verified yet.
	if err := c.verified(ctx, bundle.Given(opened, c.o.Store)); err != nil {
		return nil, err
	}
	return opened, c.name(ctx, opened)
}

// objects returns the files of a bundle, and its evidence.
func objects(b *bundle.Bundle) []cas.ID {
	all := make([]cas.ID, 0, len(b.Files)+len(b.Evidence))
	for i := range b.Files {
		all = append(all, cas.ID{Kind: cas.Blob, Digest: b.Files[i].Digest})
	}
	for i := range b.Evidence {
		all = append(all, cas.ID{Kind: cas.Blob, Digest: b.Evidence[i].Digest})
	}
	return all
}

// verified verifies a complete bundle and its identity.
func (c *carrier) verified(ctx context.Context, src bundle.Source) error {
	r, err := bundle.Verify(ctx, src, c.verify)
	switch {
	case err != nil:
		return err
	case r.Bundle != nil && r.Bundle.ID != c.want.Manifest:
		return Mismatch("manifest", c.want.Manifest.String(), r.Bundle.ID.String())
	case !r.OK():
		return &install.RefusedError{Report: r}
	}
	return nil
}

// name gives a bundle its name in the store. Its files must be there.
func (c *carrier) name(ctx context.Context, b *bundle.Bundle) error {
	body, err := b.Body()
	if err != nil {
		return err
	}
	return install.Keep(ctx, c.o.Store, b, body, c.verify)
}

// fits checks that a manifest is the wanted one, and that it matches the index.
func (c *carrier) fits(list *manifest.FileList) error {
	for _, m := range [][3]string{
		{"id", c.want.ID, list.BundleID}, {"version", c.want.Version, list.Version},
		{"manifest", c.want.Manifest.String(), list.ID.String()},
	} {
		if m[1] != m[2] {
			return Mismatch(m[0], m[1], m[2])
		}
	}
	if url, ok := c.want.Source.Registry(); ok {
		return c.fitsRegistry(list, url)
	}
	if !c.want.Source.Index {
		return nil
	}
	// An index that was never admitted is ignored.
	for _, x := range c.indexes.found(func(where string) bool { return where == c.want.Source.Where }) {
		e := x.Find(list.BundleID, list.Version)
		if e == nil || e.Manifest != list.ID {
			continue
		}
		if said, is := requireTexts(requiresIn(e)), requireTexts(list.Requires); said != is {
			return Mismatch("requires", said, is)
		}
	}
	return nil
}

func requireTexts(all []manifest.Require) string {
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = fmt.Sprintf("%s %+q", r.BundleID, r.Version)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// requiresIn returns a bundle's requirements from its entry in an index.
func requiresIn(e *index.Entry) []manifest.Require {
	all := make([]manifest.Require, len(e.Requires))
	for i, r := range e.Requires {
		all[i] = manifest.Require{BundleID: r.ID, Version: r.Text}
	}
	return all
}

// fetch brings the bundle from its source. refused is the problem of a complete bundle in the store.
func (c *carrier) fetch(ctx context.Context, refused error) error {
	src := c.want.Source
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	place, ofGit := src.Git()
	ref, image := src.OCI()
	if src.Remote() && !ofGit && !image && c.o.Fetch == nil || ofGit && c.o.Git == nil || image && c.away(ref) {
		return c.offline(src.Where, refused)
	}
	if url, ok := src.Registry(); ok {
		return c.fromRegistry(ctx, url)
	}
	if c.archived(src) {
		u, r, err := c.packed(ctx, src)
		switch {
		case err != nil:
			return err
		case u != nil && u.plain == nil:
			return c.directory(ctx, u.dir)
		case u != nil:
			return c.unsigned(ctx, u.plain)
		}
		defer r.Close()
		return c.archive(ctx, r, c.place(src))
	}
	if p, err := c.plain(ctx, c.want.ID, src); p != nil || err != nil {
		if err == nil {
			err = c.unsigned(ctx, p)
		}
		return err
	}
	switch {
	case image:
		return c.imported(ctx, ref)
	case ofGit:
		return c.repository(ctx, src, place)
	case src.Index:
		return c.listed(ctx, refused)
	}
	if _, err := isDir(c.path(src.Where)); err != nil {
		return err
	}
	return c.directory(ctx, c.path(src.Where))
}

func (c *carrier) offline(address string, refused error) error {
	if refused != nil {
		return refused
	}
	return &OfflineError{Address: address, ID: c.want.ID, Version: c.want.Version, Missing: c.missing}
}

// listed brings the bundle from the address in the index.
func (c *carrier) listed(ctx context.Context, refused error) error {
	where := c.want.Source.Where
	x, err := c.index(ctx, where)
	if err != nil {
		return err
	}
	entry := x.Find(c.want.ID, c.want.Version)
	switch {
	case entry == nil:
		return notListed(c.want.ID, c.want.Version, []string{where}, nil)
	case entry.Manifest != c.want.Manifest:
		return Mismatch("manifest", c.want.Manifest.String(), entry.Manifest.String())
	}
	var body io.ReadCloser
	var at string
	if c.want.Source.Remote() || entry.Remote() {
		if at, err = entry.At(where); err != nil {
			return err
		}
		if c.o.Fetch == nil {
			return c.offline(at, refused)
		}
		body, _, err = c.o.Fetch.Get(ctx, at, entry.Size)
	} else {
		var space *ai.Space
		if space, err = ai.OpenDir(c.path(where), where, ai.Project); err != nil {
			return err
		}
		defer space.Close()
		at = filepath.Join(c.path(where), filepath.FromSlash(entry.Archive))
		body, err = space.FS.Open(entry.Archive)
	}
	if err != nil {
		return err
	}
	defer body.Close()
	return c.archive(ctx, &exactly{r: body, left: entry.Size, size: entry.Size}, at)
}

// An exactly is a reader of exactly that many bytes, with the end behind them.
type exactly struct {
	r          io.Reader
	left, size int64
}

func (e *exactly) Read(b []byte) (int, error) {
	if int64(len(b)) > e.left+1 {
		b = b[:e.left+1]
	}
	n, err := e.r.Read(b)
	e.left -= int64(n)
	switch {
	case e.left < 0:
		return 0, wrongSize(e.size, e.size+1)
	case err == io.EOF && e.left > 0:
		return n, wrongSize(e.size, e.size-e.left)
	}
	return n, err
}

// archive brings the bundle from an archive, after its head has shown that it is the wanted one.
func (c *carrier) archive(ctx context.Context, r io.Reader, place string) error {
	h, all, err := readHead(ctx, &counted{r, c.progress})
	if err != nil {
		return err
	}
	if err := c.fits(h.List); err != nil {
		return err
	}
	_, err = install.Import(ctx, c.o.Store, all, c.verify)
	return c.claimed(ctx, err, place, h.List.Signatures)
}

// A counted reader reports how many bytes were read.
type counted struct {
	r    io.Reader
	tell func(int64)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.tell(int64(n))
	return n, err
}

// directory brings the bundle from the project that it was made in, or from a copy. It verifies all files there and
// then stores them by the verified digests, so concurrent changes are harmless.
func (c *carrier) directory(ctx context.Context, dir string) error {
	opened, err := readManifest(dir, c.want.ID)
	if err != nil {
		return err
	}
	if err := c.fits(opened.FileList); err != nil {
		return err
	}
	o := c.verify
	c.verify.AllowExtra = true // a project has other files too; they aren't copied
	err = c.verified(ctx, bundle.InDir(dir, c.want.ID))
	c.verify = o
	if err != nil {
		return err
	}
	batch, err := c.o.Store.Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close() // after the bundle has its name: until then gc spares its objects
	if err := c.put(ctx, batch, dir, opened); err != nil {
		return err
	}
	if err := batch.Commit(ctx); err != nil {
		return err
	}
	return c.name(ctx, opened)
}

func (c *carrier) put(ctx context.Context, batch cas.Batch, dir string, opened *bundle.Bundle) error {
	space, err := ai.OpenDir(dir, c.want.ID, ai.Project)
	if err != nil {
		return err
	}
	defer space.Close()
	all := opened.Files[:len(opened.Files):len(opened.Files)]
	for _, e := range opened.Evidence {
		all = append(all, manifest.File{Path: opened.Layout().Evidence(e.Name), Digest: e.Digest,
			Size: e.Size})
	}
	for i := range all {
		f, err := space.FS.Open(all[i].Path)
		if err != nil {
			return err
		}
		_, err = batch.Put(ctx, cas.Blob, cas.Verify(cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: all[i].Digest},
			Size: all[i].Size}, f))
		f.Close()
		if err != nil {
			return fmt.Errorf("%+q: %w", all[i].Path, err)
		}
		c.progress(all[i].Size)
	}
	return nil
}
