package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"sync/atomic"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// A Source is a place of a bundle: see InDir, InArchive, InStore and Given.
type Source interface {
	look(ctx context.Context, o *VerifyOptions, use func(*look) error) error
}

// A look gives access to a bundle in any place. Its functions must be safe for concurrent use.
type look struct {
	bundle   *Bundle // nil without a readable manifest
	failures []*Failure
	// getter returns items, their other files and evidence by the digests of the manifest, and hashes what it
	// returns.
	getter cas.Getter
	// check checks one file in its place; read means that its bytes came through the getter, and from this file if no
	// other has its digest.
	check func(ctx context.Context, f *manifest.File, read bool) *Failure
	// each calls do once for each file of the manifest; read means that its bytes were read and match. Nil: in any
	// order.
	each func(ctx context.Context, do func(i int, read bool) error) error
	// scripts are the lines that begin with "#!" by path; nil where the getter has all files.
	scripts map[string]string
	// extra reports files that the manifest doesn't list, and returns those that no bundle contains. Nil if a source
	// can't have extra files.
	extra func(ctx context.Context, kinds []*model.Kind, fail func(*Failure)) (never []string, err error)
}

// MaxManifest is larger than any manifest with its signatures.
const MaxManifest = manifest.MaxListBytes + 1<<20

// InStore is a bundle in a store: its files are blobs, its manifest is a document, and refs name its signatures.
func InStore(store cas.Getter, refs Refs, id cas.Digest) Source { return inStore{store, refs, id} }

// A Refs resolves names in a store; the error of a missing name is fs.ErrNotExist.
type Refs interface {
	Ref(name string) (cas.ID, error)
}

type inStore struct {
	store cas.Getter
	refs  Refs
	id    cas.Digest
}

// SignaturesRef is the ref of the blob with the signature lines of a document.
func SignaturesRef(id cas.Digest) string { return "signatures/" + id.String()[len("blake3:"):] }

// ReadStored reads a manifest and its signatures, if it has any, from a store.
func ReadStored(ctx context.Context, store cas.Getter, refs Refs, id cas.Digest) (*Bundle, error) {
	o, err := store.Get(ctx, cas.ID{Kind: cas.Document, Digest: id})
	if err != nil {
		return nil, err
	}
	defer o.Close()
	b, err := Read(o)
	if err != nil {
		return nil, err
	}
	if len(b.Signatures) > 0 {
		return nil, fmt.Errorf("%s: the stored document contains signature lines", o.ID)
	}
	b.Signatures, err = ReadSignatures(ctx, store, refs, id)
	return b, err
}

