package source

import (
	"context"
	"errors"
	"io/fs"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/remote"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/resolve"
	"github.com/rye-build/rye/manifest/rollback"
)

// registry opens the repository or the layout of a reference, once.
func (s *Sources) registry(ctx context.Context, ref oci.Reference) (*oci.Place, error) {
	return s.places.get(ctx, ref.Repository(), func() (*oci.Place, error) {
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
				return s.needs(ctx, id, version, ref)
			}})
	}
	if len(all) == 0 {
		return nil, inSource(id, "", ref.String(), fault.New(fault.NotFound, "%s has no tag that is a version",
			ref).From(fs.ErrNotExist).
			On("source", ref.String()).List(tags...).Try("rye docs oci"))
	}
	return all, nil
}

// needs reads the requirements of a version by its tag. The policy needn't admit it: the resolver also asks about
// versions that it doesn't select in the end, such as the locked one, whose key may have been replaced since. Manifest
// and Bring refuse a selected version that isn't admitted.
func (s *Sources) needs(ctx context.Context, id, version string, ref oci.Reference) (map[string]semver.Range, error) {
	ref.Tag = remote.Tag(version)
	src, err := s.pinImage(ctx, id, ref)
	if err != nil {
		return nil, err
	}
	b, err := s.readHead(ctx, id, src)
	var requires []index.Require
	switch {
	case err != nil:
	case b.BundleID != id:
		err = Mismatch("id", id, b.BundleID)
	case b.Version != version:
		err = Mismatch("version", version, b.Version)
	default:
		requires, err = requiresOf(b)
	}
	if err != nil {
		if _, known := errors.AsType[*OfflineError](err); !known && ctx.Err() == nil {
			err = inSource(id, version, src.Where, err)
		}
		return nil, err
	}
	return candidate(version, requires).Requires, nil
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

// byName records in the journal a tag that isn't a version: its version must never go back.
func (s *Sources) byName(ctx context.Context, src project.Source, bundle *bundle.Bundle) error {
	ref, ok := src.OCI()
	if !ok || ref.Tag == "" || ref.Tag == remote.Tag(bundle.Version) {
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
		err = remote.CheckTag(place, ref.Tag, bundle)
	}
	if err != nil {
		return err
	}
	from := s.imagePlace(ref, "") + ":" + ref.Tag
	return s.o.Journal.Record(ctx, rollback.OfFileList(bundle.FileList, from, true, s.o.Now()))
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
		Now: c.o.Now, Proof: c.logs().Take})
	return err
}
