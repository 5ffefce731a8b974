package legacy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
)

// A Content is an unverified manifest and the files that it lists.
type Content struct {
	*Manifest                   // nil if it is missing or invalid
	Document  cas.Digest        // of the manifest's bytes without its signature line
	Text      []byte            // of the manifest
	Good      []manifest.File   // files that match, sorted by path, with BLAKE3 digests and without refs
	Read      int64             // their bytes
	Failures  []*bundle.Failure // of the manifest and of the other files

	fs fs.FS
	at map[cas.Digest]string
}

// Read reads a manifest and hashes all of its files, which are below the root of fsys. It returns the errors that
// Verify returns.
func Read(ctx context.Context, fsys fs.FS, id string) (*Content, error) {
	return read(ctx, fsys, id, nil)
}

func read(ctx context.Context, fsys fs.FS, id string, progress func(files, bytes int64)) (*Content, error) {
	at, err := bundle.ManifestPath(id)
	if err != nil {
		return nil, err
	}
	content := &Content{fs: fsys, at: map[cas.Digest]string{}}
	if content.Text, err = readFile(fsys, at); err != nil {
		return nil, err
	}
	manifest, err := Parse(content.Text)
	if err == nil && manifest.ID != id {
		err = &admission.NameError{Want: "bundle:" + id, Found: manifest.Name()}
	}
	if err != nil {
		content.fail(&bundle.Failure{Check: bundle.CheckManifest, Err: err})
		return content, nil
	}
	content.Manifest = manifest
	content.Document = cas.Sum(content.Body())
	for i := range manifest.Files {
		good, failure := content.file(ctx, &manifest.Files[i])
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if failure != nil {
			failure.Path = manifest.Files[i].Path
			content.fail(failure)
			continue
		}
		content.Read += good.Size
		content.Good = append(content.Good, good)
		content.at[good.Digest] = good.Path
		if progress != nil {
			progress(int64(len(content.Good)), content.Read)
		}
	}
	return content, nil
}

// Body returns the manifest without its signature line. Document is its digest.
func (c *Content) Body() []byte { return Body(c.Text) }

func (c *Content) fail(f *bundle.Failure) { c.Failures = append(c.Failures, f) }

// Bundle returns the content as a v2 bundle, for comparing and showing. No such v2 document exists; its ID is that
// of the v1 manifest. Items are recognized without the bundle's own extractors. Files that don't match the manifest
// are left out.
func (c *Content) Bundle(ctx context.Context, below []*ai.Space) (*bundle.Bundle, error) {
	l := &manifest.FileList{BundleID: c.ID, Version: c.Version, Description: c.Description, Entrypoint: c.Entrypoint,
		Subject: c.Document,
		Files:   len(c.Good), Bytes: c.Read}
	l.Document.Name, l.Document.ID = c.Name(), c.Document
	opened := &bundle.Bundle{FileList: l, Files: append([]manifest.File(nil), c.Good...)}
	space, view, err := bundle.View(ctx, c, &manifest.FileList{BundleID: c.ID}, c.Good, below, nil)
	if err != nil {
		return nil, err
	}
	for i := range opened.Files {
		file := &opened.Files[i]
		if !ofKind(file.Path) {
			continue
		}
		at, err := view.At(space, strings.TrimPrefix(file.Path, ".ai/"))
		if err != nil {
			continue // an asset, by its path
		}
		it, err := view.Load(ctx, at)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil {
			file.Ref, file.Version = it.Ref.String(), it.Model.Version
		}
	}
	return opened, nil
}

// readFile reads one byte more than a manifest may have, so that the caller notices a larger one.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxBytes+1))
}

// file hashes a file with SHA-256 for the manifest and with BLAKE3.
func (c *Content) file(ctx context.Context, listed *File) (good manifest.File, failure *bundle.Failure) {
	file, err := c.fs.Open(listed.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return good, &bundle.Failure{Check: bundle.CheckMissing, Expected: text(listed.SHA256), Err: err}
	}
	if err != nil {
		return good, &bundle.Failure{Check: bundle.CheckRead, Err: err}
	}
	defer file.Close()
	fi, err := file.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		return good, &bundle.Failure{Check: bundle.CheckType, Expected: "a file", Found: fi.Mode().Type().String()}
	}
	old, today := sha256.New(), cas.NewHasher()
	if err == nil {
		good.Size, err = io.Copy(io.MultiWriter(old, today), cas.Until(ctx, file))
	}
	if err != nil {
		return good, &bundle.Failure{Check: bundle.CheckRead, Err: err}
	}
	if found := [32]byte(old.Sum(nil)); found != listed.SHA256 {
		return good, &bundle.Failure{Check: bundle.CheckDigest, Expected: text(listed.SHA256), Found: text(found)}
	}
	good.Path, good.Digest, good.Mode = listed.Path, today.Digest(), cas.File
	if fi.Mode()&0o100 != 0 {
		good.Mode = cas.Exec
	}
	return good, nil
}

func text(sum [32]byte) string { return "sha256:" + hex.EncodeToString(sum[:]) }

// Get implements cas.Getter for the files that match. It hashes them again as they are read.
func (c *Content) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	at, ok := c.at[id.Digest]
	if !ok || id.Kind != cas.Blob {
		return cas.Object{}, fmt.Errorf("%s: %w", id, fs.ErrNotExist)
	}
	f, err := c.fs.Open(at)
	if err != nil {
		return cas.Object{}, err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return cas.Object{}, err
	}
	return cas.Verify(cas.Info{ID: id, Size: fi.Size()}, f), nil
}
