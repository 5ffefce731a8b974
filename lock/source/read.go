package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/rollback"
)

// maxManifest is larger than any manifest with its signatures.
const maxManifest = manifest.MaxListBytes + 1<<20

var errNotRegular = errors.New("neither a directory nor a file")

// index reads an index, once.
func (s *Sources) index(ctx context.Context, where string) (*index.Index, error) {
	return s.indexes.get(ctx, where, func() (*index.Index, error) {
		x, err := s.readIndex(ctx, where)
		if err != nil {
			if _, known := errors.AsType[*OfflineError](err); !known {
				err = inSource("", "", where, err)
			}
			return nil, err
		}
		return x, nil
	})
}

func (s *Sources) readIndex(ctx context.Context, where string) (*index.Index, error) {
	src := project.Source{Index: true, Where: where}
	text, err := s.indexText(ctx, src)
	if err != nil {
		return nil, err
	}
	parsed, err := index.Parse(text)
	if err != nil {
		if parsed != nil {
			err = inDocument(index.File, parsed.Name, err)
		}
		return nil, err
	}
	if err := s.admitIndex(parsed); err != nil {
		return nil, inDocument(index.File, parsed.Name, s.claimed(ctx, err, s.place(src), parsed.Signatures))
	}
	if err := s.rememberIndex(ctx, src, parsed); err != nil {
		return nil, err
	}
	if src.Remote() && s.o.Fetch != nil {
		return parsed, s.keepIndex(ctx, where, text, parsed)
	}
	return parsed, nil
}

func (s *Sources) indexText(ctx context.Context, src project.Source) ([]byte, error) {
	switch {
	case !src.Remote():
		space, err := ai.OpenDir(s.path(src.Where), src.Where, ai.Project)
		if err != nil {
			return nil, err
		}
		defer space.Close()
		f, err := space.FS.Open(index.File)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, index.MaxBytes+1)) // one more than is read as an index
	case s.o.Fetch == nil:
		return s.keptIndex(ctx, src.Where)
	}
	r, _, err := s.o.Fetch.Get(ctx, src.Where, index.MaxBytes)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// admitIndex checks an index's signatures against the policy, and its expiry.
func (s *Sources) admitIndex(x *index.Index) error {
	if s.o.Verify.Trust == nil {
		return bundle.ErrNoTrust
	}
	e, err := s.o.Verify.Trust.ExamineDocument(&x.Document, x.Expires, policy.ToUse)
	if err == nil && !e.Decision.Allowed {
		err = &bundle.NotAdmittedError{Name: x.Name, Decision: e.Decision}
	}
	return err
}

// rememberIndex records an index's issue in the journal, which refuses an older one.
func (s *Sources) rememberIndex(ctx context.Context, src project.Source, x *index.Index) error {
	step := rollback.Step{Source: s.place(src), Name: x.Name, Position: strconv.FormatInt(x.Counter, 10), ID: x.ID,
		ByName: true, At: s.o.Now()}
	// Another list of the same signers would start its own count.
	all, err := s.o.Journal.Seen()
	if err != nil {
		return err
	}
	for _, seen := range all {
		if seen.Source == step.Source && seen.Name != step.Name && strings.HasPrefix(seen.Name, "index:") {
			return renamed(seen.Name, step.Name)
		}
	}
	return s.o.Journal.Record(ctx, step)
}

// indexRef and archiveRef return the refs for the kept content of an address.
func indexRef(address string) string   { return "indexes/" + hex(address) }
func archiveRef(address string) string { return "archives/" + hex(address) }

func hex(address string) string {
	return strings.TrimPrefix(cas.Sum([]byte(address)).String(), "blake3:")
}

// keepIndex keeps an index for offline use.
func (s *Sources) keepIndex(ctx context.Context, address string, text []byte, index *index.Index) error {
	body, lines, err := manifest.Split(text)
	if err != nil {
		return err
	}
	batch, err := s.o.Store.Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close() // after the refs are set: until then gc spares its objects
	if _, err := batch.PutBytes(ctx, cas.Document, body); err != nil {
		return err
	}
	signatures, err := batch.PutBytes(ctx, cas.Blob, lines.Append(nil))
	if err != nil {
		return err
	}
	if err := batch.Commit(ctx); err != nil {
		return err
	}
	if err := s.keep(ctx, bundle.SignaturesRef(index.ID), cas.ID{Kind: cas.Blob, Digest: signatures}); err != nil {
		return err
	}
	last, err := s.o.Store.Ref(indexRef(address))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.keep(ctx, indexRef(address), cas.ID{Kind: cas.Document, Digest: index.ID}); err != nil ||
		last.Digest.IsZero() || last.Digest == index.ID {
		return err
	}
	// Otherwise each issue would leave its signatures behind.
	return s.forget(ctx, bundle.SignaturesRef(last.Digest))
}

