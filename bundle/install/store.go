package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest"
)

// A Store stores bundles, as *disk.Store does.
type Store interface {
	cas.Store
	cas.Batcher
	bundle.Refs
	SetRef(ctx context.Context, name string, old, id cas.ID) error
}

// A RefusedError reports why a bundle failed verification.
type RefusedError struct{ Report *bundle.Report }

func (e *RefusedError) Error() string {
	all := e.Report.Failures
	if len(all) == 1 {
		return "invalid bundle: " + all[0].Error()
	}
	return fmt.Sprintf("invalid bundle: %v (and %d more)", all[0], len(all)-1)
}

// Fault returns e as an error that lists the failures.
func (e *RefusedError) Fault() *fault.Error { return e.Report.Fault().From(e) }

// Unwrap returns the failures.
func (e *RefusedError) Unwrap() []error {
	var all []error
	for _, f := range e.Report.Failures {
		all = append(all, f)
	}
	return all
}

// Import imports a bundle from an archive into a store. The bundle gets its refs only after the whole of it was
// verified; a *RefusedError reports an invalid bundle. Bundles without a trusted signature are refused after reading
// the manifest alone.
func Import(ctx context.Context, store Store, r io.Reader, verifyOptions bundle.VerifyOptions) (*bundle.Report,
	error) {
	batch, err := store.Batch(ctx)
	if err != nil {
		return nil, err
	}
	defer batch.Close()
	head, err := archive.Read(ctx, r, &importer{ctx: ctx, batch: batch, options: &verifyOptions})
	if err != nil {
		return nil, err
	}
	if err := batch.Commit(ctx); err != nil {
		return nil, err
	}
	// The batch is still open, so gc doesn't remove its objects.
	b := &bundle.Bundle{FileList: head.List, Files: head.Files}
	report, err := verified(ctx, b, store, verifyOptions)
	if err != nil {
		return report, err
	}
	return report, Keep(ctx, store, b, head.Body, verifyOptions)
}

func verified(ctx context.Context, b *bundle.Bundle, store Store, o bundle.VerifyOptions) (*bundle.Report, error) {
	report, err := bundle.Verify(ctx, bundle.Given(b, store), o)
	if err == nil && !report.OK() {
		err = &RefusedError{report}
	}
	return report, err
}

// An importer puts the files of an archive into a batch.
type importer struct {
	ctx     context.Context
	batch   cas.Batch
	options *bundle.VerifyOptions
	buf     bytes.Buffer
}

// Begin implements archive.Sink.
func (m *importer) Begin(h *archive.Head) error {
	_, err := m.options.Admit(&bundle.Bundle{FileList: h.List, Files: h.Files})
	return err
}

// wholeFile is the size up to which files are read before they are put.
const wholeFile = 256 << 10

// File implements archive.Sink.
func (m *importer) File(e archive.Entry, r io.Reader) (err error) {
	if e.Size > wholeFile {
		_, err = m.batch.Put(m.ctx, cas.Blob, r)
	} else {
		m.buf.Reset()
		if _, err = m.buf.ReadFrom(r); err == nil {
			_, err = m.batch.PutBytes(m.ctx, cas.Blob, m.buf.Bytes())
		}
	}
	if _, ours := errors.AsType[*archive.Error](err); err != nil && !ours {
		return fmt.Errorf("%+q: %w", e.Path, err)
	}
	return err
}

// hex returns the part of a ref that names a manifest.
func hex(id cas.Digest) string { return strings.TrimPrefix(id.String(), "blake3:") }

// Ref returns the ref of a bundle's document.
func Ref(id cas.Digest) string { return "bundles/" + hex(id) }

// Keep sets the refs of a bundle whose files are in the store, and adds its signatures to the known ones. It verifies
// nothing. body is the manifest without signature lines.
func Keep(ctx context.Context, store Store, b *bundle.Bundle, body []byte, o bundle.VerifyOptions) error {
	if err := KeepSignatures(ctx, store, b, o); err != nil {
		return err
	}
	return keep(ctx, store, Ref(b.ID), b, body, cas.Digest{})
}

// KeepMade is Keep for a bundle of a directory that the store has as tree, with no other files: it reuses that tree.
func KeepMade(ctx context.Context, store Store, b *bundle.Bundle, body []byte, tree cas.Digest,
	o bundle.VerifyOptions) error {
	if err := KeepSignatures(ctx, store, b, o); err != nil {
		return err
	}
	return keep(ctx, store, Ref(b.ID), b, body, tree)
}

// V1Ref returns the ref of a v1 manifest.
func V1Ref(id cas.Digest) string { return "bundles-v1/" + hex(id) }

// KeepV1 sets the refs of a v1 bundle whose files are in the store. body is its manifest without the signature line
// and has the digest id. files are sorted and include the manifest as in a project. It verifies nothing.
func KeepV1(ctx context.Context, store Store, id cas.Digest, body []byte, files []manifest.File) error {
	b := &bundle.Bundle{FileList: &manifest.FileList{Document: manifest.Document{ID: id}}, Files: files}
	return keep(ctx, store, V1Ref(id), b, body, cas.Digest{})
}

