package registry

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
)

// spool writes what arrives to a temporary file without a name, at most so many bytes.
func (r *Registry) spool(ctx context.Context, body io.Reader) (*os.File, cas.Digest, int64, error) {
	file, err := os.CreateTemp(r.o.TempDir, "arriving-")
	if err != nil {
		return nil, cas.Digest{}, 0, err
	}
	os.Remove(file.Name()) // where the system allows it
	hasher := cas.NewHasher()
	size, err := io.Copy(io.MultiWriter(file, hasher), io.LimitReader(cas.Until(ctx, body), r.o.Limits.Archive+1))
	if err == nil && size > r.o.Limits.Archive {
		err = fault.New(fault.Limit, "the archive has more than %d bytes", r.o.Limits.Archive).
			On("limit", r.o.Limits.Archive)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, cas.Digest{}, 0, err
	}
	return file, hasher.Digest(), size, nil
}

// stagedFile returns the name of a file that only owners see: no route and no mirror serves its directory.
func stagedFile(archive cas.Digest) string { return "staged/" + hexOf(archive) + ".tar.zst" }

// stored stores an archive, and then does what needs it. If that fails, the archive is removed again: otherwise
// refused requests would fill the disk. Another request may bring the same archive meanwhile. So each looks, once it
// has removed or not made the file, whether it must be there.
func (r *Registry) stored(ctx context.Context, name string, v *Version, file io.ReadSeeker,
	needed func(rows.Reader, cas.Digest) (bool, error), do func() error) error {
	made, err := r.store(ctx, name, v, file)
	if err != nil {
		return err
	}
	if err = do(); made == (err == nil) {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	stays := func() bool {
		must := false
		failed := r.o.Rows.View(ctx, func(in rows.Reader) (err error) {
			must, err = needed(in, v.Archive)
			return err
		})
		return must || failed != nil
	}
	var failed error
	if err != nil && !stays() {
		failed = r.o.Blobs.Remove(ctx, name)
	}
	if failed == nil && stays() {
		_, failed = r.store(ctx, name, v, file)
	}
	return cmp.Or(err, failed)
}

// released reports whether an archive is that of a version in a log which isn't unpublished.
func (l *log) released(in rows.Reader, archive cas.Digest) (bool, error) {
	row, err := get[archiveRow](in, l.archiveRow(hexOf(archive)))
	if err != nil || row == nil {
		return false, err
	}
	v, err := get[Version](in, l.versionRow(row.Version))
	return v != nil && v.Unpublished == 0, err
}

// isStaged reports whether an archive is one of a release that waits.
func (r *Registry) isStaged(in rows.Reader, archive cas.Digest) (found bool, err error) {
	err = each(in, "staged/", func(_ string, s *Staged) (bool, error) {
		found = s.waits(r.o.Now()) && slices.ContainsFunc(s.Versions, func(v *Version) bool {
			return v.Archive == archive
		})
		return !found, nil
	})
	return found, err
}

// store stores the bytes of an archive, and reports whether it has made the file: the same bytes may be there already,
// of a publish that was interrupted.
func (r *Registry) store(ctx context.Context, name string, v *Version, file io.ReadSeeker) (made bool, err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	err = r.o.Blobs.Create(ctx, name, file, v.Size)
	if fault.CodeOf(err) == fault.Conflict {
		return false, nil
	}
	return err == nil, err
}

// promoted copies staged archives to where the clients of a log read them, and then does what releases them. If that
// fails, they don't stay there. No index names them before.
func (r *Registry) promoted(ctx context.Context, to *log, versions []*Version, do func() error) error {
	if len(versions) == 0 {
		return do()
	}
	v, name := versions[0], to.dir+client.ArchiveFile(versions[0].Archive)
	rest := func() error { return r.promoted(ctx, to, versions[1:], do) }
	file, err := r.o.Blobs.Open(ctx, stagedFile(v.Archive))
	if errors.Is(err, fs.ErrNotExist) { // another approval may have released it meanwhile
		if file, err = r.o.Blobs.Open(ctx, name); err == nil {
			if err = file.Close(); err == nil {
				err = rest()
			}
			return err
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fault.New(fault.Conflict, "the archive of %s is gone: stage it again", v.Key()).From(err).
				On("bundle", v.Bundle).On("version", v.Version)
		}
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return r.stored(ctx, name, v, file, to.released, rest)
}

// forget removes archives that no longer wait.
func (r *Registry) forget(ctx context.Context, gone ...*Staged) error {
	needed := map[cas.Digest]bool{}
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		clear(needed)
		return each(in, "staged/", func(_ string, s *Staged) (bool, error) {
			for _, v := range s.Versions {
				needed[v.Archive] = needed[v.Archive] || s.waits(r.o.Now())
			}
			return true, nil
		})
	}); err != nil {
		return err
	}
	for _, s := range gone {
		for _, v := range s.Versions {
			if !needed[v.Archive] {
				if err := r.o.Blobs.Remove(ctx, stagedFile(v.Archive)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
