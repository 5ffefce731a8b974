package find

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

// The places of bundles.
const (
	InProject = "project"
	InUser    = "installed"
	InStore   = "store"
	InArchive = "archive"
	InBinary  = "binary"
)

// StandardInput is the place of an archive that is read from standard input.
const StandardInput = "standard input"

// A Found is a bundle that was found.
type Found struct {
	Where string `json:"where"`
	Place string `json:"place"` // for messages

	ID      string         `json:"-"` // "" in an archive
	Dir     string         `json:"-"` // the directory that holds .ai, if the bundle is in one, or an archive was unpacked
	V1      fs.FS          `json:"-"` // the files of a v1 bundle; nil for v2
	Archive io.Reader      `json:"-"` // an archive of rye; nil in an archive of another program
	Bundle  *bundle.Bundle `json:"-"` // nil for a directory or archive until Read or Unpack
	Files   cas.Getter     `json:"-"` // nil until Bundle is set

	finder *Finder
}

// Size returns the total size of the files, 0 if unknown.
func (f *Found) Size() int64 {
	if f.Bundle == nil {
		return 0
	}
	return f.Bundle.Bytes
}

// Format returns the format of the manifest.
func (f *Found) Format() string {
	if f.V1 != nil {
		return sign.V1.String()
	}
	return sign.V2.String()
}

// File returns the path of an archive that is a file, else "".
func (f *Found) File() string {
	file, ok := f.Archive.(*os.File)
	if !ok || f.Place == StandardInput {
		return ""
	}
	return file.Name()
}

// inDir reports whether the bundle is a v2 bundle in a directory.
func (f *Found) inDir() bool { return f.Dir != "" && f.V1 == nil }

// Source returns the bundle for verification. An archive is read through counted.
func (f *Found) Source(counted func(io.Reader) io.Reader) bundle.Source {
	switch {
	case f.Archive != nil:
		return bundle.InArchive(counted(f.Archive))
	case f.inDir():
		return bundle.InDir(f.Dir, f.ID)
	}
	return bundle.Given(f.Bundle, f.Files)
}

// Below returns the spaces that the bundle's items may use, and the required bundles, found or not.
func (f *Found) Below(ctx context.Context) ([]*ai.Space, []bundle.Need, error) {
	if f.Where == InBinary {
		return nil, nil, nil // it is the library itself
	}
	id, requires, err := f.requires(ctx)
	if err != nil {
		return nil, nil, err
	}
	return f.finder.Below(ctx, id, requires)
}

