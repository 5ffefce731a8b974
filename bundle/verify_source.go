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

// A Source is where a bundle is: see InDir, InArchive, InStore and Given.
type Source interface {
	look(ctx context.Context, o *VerifyOptions, use func(*look) error) error
}

// A look is a bundle that is being looked at, wherever it is. Its functions may be called by many goroutines.
type look struct {
	bundle   *Bundle // nil if there is no manifest that can be read
	failures []*Failure
	// getter has the bytes of items, of the files beside them and of evidence, under the digests of the manifest, and
	// hashes what it hands out.
	getter cas.Getter
	// check looks at one file as it is there; read says that its bytes came through the getter, and from this file if
	// it is the only one with its digest.
	check func(ctx context.Context, f *manifest.File, read bool) *Failure
	// each calls do once for each file of the manifest; read says that its bytes were read and are right. Nil: in no
	// order.
	each func(ctx context.Context, do func(i int, read bool) error) error
	// scripts has the lines that begin with "#!" by path; nil where the getter has all files.
	scripts map[string]string
	// extra reports files that the manifest doesn't list, and returns those that no bundle ever holds. Nil: none is
	// possible.
	extra func(ctx context.Context, kinds []*model.Kind, fail func(*Failure)) (never []string, err error)
}

// MaxManifest is larger than any manifest with its signatures.
const MaxManifest = manifest.MaxListBytes + 1<<20

// InStore is a bundle in a store: its files as blobs, its manifest as a document, and its signatures as those say.
func InStore(store cas.Getter, refs Refs, id cas.Digest) Source { return inStore{store, refs, id} }

// A Refs says what a name stands for in a store; fs.ErrNotExist if nothing.
type Refs interface {
	Ref(name string) (cas.ID, error)
}

type inStore struct {
	store cas.Getter
	refs  Refs
	id    cas.Digest
}

// SignaturesRef is the ref of the blob that has the signature lines of a document.
func SignaturesRef(id cas.Digest) string { return "signatures/" + id.String()[len("blake3:"):] }

// ReadStored reads a manifest from a store, and its signatures, if it has any.
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

// ReadSignatures reads the signatures that a store has of a document: none if there are none.
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
	text, err := io.ReadAll(io.LimitReader(o, 1<<20)) // which is more than 16 lines have
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

// Given is a bundle whose manifest was read already, and whose files are blobs in a store.
func Given(b *Bundle, store cas.Getter) Source { return given{b, store, nil} }

// Fresh is Given for a store into which this process has just put some of the blobs: it has hashed those, and doesn't
// read them again, except for items.
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

// each reads files in the order that is cheapest for the store. It leaves to check what is wrong with those that it
// can't read.
func (s given) each(ctx context.Context, do func(i int, read bool) error) error {
	files := s.bundle.Files
	done := make([]bool, len(files))
	var ids []cas.ID
	var places []int // in files
	for i := range files {
		if !s.fresh[files[i].Digest] {
			ids, places = append(ids, cas.ID{Kind: cas.Blob, Digest: files[i].Digest}), append(places, i)
		}
	}
	var failed atomic.Pointer[error] // by do
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

// check reads a file to its end, if it hasn't been.
func (s given) check(ctx context.Context, f *manifest.File, read bool) *Failure {
	if read {
		return nil
	}
	o, err := s.store.Get(ctx, cas.ID{Kind: cas.Blob, Digest: f.Digest})
	if err == nil {
		defer o.Close()
		if o.Size != f.Size {
			return &Failure{Check: CheckSize, Expected: fmt.Sprint(f.Size), Found: fmt.Sprint(o.Size)}
		}
		_, err = io.Copy(io.Discard, cas.Until(ctx, o))
	}
	return damage(f.Digest, err)
}

// damage says what is wrong with what a getter handed out.
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

// InDir is a bundle whose files stand in a directory, its manifest below .ai/bundles there.
func InDir(dir, id string) Source { return inDir{dir, id} }

type inDir struct{ dir, id string }

func (d inDir) look(ctx context.Context, _ *VerifyOptions, use func(*look) error) error {
	at, err := ManifestPath(d.id)
	if err != nil {
		return err
	}
	// What opens spaces follows no link, whatever another process puts in the place of a directory meanwhile.
	space, err := ai.OpenDir(d.dir, d.id, ai.Project)
	if err != nil {
		return err
	}
	defer space.Close()
	s := &dirLook{fs: space.FS, in: foldersOf(space), home: path.Dir(at), modes: runtime.GOOS != "windows"}
	defer s.in.Close()
	l := &look{getter: s, check: s.check, extra: s.extra}
	f, err := s.fs.Open(at)
	if err != nil {
		return err
	}
	l.bundle, err = Read(io.LimitReader(f, MaxManifest))
	if closing := f.Close(); err == nil {
		err = closing
	}
	switch {
	case err != nil:
		l.bundle, l.failures = nil, []*Failure{{Check: CheckManifest, Path: at, Err: err}}
	case l.bundle.BundleID != d.id:
		l.failures = []*Failure{{Check: CheckManifest, Path: at, Expected: d.id, Found: l.bundle.BundleID}}
	}
	s.index(l.bundle)
	return use(l)
}
