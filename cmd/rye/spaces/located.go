package spaces

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
)

// Where a bundle was found.
const (
	InProject = "project"
	InUser    = "installed"
	InStore   = "store"
	InArchive = "archive"
	InBinary  = "binary"
)

// A Located bundle is one that was found.
type Located struct {
	Where string
	Place string         // for people
	Id    string         // "" in an archive
	Dir   string         // of a project
	V1    fs.FS          // the files of a v1 bundle; nil for one of v2
	File  io.Reader      // of an archive
	Read  *bundle.Bundle // nil in a project and in an archive, until it is needed
	Has   cas.Getter     // its files; nil in an archive
}

// Size is the total size of a bundle's files, 0 if it is unknown.
func (l *Located) Size() int64 {
	if l.Read == nil {
		return 0
	}
	return l.Read.Bytes
}

// Source is what looks at a bundle, with the spaces that its items may use.
func Source(ctx context.Context, b *places.Workspace, l *Located, p *cli.Progress) (bundle.Source, []*ai.Space, error) {
	id, requires, err := Requires(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	below, err := b.Below(ctx, id, requires)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case l.V1 != nil:
		return bundle.Given(l.Read, l.Has), below, nil
	case l.Where == InProject:
		return bundle.InDir(l.Dir, l.Id), below, nil
	case l.Where == InArchive:
		return bundle.InArchive(p.Counted(l.File)), below, nil
	}
	return bundle.Given(l.Read, l.Has), below, nil
}

// Requires reads which bundles a bundle needs, if it can be read; that it can't is for others to report.
func Requires(ctx context.Context, l *Located) (id string, all []manifest.Require, err error) {
	switch {
	case l.Read != nil:
		return l.Read.BundleID, l.Read.Requires, nil
	case l.Where == InProject:
		if read, err := workspace.ReadManifest(l.Dir, l.Id); err == nil {
			return read.BundleID, read.Requires, nil
		}
	case l.Where == InArchive:
		file, ok := l.File.(io.ReadSeeker)
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
