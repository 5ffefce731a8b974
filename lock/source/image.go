package source

import (
	"context"
	"io/fs"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/remote"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/resolve"
	"github.com/rye-build/rye/manifest/rollback"
)

// registry opens the repository or the layout of a reference, once.
func (s *Sources) registry(ctx context.Context, ref oci.Reference) (*oci.Place, error) {
	return s.registries.get(ctx, ref.Repository(), func() (*oci.Place, error) {
		o := s.o.OCI
		o.Progress = s.o.Progress
		if ref.Dir != "" {
			o.Dir = s.path(ref.Dir)
		}
		return oci.Open(ref, o)
	})
}

// away reports whether a reference is unavailable: it is in a registry, and rye is offline.
func (s *Sources) away(ref oci.Reference) bool { return ref.Dir == "" && s.o.OCI.Transport == nil }

// manyImages returns the repository of a source that has many versions, each under a tag.
func manyImages(src project.Source) (oci.Reference, bool) {
	ref, image := src.OCI()
	return ref, image && ref.Tag == "" && ref.Digest == ""
}

// pinImage returns a source as a lock names it: with the current digest of its tag, requested once.
func (s *Sources) pinImage(ctx context.Context, id string, ref oci.Reference) (project.Source, error) {
	src := project.Source{Where: ref.String()}
	if ref.Digest != "" {
		return src, nil
	}
	if s.away(ref) {
		return src, &OfflineError{Address: src.Where, ID: id}
	}
	digest, err := s.tips.get(ctx, src.Where, func() (string, error) {
		place, err := s.registry(ctx, ref)
		if err != nil {
			return "", err
		}
		m, err := place.Look(ctx, ref.Tag)
		if err != nil {
			return "", err
		}
		return m.Digest, nil
	})
	if err != nil {
		if ctx.Err() == nil {
			err = inSource(id, "", src.Where, err)
		}
		return src, err
	}
	return project.Source{Where: ref.Pinned(digest).String()}, nil
}

// image reads the manifest of a bundle by its digest, once, with its signatures.
func (s *Sources) image(ctx context.Context, ref oci.Reference) (*remote.Remote, error) {
	return s.images.get(ctx, ref.String(), func() (*remote.Remote, error) {
		place, err := s.registry(ctx, ref)
		if err != nil {
			return nil, err
		}
		return remote.Open(ctx, place, ref.Digest, s.o.Verify)
	})
}

// imagePlace returns the text of a repository, with the digest if it isn't empty; a layout has its path.
func (s *Sources) imagePlace(ref oci.Reference, digest string) string {
	ref.Tag, ref.Digest = "", digest
	if ref.Dir != "" {
		ref.Dir = s.path(ref.Dir)
	}
	return ref.String()
}

// tagged returns the versions of a repository: the tags that are versions. The requirements of a version are read
// when the resolver asks for them.
func (s *Sources) tagged(ctx context.Context, id string, ref oci.Reference) ([]resolve.Candidate, error) {
	if s.away(ref) {
		return nil, &OfflineError{Address: ref.String(), ID: id}
	}
	tags, err := s.tags.get(ctx, ref.Repository(), func() ([]string, error) {
		place, err := s.registry(ctx, ref)
		if err != nil {
			return nil, err
		}
		return place.Tags(ctx)
	})
	if err != nil {
		if ctx.Err() == nil {
			err = inSource(id, "", ref.String(), err)
		}
		return nil, err
	}
	var all []resolve.Candidate
	for _, tag := range tags {
		version, ok := remote.Version(tag)
		if !ok {
			continue
		}
		all = append(all, resolve.Candidate{Version: version,
			Ask: func(ctx context.Context) (map[string]semver.Range, error) {
				_, b, err := s.version(ctx, id, version, ref)
				if err != nil {
					return nil, err
				}
				needs, err := requiresOf(b)
				if err != nil {
					return nil, inSource(id, version, ref.String(), err)
				}
				return candidate(version, needs).Requires, nil
			}})
	}
	if len(all) == 0 {
		return nil, inSource(id, "", ref.String(), fault.New(fault.NotFound, "%s has no tag that is a version",
			ref).From(fs.ErrNotExist).
			On("source", ref.String()).List(tags...).Try("rye docs oci"))
	}
	return all, nil
}

// version reads the manifest of a version by its tag.
func (s *Sources) version(ctx context.Context, id, version string, ref oci.Reference) (project.Source, *bundle.Bundle,
	error) {
	ref.Tag = remote.Tag(version)
	src, err := s.pinImage(ctx, id, ref)
	if err != nil {
		return src, nil, err
	}
	b, err := s.head(ctx, id, src)
	if err == nil && b.Version != version {
		err = inSource(id, version, src.Where, Mismatch("version", version, b.Version))
	}
	return src, b, err
}

// Named returns the id of the bundle in an image; without a tag, the newest version counts.
func (s *Sources) Named(ctx context.Context, src project.Source) (string, error) {
	ref, _ := src.OCI()
	if s.away(ref) {
		return "", &OfflineError{Address: src.Where, ID: src.Where}
	}
	if ref.Tag == "" && ref.Digest == "" {
		place, err := s.registry(ctx, ref)
		if err != nil {
			return "", err
		}
		if ref.Tag, err = remote.Newest(ctx, place); err != nil {
			return "", err
		}
	}
	at, err := s.pinImage(ctx, "", ref)
	if err != nil {
		return "", err
	}
	pinned, _ := at.OCI()
	r, err := s.image(ctx, pinned)
	if err != nil {
		return "", err
	}
	return r.BundleID, nil
}

// byName records in the journal a tag that isn't a version: its version must never go back.
func (s *Sources) byName(ctx context.Context, src project.Source, b *bundle.Bundle) error {
	ref, ok := src.OCI()
	if !ok || ref.Tag == "" || ref.Tag == remote.Tag(b.Version) {
		return nil
	}
	asked := ref
	asked.Digest = ""
	pinned := s.tips.found(func(where string) bool { return where == asked.String() })
	if len(pinned) == 0 || pinned[0] != ref.Digest { // the tag was not requested
		return nil
	}
	place, err := s.registry(ctx, ref)
	if err == nil {
		err = remote.CheckTag(place, ref.Tag, b)
	}
	if err != nil {
		return err
	}
	from := s.imagePlace(ref, "") + ":" + ref.Tag
	return s.o.Journal.Record(ctx, rollback.OfFileList(b.FileList, from, true, s.o.Now()))
}

// imported brings the bundle from a registry or a layout.
func (c *carrier) imported(ctx context.Context, ref oci.Reference) error {
	r, err := c.image(ctx, ref)
	if err != nil {
		return err
	}
	if err := c.fits(r.FileList); err != nil {
		return err
	}
	_, err = r.Take(ctx, "", remote.Pull{Store: c.o.Store, Spool: c.o.Spool, Verify: c.verify, Journal: c.o.Journal,
		Now: c.o.Now})
	return err
}
