package source

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/lock/git"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest"
)

// pin returns a source as a lock names it: a repository at the current commit of its branch or tag, requested once;
// an image with its digest. A registry of many versions stays unchanged.
func (s *Sources) pin(ctx context.Context, id string, src project.Source) (project.Source, error) {
	if ref, image := src.OCI(); image && ref.Tag != "" {
		return s.pinImage(ctx, id, ref)
	}
	place, ofGit := src.Git()
	if !ofGit || place.Pinned() {
		return src, nil
	}
	if s.o.Git == nil {
		return src, &OfflineError{Address: src.Where, ID: id}
	}
	commit, err := s.tips.get(ctx, src.Where, func() (string, error) {
		return s.o.Git.Resolve(ctx, place.Address, place.Revision)
	})
	if err != nil {
		if ctx.Err() == nil {
			err = inSource("", "", src.Where, err)
		}
		return src, err
	}
	return place.At(commit), nil
}

// commit fetches a commit, once for all bundles that come from it.
func (s *Sources) commit(ctx context.Context, src project.Source, place project.Git) (*git.Commit, error) {
	return s.commits.get(ctx, src.Where, func() (*git.Commit, error) {
		return s.o.Git.Fetch(ctx, place.Address, place.Revision)
	})
}

// manifestAt reads the manifest of a bundle in a commit, and returns its text too.
func manifestAt(ctx context.Context, c *git.Commit, place project.Git, id string) (*bundle.Bundle, []byte, error) {
	at, err := bundle.ManifestPath(id)
	if err != nil {
		return nil, nil, err
	}
	var text bytes.Buffer
	_, err = c.Copy(ctx, &text, path.Join(place.Dir, at), maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		text.Reset()
		if _, plugin := c.Copy(ctx, &text, path.Join(place.Dir, bundle.PluginManifest), maxManifest); plugin == nil {
			at, err = bundle.PluginManifest, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	b, err := bundle.Read(bytes.NewReader(text.Bytes()))
	return b, text.Bytes(), inDocument(at, "bundle:"+id, err)
}

// repository brings the bundle from a commit. It writes the listed files into a directory that no other user can
// read, and continues as with the project in which the bundle was made. It writes nothing unless the manifest is the
// wanted one and the policy admits it.
func (c *carrier) repository(ctx context.Context, src project.Source, place project.Git) (err error) {
	commit, err := c.commit(ctx, src, place)
	if err != nil {
		return err
	}
	opened, text, err := manifestAt(ctx, commit, place, c.want.ID)
	if err != nil {
		return err
	}
	if err := c.fits(opened.FileList); err != nil {
		return err
	}
	if _, err := c.verify.Admit(opened); err != nil {
		return err
	}
	dir, err := commit.Temp()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	layout := opened.Layout()
	if err := writeFile(dir, layout.Manifest, func(f *os.File) (bool, error) {
		_, err := f.Write(text)
		return false, err
	}); err != nil {
		return err
	}
	files := opened.Files[:len(opened.Files):len(opened.Files)]
	for _, e := range opened.Evidence {
		files = append(files, manifest.File{Path: layout.Evidence(e.Name), Digest: e.Digest,
			Size: e.Size})
	}
	for i := range files {
		f := &files[i]
		if err := writeFile(dir, f.Path, func(to *os.File) (bool, error) {
			return commit.Copy(ctx, to, path.Join(place.Dir, f.Path), f.Size)
		}); err != nil {
			return err
		}
	}
	return c.directory(ctx, dir)
}

// writeFile writes a file below a directory.
func writeFile(dir, name string, fill func(*os.File) (exec bool, err error)) error {
	to := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	exec, err := fill(f)
	if err == nil && exec {
		err = f.Chmod(0o700)
	}
	return errors.Join(err, f.Close())
}
