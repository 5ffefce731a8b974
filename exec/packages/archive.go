package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/materialise"
)

// The limits of an archive.
const (
	MaxFiles     = 1 << 16
	MaxBytes     = 4 << 30
	MaxDirectory = 8 << 20  // bytes of a zip archive's directory
	MinBytes     = 16 << 20 // allowed in even the smallest archive
	Ratio        = 200
	maxText      = 16 << 20 // bytes of a file that is read into memory
)

// invalid returns the error for an archive that is no valid package; path is a file in it, or "".
func invalid(archive, path string, err error) error {
	e := fault.New(fault.Validation, "the package %q: %v", archive, err)
	if path != "" {
		e.Text = fmt.Sprintf("the package %q: %+q: %v", archive, path, err)
	}
	return e.Try("rye docs packages").From(err)
}

// tooMuch returns the error for an archive with too many files or bytes.
func tooMuch(archive, what string, limit int64) error {
	return fault.New(fault.Limit, "the package %q has more than %d %s", archive, limit, what)
}

// badRecord returns the error for a file that doesn't match the wheel's RECORD.
func badRecord(archive, path, msg string) error {
	return fault.New(fault.Integrity, "the wheel %q: %+q %s", archive, path, msg).On("path", path)
}

// A File is a file of an archive, as it is unpacked.
type File struct {
	Path   string
	Mode   cas.Mode
	Size   int64
	Digest cas.Digest

	entry string // its name in the archive
}

// An Archive is a completely read archive.
type Archive struct {
	Files []File // sorted by path

	from reader
}

// Open opens one of the files.
func (a *Archive) Open(path string) (io.ReadCloser, error) { return a.from.open(path) }

// A reader reads an archive in its own order. Every reading yields the same files.
type reader interface {
	// each visits the files to unpack, and skips content that visit doesn't read.
	each(visit func(f *File, open func() (io.Reader, error)) error) error
	// open opens one of them.
	open(path string) (io.ReadCloser, error)
}

// read reads a whole archive. check, if not nil, sees each file while it is read.
func read(ctx context.Context, name string, from reader, budget int64,
	check func(f *File) (io.Writer, func() error)) (*Archive, error) {
	archive := &Archive{from: from}
	var total int64
	err := from.each(func(file *File, open func() (io.Reader, error)) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		in, err := open()
		if err != nil {
			return err
		}
		hasher := cas.NewHasher()
		to, done := io.Writer(hasher), func() error { return nil }
		if check != nil {
			var also io.Writer
			if also, done = check(file); also != nil {
				to = io.MultiWriter(hasher, also)
			}
		}
		n, err := io.Copy(to, cas.Until(ctx, io.LimitReader(in, budget-total+1)))
		if err != nil {
			return err
		}
		if total += n; total > budget {
			return tooMuch(name, "bytes", budget)
		}
		if n != file.Size {
			return invalid(name, file.entry, fmt.Errorf("has %d bytes, but the archive declares %d", n, file.Size))
		}
		if err := done(); err != nil {
			return err
		}
		if file.Path != "" {
			file.Digest = hasher.Digest()
			archive.Files = append(archive.Files, *file)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(archive.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	paths := make([]string, len(archive.Files))
	for i := range archive.Files {
		paths[i] = archive.Files[i].Path
	}
	if err := materialise.CheckPackages(paths); err != nil {
		return nil, invalid(name, "", err)
	}
	return archive, nil
}

// budget returns how many bytes an archive of a size may contain.
func budget(size int64) int64 {
	if size > MaxBytes/Ratio {
		return MaxBytes
	}
	return max(MinBytes, size*Ratio)
}

// kept reports whether a file with this path is unpacked. A path that can't exist on disk is an error.
func kept(path string) (bool, error) {
	for segment := range strings.SplitSeq(path, "/") {
		if segment != materialise.Modules && portable.Droppings(segment) {
			return false, nil
		}
	}
	return true, materialise.CheckPackages([]string{path})
}

// A Shelf reads the files of several archives.
type Shelf []*Archive

// Get implements cas.Getter.
func (s Shelf) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	for _, a := range s {
		for i := range a.Files {
			f := &a.Files[i]
			if id.Kind != cas.Blob || f.Digest != id.Digest {
				continue
			}
			r, err := a.from.open(f.Path)
			return cas.Object{Info: cas.Info{ID: id, Size: f.Size}, ReadCloser: r}, err
		}
	}
	return cas.Object{}, missing(id)
}

// Visit implements cas.Visitor. It reads each archive once.
func (s Shelf) Visit(ctx context.Context, ids []cas.ID, visit func(i int, o cas.Object) error) error {
	wanted := make(map[cas.Digest]int, len(ids))
	for i, id := range ids {
		wanted[id.Digest] = i
	}
	for _, a := range s {
		digests := make(map[string]cas.Digest, len(a.Files))
		for i := range a.Files {
			digests[a.Files[i].Path] = a.Files[i].Digest
		}
		err := a.from.each(func(file *File, open func() (io.Reader, error)) error {
			d, known := digests[file.Path]
			i, want := wanted[d]
			if !known || !want || ctx.Err() != nil {
				return context.Cause(ctx)
			}
			delete(wanted, d)
			r, err := open()
			if err != nil {
				return err
			}
			return visit(i, cas.Object{Info: cas.Info{ID: ids[i], Size: file.Size}, ReadCloser: io.NopCloser(r)})
		})
		if err != nil {
			return err
		}
	}
	for _, i := range wanted {
		return missing(ids[i])
	}
	return nil
}

func missing(id cas.ID) error {
	return &fs.PathError{Op: "open", Path: id.String(), Err: fs.ErrNotExist}
}

var errNotRegular = errors.New("is not a regular file, which is all that a package may contain")
