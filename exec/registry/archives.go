package registry

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

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

// store stores the bytes of an archive. The same bytes may be there already, of a publish that was interrupted.
func (r *Registry) store(ctx context.Context, name string, v *Version, file io.ReadSeeker) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	err := r.o.Blobs.Create(ctx, name, file, v.Size)
	if fault.CodeOf(err) == fault.Conflict {
		return nil
	}
	return err
}

// promote copies a staged archive to where clients read it. No index names it yet.
func (r *Registry) promote(ctx context.Context, v *Version) error {
	file, err := r.o.Blobs.Open(ctx, stagedFile(v.Archive))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another approval has released it meanwhile
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return r.store(ctx, client.ArchiveFile(v.Archive), v, file)
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