func (s *Sources) forget(ctx context.Context, ref string) error {
	id, err := s.o.Store.Ref(ref)
	if err == nil {
		err = s.o.Store.SetRef(ctx, ref, id, cas.ID{})
	}
	if _, other := errors.AsType[*disk.ConflictError](err); other || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// keep points a ref to an object. A process that changes it at the same time has seen the source no earlier.
func (s *Sources) keep(ctx context.Context, ref string, id cas.ID) error {
	old, err := s.o.Store.Ref(ref)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || old == id {
		return err
	}
	err = s.o.Store.SetRef(ctx, ref, old, id)
	if _, other := errors.AsType[*disk.ConflictError](err); other {
		return nil
	}
	return err
}

// keptIndex returns the kept index of an address.
func (s *Sources) keptIndex(ctx context.Context, address string) ([]byte, error) {
	id, err := s.o.Store.Ref(indexRef(address))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &OfflineError{Address: address}
	}
	if err != nil {
		return nil, err
	}
	o, err := s.o.Store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	body, err := io.ReadAll(o)
	if err != nil {
		return nil, err
	}
	lines, err := bundle.ReadSignatures(ctx, s.o.Store, s.o.Store, id.Digest)
	if err != nil {
		return nil, err
	}
	return manifest.Join(nil, body, lines), nil
}

// head reads the manifest of a bundle that has a source of its own, once. The policy must admit it.
func (s *Sources) head(ctx context.Context, id string, src project.Source) (*bundle.Bundle, error) {
	return s.heads.get(ctx, headKey{id, src.Where}, func() (*bundle.Bundle, error) {
		ref, image := src.OCI()
		bundle, err := s.readHead(ctx, id, src)
		if missing := err; errors.Is(missing, fs.ErrNotExist) && !s.archived(src) {
			if p, bad := s.plain(ctx, id, src); bad != nil {
				err = bad
			} else if p != nil {
				bundle, err = p.Bundle, p.named(id)
			}
		}
		if err == nil && bundle.BundleID != id {
			err = Mismatch("id", id, bundle.BundleID)
		}
		if err == nil {
			if _, err = s.o.Verify.Admit(bundle); !image {
				err = s.claimed(ctx, err, s.place(src), bundle.Signatures)
			} else if r, bad := s.image(ctx, ref); bad == nil && !s.away(ref) {
				err = r.Claim(err)
			}
			err = Unadmitted(bundle, err)
		}
		if err != nil {
			if _, known := errors.AsType[*OfflineError](err); !known {
				err = inSource(id, "", src.Where, err)
			}
			return nil, err
		}
		return bundle, nil
	})
}

func (s *Sources) readHead(ctx context.Context, id string, src project.Source) (*bundle.Bundle, error) {
	place, ofGit := src.Git()
	ref, image := src.OCI()
	switch {
	case image && !s.away(ref):
		r, err := s.image(ctx, ref)
		if err != nil {
			return nil, err
		}
		return r.Bundle, nil
	case ofGit && s.o.Git != nil:
		c, err := s.commit(ctx, src, place)
		if err != nil {
			return nil, err
		}
		b, _, err := manifestAt(ctx, c, place, id)
		return b, err
	case !src.Remote():
		dir, err := isDir(s.path(src.Where))
		if err != nil {
			return nil, err
		}
		if dir {
			return readManifest(s.path(src.Where), id)
		}
	case s.o.Fetch == nil || ofGit || image:
		at, err := s.o.Store.Ref(archiveRef(src.Where))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &OfflineError{Address: src.Where, ID: id}
		}
		if err != nil {
			return nil, err
		}
		return bundle.ReadStored(ctx, s.o.Store, s.o.Store, at.Digest)
	}
	u, r, err := s.packed(ctx, src)
	switch {
	case err != nil:
		return nil, err
	case u != nil && u.plain == nil:
		return readManifest(u.dir, id)
	case u != nil:
		return u.plain.Bundle, u.plain.named(id)
	}
	defer r.Close()
	h, _, err := readHead(ctx, r)
	if err != nil {
		return nil, err
	}
	return &bundle.Bundle{FileList: h.List, Files: h.Files}, nil
}

// open opens an archive that is a source of its own, and returns its size (-1: unknown).
func (s *Sources) open(ctx context.Context, src project.Source) (io.ReadCloser, int64, error) {
	if src.Remote() {
		return s.o.Fetch.Get(ctx, src.Where, index.MaxArchive)
	}
	f, err := osfile.OpenRegular(s.path(src.Where))
	if err != nil {
		return nil, -1, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, -1, err
	}
	return f, info.Size(), nil
}

// isDir reports whether a path is a directory. It refuses anything but directories and files: opening a FIFO would
// wait for a writer.
func isDir(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return false, fmt.Errorf("%+q is %w", path, errNotRegular)
	}
	return info.IsDir(), nil
}

// readManifest reads the manifest of a bundle in a directory.
func readManifest(dir, id string) (*bundle.Bundle, error) {
	space, err := ai.OpenDir(dir, id, ai.Project)
	if err != nil {
		return nil, err
	}
	defer space.Close()
	at, err := bundle.FindManifest(space.FS, id)
	if err != nil {
		return nil, err
	}
	f, err := space.FS.Open(at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := bundle.Read(io.LimitReader(f, maxManifest))
	return b, inDocument(at, "bundle:"+id, err)
}

// readHead reads an archive up to its manifest, and returns a reader of the whole archive.
func readHead(ctx context.Context, r io.Reader) (*archive.Head, io.Reader, error) {
	var read bytes.Buffer
	h, err := archive.ReadHead(ctx, io.TeeReader(r, &read))
	return h, io.MultiReader(&read, r), err
}
