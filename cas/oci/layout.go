package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/cas/osfile"
)

// A layout is a directory as the OCI Image Layout has it. Files are written whole, index.json last; a process that
// changes index.json holds the lock on index.json.lock.
type layout struct{ dir string }

func (l *layout) blob(d string) string {
	return filepath.Join(l.dir, "blobs", "sha256", strings.TrimPrefix(d, "sha256:"))
}

// read reads a file of the layout. A link may lead elsewhere, but only to a file, and its digest is checked all the
// same.
func (l *layout) read(path string, most int64) ([]byte, error) {
	f, err := osfile.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fault.New(fault.Limit, "%q has more than %d bytes", filepath.Base(path), most)
	}
	return b, err
}

func (l *layout) index() (*ocispec.Index, error) {
	b, err := l.read(filepath.Join(l.dir, ocispec.ImageIndexFile), 4*format.MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound("the image layout").From(err)
	}
	if err != nil {
		return nil, err
	}
	x := new(ocispec.Index)
	if err := json.Unmarshal(b, x); err != nil {
		return nil, fault.New(fault.Parsing, "index.json: %s", fault.Clip(err.Error(), 200)).From(err)
	}
	return x, nil
}

func (l *layout) manifest(_ context.Context, name string) ([]byte, error) {
	if !format.ValidDigest(name) {
		index, err := l.index()
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(index.Manifests,
			func(d ocispec.Descriptor) bool { return d.Annotations[ocispec.AnnotationRefName] == name })
		if i < 0 {
			return nil, notFound("the manifest")
		}
		if name = index.Manifests[i].Digest.String(); !format.ValidDigest(name) {
			return nil, fault.New(fault.Integrity, "index.json: %q is not a sha256", fault.Clip(name, 100))
		}
		b, err := l.read(l.blob(name), format.MaxManifest)
		if err == nil && format.Sum(b) != name {
			err = damaged(index.Manifests[i], "found "+format.Sum(b))
		}
		return b, err
	}
	b, err := l.read(l.blob(name), format.MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound("the manifest").From(err)
	}
	return b, err
}

// has reports whether the layout has a blob. It hashes the file: a broken stick may hold other bytes.
func (l *layout) has(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	f, _, err := l.open(ctx, desc, 0)
	if errors.Is(err, fs.ErrNotExist) || err != nil && fault.CodeOf(err) == fault.Integrity {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(cas.Until(ctx, f), desc.Size+1))
	return err == nil && n == desc.Size && "sha256:"+hex.EncodeToString(h.Sum(nil)) == desc.Digest.String(), ctx.Err()
}

func (l *layout) open(_ context.Context, d ocispec.Descriptor, from int64) (io.ReadCloser, int64, error) {
	file, err := osfile.OpenRegular(l.blob(d.Digest.String()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, notFound(d.Digest.String()).From(err)
	}
	if err != nil {
		return nil, 0, err
	}
	fi, err := file.Stat()
	if err == nil && fi.Size() != d.Size {
		err = wrongSize(d, fi.Size())
	}
	if err == nil {
		_, err = file.Seek(from, io.SeekStart)
	}
	if err != nil {
		file.Close()
	}
	return file, from, err
}

func (l *layout) put(_ context.Context, d ocispec.Descriptor, b []byte) error {
	path := l.blob(d.Digest.String())
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return osfile.WriteFile(path, 0o644, false, osfile.BytesOf(b))
}

func (l *layout) putManifest(ctx context.Context, desc ocispec.Descriptor, b []byte, tag string) error {
	if err := l.put(ctx, desc, b); err != nil {
		return err
	}
	var in ocispec.Manifest
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	if tag == "" && in.Subject == nil {
		return nil
	}
	unlock, err := osfile.LockFile(ctx, filepath.Join(l.dir, ocispec.ImageIndexFile+".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	index, err := l.index()
	if errors.Is(err, fs.ErrNotExist) {
		index, err = &ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2},
			MediaType: ocispec.MediaTypeImageIndex},
			nil
	}
	if err != nil {
		return err
	}
	entry := ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size,
		ArtifactType: in.ArtifactType}
	if tag != "" {
		entry.Annotations = map[string]string{ocispec.AnnotationRefName: tag}
	}
	old := len(index.Manifests)
	index.Manifests = slices.DeleteFunc(index.Manifests, func(e ocispec.Descriptor) bool {
		name := e.Annotations[ocispec.AnnotationRefName]
		return name == tag && (tag != "" || e.Digest == desc.Digest)
	})
	// In one order, so that the same pushes make the same bytes.
	index.Manifests = append(index.Manifests, entry)
	slices.SortStableFunc(index.Manifests, func(a, b ocispec.Descriptor) int {
		return strings.Compare(a.Annotations[ocispec.AnnotationRefName]+" "+a.Digest.String(),
			b.Annotations[ocispec.AnnotationRefName]+" "+b.Digest.String())
	})
	text, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if len(text) > 4*format.MaxManifest {
		return fault.New(fault.Limit, "index.json: more than %d manifests", old)
	}
	mark := fmt.Sprintf("{%q:%q}", "imageLayoutVersion", ocispec.ImageLayoutVersion)
	if has, err := l.read(filepath.Join(l.dir, ocispec.ImageLayoutFile), 4096); err != nil ||
		!bytes.Equal(has, []byte(mark)) {
		if err := osfile.WriteFile(filepath.Join(l.dir, ocispec.ImageLayoutFile), 0o644, false,
			osfile.BytesOf([]byte(mark))); err != nil {
			return err
		}
	}
	return osfile.WriteFile(filepath.Join(l.dir, ocispec.ImageIndexFile), 0o644, false, osfile.BytesOf(text))
}

func (l *layout) referrers(ctx context.Context,
	subject ocispec.Descriptor) (all []ocispec.Descriptor, _ bool, err error) {
	x, err := l.index()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	for _, d := range x.Manifests {
		if d.Annotations[ocispec.AnnotationRefName] != "" || !format.ValidDigest(d.Digest.String()) {
			continue
		}
		b, err := l.manifest(ctx, d.Digest.String())
		var in ocispec.Manifest
		if err != nil || json.Unmarshal(b, &in) != nil || in.Subject == nil || in.Subject.Digest != subject.Digest {
			continue
		}
		d.ArtifactType = in.ArtifactType
		all = append(all, d)
	}
	return all, false, nil
}

func (l *layout) tags(context.Context) (all []string, err error) {
	x, err := l.index()
	if err != nil {
		return nil, err
	}
	for _, d := range x.Manifests {
		if tag := d.Annotations[ocispec.AnnotationRefName]; ValidTag(tag) {
			all = append(all, tag)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