// ReadSignatures reads the signatures that a store has for a document; none if it has none.
func ReadSignatures(ctx context.Context, store cas.Getter, refs Refs, id cas.Digest) (manifest.Signatures, error) {
	at, err := refs.Ref(SignaturesRef(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o, err := store.Get(ctx, at)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	text, err := io.ReadAll(io.LimitReader(o, 1<<20)) // more than 16 lines need
	if err != nil {
		return nil, err
	}
	return manifest.ParseSignatures(text, id)
}

func (s inStore) look(ctx context.Context, o *VerifyOptions, use func(*look) error) error {
	b, err := ReadStored(ctx, s.store, s.refs, s.id)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		return use(&look{failures: []*Failure{{Check: CheckManifest, Err: err}}})
	}
	return given{b, s.store, nil}.look(ctx, o, use)
}

// Given is a bundle with a parsed manifest and with its files as blobs in a store.
func Given(b *Bundle, store cas.Getter) Source { return given{b, store, nil} }

// Fresh is Given for a store into which this process has just put the blobs in fresh. They were hashed then, so they
// aren't read again, except for items.
func Fresh(b *Bundle, store cas.Getter, fresh map[cas.Digest]bool) Source {
	return given{b, store, fresh}
}

type given struct {
	bundle *Bundle
	store  cas.Getter
	fresh  map[cas.Digest]bool
}

func (s given) look(_ context.Context, _ *VerifyOptions, use func(*look) error) error {
	return use(&look{bundle: s.bundle, getter: s.store, check: s.check, each: s.each})
}

// each reads files in the order that is cheapest for the store. Files that it can't read are left to check.
func (s given) each(ctx context.Context, do func(i int, read bool) error) error {
	files := s.bundle.Files
	done := make([]bool, len(files))
	var ids []cas.ID
	var places []int // indexes in files
	for i := range files {
		if !s.fresh[files[i].Digest] {
			ids, places = append(ids, cas.ID{Kind: cas.Blob, Digest: files[i].Digest}), append(places, i)
		}
	}
	var failed atomic.Pointer[error] // from do
	again := func(i int, read bool) error {
		done[i] = true
		err := do(i, read)
		if err != nil {
			failed.Store(&err)
		}
		return err
	}
	cas.Fetch(ctx, s.store, ids, func(n int, o cas.Object) error {
		if o.Size != files[places[n]].Size {
			return nil
		}
		if _, err := io.Copy(io.Discard, cas.Until(ctx, o)); err != nil {
			return nil
		}
		return again(places[n], true)
	})
	if err := failed.Load(); err != nil {
		return *err
	}
	return cas.Parallel(ctx, 0, len(files), func(_ context.Context, i int) error {
		if done[i] {
			return nil
		}
		return again(i, s.fresh[files[i].Digest])
	})
}

// check reads a file to its end, unless it was read.
func (s given) check(ctx context.Context, file *manifest.File, read bool) *Failure {
	if read {
		return nil
	}
	o, err := s.store.Get(ctx, cas.ID{Kind: cas.Blob, Digest: file.Digest})
	if err == nil {
		defer o.Close()
		if o.Size != file.Size {
			return &Failure{Check: CheckSize, Expected: fmt.Sprint(file.Size), Found: fmt.Sprint(o.Size)}
		}
		_, err = io.Copy(io.Discard, cas.Until(ctx, o))
	}
	return damage(file.Digest, err)
}

// damage returns the failure for an object that the getter couldn't return intact.
func damage(want cas.Digest, err error) *Failure {
	switch bad, ok := errors.AsType[*cas.DamagedError](err); {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &Failure{Check: CheckMissing, Expected: want.String(), Err: err}
	case ok && !bad.Found.IsZero():
		return &Failure{Check: CheckDigest, Expected: want.String(), Found: bad.Found.String()}
	}
	return &Failure{Check: CheckRead, Err: err}
}

// InDir is a bundle in a directory, with its manifest where FindManifest finds it.
func InDir(dir, id string) Source { return inDir{dir, id} }

type inDir struct{ dir, id string }

func (d inDir) look(ctx context.Context, _ *VerifyOptions, use func(*look) error) error {
	// Spaces follow no links, even if another process replaces a directory meanwhile.
	space, err := ai.OpenDir(d.dir, d.id, ai.Project)
	if err != nil {
		return err
	}
	defer space.Close()
	at, err := FindManifest(space.FS, d.id)
	if err != nil {
		return err
	}
	dirLook := &dirLook{fs: space.FS, in: foldersOf(space), home: path.Dir(at), modes: runtime.GOOS != "windows"}
	defer dirLook.in.Close()
	look := &look{getter: dirLook, check: dirLook.check, extra: dirLook.extra}
	f, err := dirLook.fs.Open(at)
	if err != nil {
		return err
	}
	look.bundle, err = Read(io.LimitReader(f, MaxManifest))
	if closing := f.Close(); err == nil {
		err = closing
	}
	switch {
	case err != nil:
		look.bundle, look.failures = nil, []*Failure{{Check: CheckManifest, Path: at, Err: err}}
	case look.bundle.BundleID != d.id:
		look.failures = []*Failure{{Check: CheckManifest, Path: at, Expected: d.id, Found: look.bundle.BundleID}}
	}
	dirLook.index(look.bundle)
	return use(look)
}