// requires returns the bundles that a bundle requires. It ignores an unreadable bundle, which others report.
func (f *Found) requires(ctx context.Context) (id string, all []manifest.Require, err error) {
	switch {
	case f.Bundle != nil:
		return f.Bundle.BundleID, f.Bundle.Requires, nil
	case f.Where == InProject || f.inDir():
		if head, err := readManifest(f.Dir, f.ID, manifest.ReadFileListHead); err == nil {
			return head.BundleID, head.Requires, nil
		}
	case f.Where == InArchive:
		file, ok := f.Archive.(io.ReadSeeker)
		if !ok {
			return "", nil, nil // standard input can be read only once
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

// NeedV2 returns an error for a v1 bundle.
func (f *Found) NeedV2() error {
	if f.V1 == nil {
		return nil
	}
	again := "rye bundle create " + fault.Quote(f.ID)
	if f.Where != InProject {
		again += " --package DIR"
	}
	return fault.New(fault.Denied, "%q is a v1 bundle: it can be verified and imported, but not changed", f.ID).
		Because("rye bundle create makes a v2 bundle of its files").Try(again).On("reason", "v1").On("bundle", f.ID)
}

// Read reads the manifest of a bundle and opens its files. An archive needs Unpack instead.
func (f *Found) Read(ctx context.Context) (err error) {
	switch {
	case f.Bundle != nil:
		return nil
	case f.V1 != nil:
		_, err = f.ReadV1(ctx)
		return err
	case !f.inDir():
		return nil
	}
	if f.Bundle, err = ReadManifest(f.Dir, f.ID); err != nil {
		if _, changed := errors.AsType[*sign.IntegrityError](err); changed {
			err = fmt.Errorf("the manifest of %q: %w", f.ID, err)
		}
		return err
	}
	if f.Bundle.BundleID != f.ID {
		return fault.New(fault.Integrity, "the manifest of %q is that of %q", f.ID, f.Bundle.BundleID)
	}
	space, err := ai.OpenDir(f.Dir, f.ID, ai.Project)
	if err != nil {
		return err
	}
	f.finder.Keep(space)
	f.Files = BlobsOf(space.FS, f.Bundle, "")
	return nil
}

// Unpack is Read for any place: it keeps the items of an archive in memory.
func (f *Found) Unpack(ctx context.Context, counted func(io.Reader) io.Reader) error {
	if f.Archive == nil {
		return f.Read(ctx)
	}
	m := &unpacked{blobs: map[cas.Digest][]byte{}}
	h, err := archive.Read(ctx, counted(f.Archive), m)
	if err != nil {
		return f.About(err)
	}
	f.Bundle, f.Files = &bundle.Bundle{FileList: h.List, Files: h.Files}, m
	return nil
}

// Import verifies the bundle and copies it into a store. An archive is read through counted. A directory's bundle is
// packed into an archive first, because the store may have a part of it or an older one.
func (f *Found) Import(ctx context.Context, store install.Store, verifyOptions bundle.VerifyOptions,
	counted func(io.Reader) io.Reader) (*bundle.Report, error) {
	if f.V1 != nil {
		return f.importV1(ctx, store, verifyOptions)
	}
	var err error
	if verifyOptions.Below, verifyOptions.Needs, err = f.Below(ctx); err != nil {
		return nil, err
	}
	if f.Archive != nil {
		r, err := install.Import(ctx, store, counted(f.Archive), verifyOptions)
		return r, f.About(err)
	}
	if err := f.Read(ctx); err != nil {
		return nil, err
	}
	body, err := f.Bundle.Body()
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(archive.Write(ctx, w, body, f.Bundle.Signatures, f.Files)) }()
	defer r.Close()
	report, err := install.Import(ctx, store, counted(r), verifyOptions)
	return report, f.Changed(err)
}

// About adds the archive's name to an error about its bytes.
func (f *Found) About(err error) error {
	if _, ok := errors.AsType[*archive.Error](err); ok {
		return fmt.Errorf("%q: %w", f.Place, err)
	}
	return err
}

// Changed returns an error that names the directory's file that differs from the manifest, if that caused err.
func (f *Found) Changed(err error) error {
	if f.Where != InProject || f.Bundle == nil {
		return err
	}
	path := ""
	if bad, ok := errors.AsType[*cas.DamagedError](err); ok {
		for i := range f.Bundle.Files {
			if f.Bundle.Files[i].Digest == bad.ID.Digest {
				path = f.Bundle.Files[i].Path
			}
		}
	} else if bad, ok := errors.AsType[*fs.PathError](err); ok {
		if _, listed := f.Bundle.File(bad.Path); listed {
			path = bad.Path
		}
	}
	if path == "" {
		return err
	}
	e := fault.New(fault.Integrity, "%q differs from the manifest of %q", path, f.ID).From(err).On("path",
		path).On("bundle", f.ID).
		Try("rye bundle verify "+fault.Quote(f.ID), "rye bundle create "+fault.Quote(f.ID))
	e.Exit = fault.ExitRefused
	return e
}

// maxUnpacked bounds the memory for an archive.
const maxUnpacked = 256 << 20

// unpacked holds the items of an archive, with their files.
type unpacked struct {
	layout bundle.Layout
	blobs  map[cas.Digest][]byte
	size   int64
}

// Begin implements archive.Sink.
func (m *unpacked) Begin(head *archive.Head) error {
	m.layout = bundle.LayoutOf(head.List)
	return nil
}

// File implements archive.Sink.
func (m *unpacked) File(e archive.Entry, r io.Reader) error {
	if _, item := m.layout.In(e.Path); e.Evidence || !item {
		return nil
	}
	if m.size += e.Size; m.size > maxUnpacked {
		return fault.New(fault.Limit, "the items of the archive are larger than %d MiB",
			maxUnpacked>>20).Try("rye bundle import ARCHIVE")
	}
	text, err := io.ReadAll(r)
	m.blobs[e.Digest] = text
	return err
}

// Get implements cas.Getter.
func (m *unpacked) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	text, ok := m.blobs[id.Digest]
	if !ok || id.Kind != cas.Blob {
		return cas.Object{}, cas.NotFound(id)
	}
	return cas.Verify(cas.Info{ID: id, Size: int64(len(text))}, io.NopCloser(strings.NewReader(string(text)))), nil
}
