package find

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/legacy"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/sign"
)

// A Line is the unverified summary of a bundle's manifest.
type Line struct {
	Bundle      string            `json:"bundle"`
	Version     string            `json:"version"`
	Manifest    string            `json:"manifest"` // its id
	Where       string            `json:"where"`
	Description string            `json:"description"`
	Entrypoint  string            `json:"entrypoint,omitempty"`
	Format      string            `json:"format"` // "v1", "v2"
	Files       int               `json:"files"`
	Bytes       int64             `json:"bytes"`     // 0 for v1, whose manifests have no sizes
	SignedBy    []string          `json:"signed_by"` // unchecked fingerprints
	Expires     string            `json:"expires,omitempty"`
	Expired     bool              `json:"expired"`
	Previous    []install.Version `json:"previous"` // for rollbacks
	Error       string            `json:"error,omitempty"`

	digest cas.Digest
}

func newLine(where string, l *manifest.FileList, now time.Time) Line {
	line := Line{Bundle: l.BundleID, Version: l.Version, Manifest: l.ID.String(), Where: where,
		Description: l.Description, Entrypoint: l.Entrypoint,
		Format: sign.V2.String(), Files: l.Files, Bytes: l.Bytes, SignedBy: l.SignedBy(),
		Expires: yamltree.DateText(l.Expires), Expired: l.Expired(now),
		Previous: []install.Version{}, digest: l.ID}
	return line
}

func newV1Line(where string, m *legacy.Manifest, id cas.Digest) Line {
	return Line{Bundle: m.ID, Version: m.Version, Manifest: id.String(), Where: where, Description: m.Description,
		Entrypoint: m.Entrypoint,
		Format:     sign.V1.String(), Files: len(m.Files), SignedBy: []string{}, Previous: []install.Version{},
		digest: id}
}

// LineOf returns the line of a bundle below a directory, in either format.
func (f *Finder) LineOf(where, dir, id string) Line {
	line, err := f.lineOf(where, dir, id)
	if err != nil {
		return Line{Bundle: id, Where: where, SignedBy: []string{}, Previous: []install.Version{},
			Error: fault.Of(err).Text}
	}
	return line
}

func (f *Finder) lineOf(where, dir, id string) (Line, error) {
	v1, err := IsV1(dir, id)
	if err != nil {
		return Line{}, err
	}
	if !v1 {
		b, err := ReadManifest(dir, id)
		if err != nil {
			return Line{}, err
		}
		return newLine(where, b.FileList, f.Now), nil
	}
	file, err := manifestFile(dir, id)
	if err != nil {
		return Line{}, err
	}
	text, err := osfile.ReadSmall(file, legacy.MaxBytes)
	if err != nil {
		return Line{}, err
	}
	m, err := legacy.Parse(text)
	if err != nil {
		return Line{}, err
	}
	return newV1Line(where, m, cas.Sum(legacy.Body(text))), nil
}

// List returns the bundles of the project, the installed ones and the library; with all, those in the store too.
func (f *Finder) List(ctx context.Context, all bool) (lines []Line, err error) {
	if f.Project != "" {
		ids, err := InProjectIDs(f.Project)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			lines = append(lines, f.LineOf(InProject, f.Project, id))
		}
	}
	installed, err := f.AllInstalled(ctx)
	if err != nil {
		f.Warn("", err)
	}
	for _, at := range installed {
		line := newLine(InUser, at.FileList, f.Now)
		line.Previous = append(line.Previous, at.Previous...)
		lines = append(lines, line)
	}
	if f.User != "" && f.User != f.Project {
		ids, _ := InProjectIDs(f.User)
		for _, id := range ids {
			if v1, err := IsV1(f.User, id); err == nil && v1 {
				lines = append(lines, f.LineOf(InUser, f.User, id))
			}
		}
	}
	if all {
		stored, err := f.stored(ctx)
		if err != nil {
			return nil, err
		}
		lines = append(lines, stored...)
	}
	library, err := Library()
	if err != nil {
		return nil, err
	}
	return append(lines, newLine(InBinary, library.Bundle.FileList, f.Now)), nil
}

// stored returns the bundles in the store, without their signatures, sorted: for each id the v1 bundles first, the
// newest last. Without a store it returns none. It warns about unreadable bundles and leaves them out.
func (f *Finder) stored(ctx context.Context) (lines []Line, err error) {
	store, err := f.Store()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	refs, err := store.Refs()
	if err != nil {
		return nil, err
	}
	for _, r := range refs {
		v1 := r.Name == install.V1Ref(r.ID.Digest)
		if r.ID.Kind != cas.Document || !v1 && r.Name != install.Ref(r.ID.Digest) {
			continue
		}
		line, err := f.storedLine(ctx, store, r.ID, v1)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			f.Warn("the bundle "+r.ID.Digest.Short()+" in the store", err)
			continue
		}
		lines = append(lines, line)
	}
	slices.SortFunc(lines, compareLines)
	return lines, nil
}

func (f *Finder) storedLine(ctx context.Context, s *disk.Store, id cas.ID, v1 bool) (Line, error) {
	object, err := s.Get(ctx, id)
	if err != nil {
		return Line{}, err
	}
	defer object.Close()
	if !v1 {
		l, err := manifest.ReadFileList(object, func(*manifest.File) error { return nil })
		if err != nil {
			return Line{}, err
		}
		return newLine(InStore, l, f.Now), nil
	}
	text, err := io.ReadAll(io.LimitReader(object, legacy.MaxBytes+1))
	if err != nil {
		return Line{}, err
	}
	m, err := legacy.Parse(text)
	if err != nil {
		return Line{}, err
	}
	return newV1Line(InStore, m, id.Digest), nil
}
