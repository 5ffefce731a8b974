package source

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/remote"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest"
)

// Named returns the id of the one bundle in a source that isn't an index: an image, an archive or a directory.
func (s *Sources) Named(ctx context.Context, src project.Source) (string, error) {
	if ref, image := src.OCI(); image {
		return s.imageID(ctx, src, ref)
	}
	if _, repository := src.Git(); repository {
		return s.repositoryID(ctx, src)
	}
	if !src.Remote() {
		dir, err := isDir(s.path(src.Where))
		if err != nil {
			return "", inSource("", "", src.Where, err)
		}
		if dir {
			return directoryID(src.Where, s.path(src.Where))
		}
	} else if s.o.Fetch == nil {
		return "", &OfflineError{Address: src.Where, ID: src.Where}
	}
	u, r, err := s.packed(ctx, src)
	switch {
	case err != nil:
		return "", inSource("", "", src.Where, err)
	case u != nil && u.plain == nil:
		return directoryID(src.Where, u.dir)
	case u != nil:
		return u.plain.BundleID, nil
	}
	defer r.Close()
	head, _, err := readHead(ctx, r)
	if err != nil {
		return "", inSource("", "", src.Where, err)
	}
	return head.List.BundleID, nil
}

// directoryID returns the id of the one bundle in a directory, which is that of a source or of its unpacked archive.
func directoryID(where, dir string) (string, error) {
	ids, err := find.InProjectIDs(dir)
	switch {
	case err != nil:
		return "", inSource("", "", where, err)
	case len(ids) == 0 && plugin.Is(os.DirFS(dir)):
		return pluginID(dir)
	case len(ids) == 0:
		return "", fault.New(fault.NotFound, "%q has no bundle: .ai/bundles is empty", where).
			Try("rye -C " + fault.Quote(where) + " bundle create")
	case len(ids) > 1:
		return "", unnamed(where, "it has the bundles "+strings.Join(ids, ", "), ids...)
	}
	return ids[0], nil
}

// pluginID returns the id of the plugin in a directory, whose manifest is missing or can't be read.
func pluginID(dir string) (string, error) {
	p, done, err := find.ReadPlugin(dir)
	if err != nil {
		return "", err
	}
	defer done()
	return p.BundleID(), p.Rejected()
}

// repositoryID returns the id of the plugin in a repository.
func (s *Sources) repositoryID(ctx context.Context, src project.Source) (string, error) {
	at, err := s.pin(ctx, "", src)
	if err != nil {
		return "", err
	}
	place, _ := at.Git()
	commit, err := s.commit(ctx, at, place)
	if err != nil {
		return "", inSource("", "", src.Where, err)
	}
	var text bytes.Buffer
	if _, err := commit.Copy(ctx, &text, path.Join(place.Dir, bundle.PluginManifest), maxManifest); err == nil {
		list, err := manifest.ReadFileListHead(&text)
		if err != nil {
			return "", inSource("", "", src.Where, err)
		}
		return list.BundleID, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", inSource("", "", src.Where, err)
	}
	p, err := s.plain(ctx, "plugins/any", at)
	switch {
	case err != nil:
		return "", inSource("", "", src.Where, err)
	case p == nil:
		return "", unnamed(src.Where, "a repository can hold several bundles")
	}
	return p.BundleID, nil
}

// unnamed returns the error for a source that may have more than one bundle.
func unnamed(where, why string, ids ...string) error {
	if len(ids) == 0 {
		ids = []string{"ID"}
	}
	failure := fault.New(fault.Ambiguous, "%q doesn't name one bundle: %s", where, why)
	for _, id := range ids[:min(len(ids), fault.MaxLines)] {
		failure = failure.Try(fault.Command("rye add", id) + " --from " + fault.Quote(where))
	}
	return failure
}

// imageID returns the id of the bundle in an image; without a tag, the newest version counts.
func (s *Sources) imageID(ctx context.Context, src project.Source, ref oci.Reference) (string, error) {
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
