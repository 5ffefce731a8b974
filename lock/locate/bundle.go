package locate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

// Where a bundle was found.
const (
	InProject = "project"
	InUser    = "installed"
	InStore   = "store"
	InArchive = "archive"
	InBinary  = "binary"
)

// StandardInput is the place of an archive that is read from there.
const StandardInput = "standard input"

// A Bundle is a bundle that was found.
type Bundle struct {
	Where string
	Place string         // for people
	ID    string         // "" in an archive
	Dir   string         // of a project
	V1    fs.FS          // the files of a v1 bundle; nil for one of v2
	File  io.Reader      // of an archive
	Read  *bundle.Bundle // nil in a project and in an archive before Load
	Has   cas.Getter     // its files; nil in an archive

	w *workspace.Workspace
}

// Archive is a bundle in an archive that a caller has opened.
func Archive(place string, file io.Reader) *Bundle {
	return &Bundle{Where: InArchive, Place: place, File: file}
}

// Size is the total size of a bundle's files, 0 if it is unknown.
func (b *Bundle) Size() int64 {
	if b.Read == nil {
		return 0
	}
	return b.Read.Bytes
}

// Source returns what reads a bundle, and the spaces that its items may use. An archive is read through counted.
func (b *Bundle) Source(ctx context.Context, counted func(io.Reader) io.Reader) (bundle.Source, []*ai.Space, error) {
	id, requires, err := b.Requires(ctx)
	if err != nil {
		return nil, nil, err
	}
	below, err := b.w.Below(ctx, id, requires)
	switch {
	case err != nil:
		return nil, nil, err
	case b.V1 == nil && b.Where == InProject:
		return bundle.InDir(b.Dir, b.ID), below, nil
	case b.Where == InArchive:
		return bundle.InArchive(counted(b.File)), below, nil
	}
	return bundle.Given(b.Read, b.Has), below, nil
}

// Requires returns the id of a bundle and the bundles that it needs. A bundle that can't be read has none: its reader
// reports why.
func (b *Bundle) Requires(ctx context.Context) (id string, all []manifest.Require, err error) {
	switch {
	case b.Read != nil:
		return b.Read.BundleID, b.Read.Requires, nil
	case b.Where == InProject:
		if read, err := workspace.ReadManifest(b.Dir, b.ID); err == nil {
			return read.BundleID, read.Requires, nil
		}
	case b.Where == InArchive:
		file, ok := b.File.(io.ReadSeeker)
		if !ok {
			return "", nil, nil // standard input comes once
		}
		h, broken := archive.ReadHead(ctx, file)
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return "", nil, err
		}
		if broken == nil {
			return h.List.BundleID, h.List.Requires, nil
		}
	}
	return "", nil, nil
}

// Load reads the manifest of a bundle and opens its files. A bundle in an archive stays as it is.
func (b *Bundle) Load(ctx context.Context) (err error) {
	switch {
	case b.Read != nil:
		return nil
	case b.V1 != nil:
		_, err := b.LoadV1(ctx)
		return err
	case b.Where != InProject:
		return nil
	}
	if b.Read, err = workspace.ReadManifest(b.Dir, b.ID); err != nil {
		if _, changed := errors.AsType[*sign.IntegrityError](err); changed {
			err = fmt.Errorf("the manifest of %q: %w", b.ID, err)
		}
		return err
	}
	if b.Read.BundleID != b.ID {
		return fault.New(fault.Integrity, "the manifest of %q is that of %q", b.ID, b.Read.BundleID)
	}
	space, err := ai.OpenDir(b.Dir, b.ID, ai.Project)
	if err != nil {
		return err
	}
	b.w.Keep(space)
	b.Has = workspace.BlobsOf(space.FS, b.Read, "")
	return nil
}

// ArchiveHead reads the head of an archive, with the public keys that its signers claim to have.
func ArchiveHead(ctx context.Context, path string) (*archive.Head, error) {
	f, err := osfile.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := archive.ReadHead(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	return h, nil
}