// keep sets the refs of a bundle, the document's last. files is the tree of its files, or zero.
func keep(ctx context.Context, store Store, name string, bundle *bundle.Bundle, body []byte, files cas.Digest) error {
	batch, err := store.Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close() // after the refs are set: until then gc keeps its objects
	missing, err := batch.Missing(ctx, []cas.ID{{Kind: cas.Document, Digest: bundle.ID},
		{Kind: cas.TreeKind, Digest: files}})
	if err != nil {
		return err
	}
	lacks := func(id cas.ID) bool { return slices.Contains(missing, id) }
	if lacks(cas.ID{Kind: cas.Document, Digest: bundle.ID}) {
		document, err := batch.PutBytes(ctx, cas.Document, body)
		if err != nil {
			return err
		}
		if document != bundle.ID {
			return fmt.Errorf("the manifest of %s is %s", bundle.ID, document)
		}
	}
	if lacks(cas.ID{Kind: cas.TreeKind, Digest: files}) {
		if files, err = PutTree(ctx, batch, bundle.Files); err != nil {
			return err
		}
	}
	var evidence []manifest.File
	for _, e := range bundle.Evidence {
		evidence = append(evidence, manifest.File{Path: e.Name, Digest: e.Digest, Size: e.Size, Mode: cas.File})
	}
	proofs, err := PutTree(ctx, batch, evidence)
	if err != nil {
		return err
	}
	if err := batch.Commit(ctx); err != nil {
		return err
	}
	if err := putRef(ctx, store, name+"/files", cas.ID{Kind: cas.TreeKind, Digest: files}); err != nil {
		return err
	}
	if len(evidence) > 0 {
		if err := putRef(ctx, store, name+"/evidence", cas.ID{Kind: cas.TreeKind, Digest: proofs}); err != nil {
			return err
		}
	}
	return putRef(ctx, store, name, cas.ID{Kind: cas.Document, Digest: bundle.ID})
}

// PutTree puts the trees of files, which are sorted by path, and returns the root.
func PutTree(ctx context.Context, batch cas.Batch, files []manifest.File) (cas.Digest, error) {
	root, _, err := putDirectory(ctx, batch, files, 0)
	return root, err
}

// Tree returns the digest of the tree of files, which are sorted by path.
func Tree(ctx context.Context, files []manifest.File) (cas.Digest, error) {
	batch, err := new(cas.Memory).Batch(ctx)
	if err != nil {
		return cas.Digest{}, err
	}
	defer batch.Close()
	return PutTree(ctx, batch, files)
}

// putDirectory puts the tree of one directory, whose files share the first from bytes of their paths, and returns how
// many of files it contains. Paths have at most 1,000 bytes, which bounds the depth.
func putDirectory(ctx context.Context, batch cas.Batch, files []manifest.File, from int) (cas.Digest, int, error) {
	var entries []cas.Entry
	i := 0
	for i < len(files) && (from == 0 || len(files[i].Path) > from && files[i].Path[:from] == files[0].Path[:from]) {
		f := &files[i]
		name, _, deeper := strings.Cut(f.Path[from:], "/")
		if !deeper {
			entries = append(entries, cas.Entry{Name: name, Mode: f.Mode, Digest: f.Digest, Size: f.Size})
			i++
			continue
		}
		d, n, err := putDirectory(ctx, batch, files[i:], from+len(name)+1)
		if err != nil {
			return cas.Digest{}, 0, err
		}
		entries = append(entries, cas.Entry{Name: name, Mode: cas.Dir, Digest: d})
		i += n
	}
	// Lists of paths sort "a.b" before "a/b", trees sort it after "a".
	slices.SortFunc(entries, func(a, b cas.Entry) int { return strings.Compare(a.Name, b.Name) })
	tree, err := cas.AppendTree(nil, entries)
	if err != nil {
		return cas.Digest{}, 0, err
	}
	d, err := batch.PutBytes(ctx, cas.TreeKind, tree)
	return d, i, err
}

// tries is how often to retry setting a ref that other processes change.
const tries = 100

// putRef sets a ref to an object, whatever it was before.
func putRef(ctx context.Context, store Store, name string, id cas.ID) error {
	return change(ctx, store, name, func(cas.ID) (cas.ID, error) { return id, nil })
}

// change sets a ref to the result of next, which gets the old value.
func change(ctx context.Context, store Store, name string, next func(old cas.ID) (cas.ID, error)) error {
	for range tries {
		old, err := store.Ref(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		id, err := next(old)
		if err != nil || id == (cas.ID{}) && old == id {
			return err
		}
		err = store.SetRef(ctx, name, old, id)
		if _, conflict := errors.AsType[*disk.ConflictError](err); !conflict {
			return err
		}
	}
	return fault.Wrap(osfile.Busy(name, 0), "the ref %q is in use: it changes again and again", name)
}

// KeepSignatures adds the signatures of a bundle to those in the store. It ignores unreadable ones there.
func KeepSignatures(ctx context.Context, store Store, b *bundle.Bundle, o bundle.VerifyOptions) error {
	return change(ctx, store, bundle.SignaturesRef(b.ID), func(old cas.ID) (cas.ID, error) {
		have, err := bundle.ReadSignatures(ctx, store, store, b.ID)
		if ctx.Err() != nil {
			return cas.ID{}, context.Cause(ctx)
		}
		if err != nil {
			have = nil
		}
		doc := b.Document
		if err := doc.Merge(o.Find, b.Signatures, have); err != nil {
			return cas.ID{}, err
		}
		if len(doc.Signatures) == 0 {
			return old, nil
		}
		info, err := store.Put(ctx, cas.Blob, bytes.NewReader(doc.Signatures.Append(nil)))
		return info.ID, err
	})
}
