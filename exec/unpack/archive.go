package unpack

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
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/materialise"
)

// The limits of an archive.
const (
	MaxFiles     = 1 << 16
	MaxBytes     = 4 << 30
	MaxDirectory = 8 << 20  // of a zip archive
	MinBytes     = 16 << 20 // so many may be in the smallest of archives
	Ratio        = 200
	maxText      = 16 << 20 // of a file that is read as a whole
)

// A FormatError says why an archive is none that is taken.
type FormatError struct {
	Archive string // what its file is called
	Path    string // in it; "" for the archive itself
	Err     error
}

func (e *FormatError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("the package %q: %v", e.Archive, e.Err)
	}
	return fmt.Sprintf("the package %q: %+q: %v", e.Archive, e.Path, e.Err)
}

// Unwrap returns what is wrong.
func (e *FormatError) Unwrap() error { return e.Err }

// A LimitError says that an archive has more in it than one may have.
type LimitError struct {
	Archive string
	What    string // "files" or "bytes"
	Max     int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the package %q has more than %d %s in it", e.Archive, e.Max, e.What)
}

// A RecordError says that a wheel isn't what it says of itself.
type RecordError struct {
	Archive, Path string
	Msg           string
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("the wheel %q: %+q %s", e.Archive, e.Path, e.Msg)
}

// A File is one of an archive, as it stands on disk in the end.
type File struct {
	Path   string
	Mode   cas.Mode
	Size   int64
	Digest cas.Digest

	entry string // what the archive calls it
}

// An Archive is one that was read to its end, and whose files are known.
type Archive struct {
	Files []File // sorted by path

	from reader
}

// A reader goes through an archive in the order that it has. It is asked for the same twice, and gives the same.
type reader interface {
	// each visits the files that stand on disk in the end. What visit doesn't read is passed over.
	each(visit func(f *File, open func() (io.Reader, error)) error) error
	// open opens one of them.
	open(path string) (io.ReadCloser, error)
}

// read reads all of an archive. check looks at each file while it is read; nil where nothing does.
func read(ctx context.Context, name string, from reader, budget int64, check func(f *File) (io.Writer, func() error)) (*Archive, error) {
	a := &Archive{from: from}
	var total int64
	err := from.each(func(f *File, open func() (io.Reader, error)) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r, err := open()
		if err != nil {
			return err
		}
		h := cas.NewHasher()
		to, done := io.Writer(h), func() error { return nil }
		if check != nil {
			var also io.Writer
			if also, done = check(f); also != nil {
				to = io.MultiWriter(h, also)
			}
		}
		n, err := io.Copy(to, cas.Until(ctx, io.LimitReader(r, budget-total+1)))
		if err != nil {
			return err
		}
		if total += n; total > budget {
			return &LimitError{name, "bytes", budget}
		}
		if n != f.Size {
			return &FormatError{name, f.entry, fmt.Errorf("has %d bytes, and the archive says %d", n, f.Size)}
		}
		if err := done(); err != nil {
			return err
		}
		if f.Path != "" {
			f.Digest = h.Digest()
			a.Files = append(a.Files, *f)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(a.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	paths := make([]string, len(a.Files))
	for i := range a.Files {
		paths[i] = a.Files[i].Path
	}
	if err := materialise.CheckPackages(paths); err != nil {
		return nil, &FormatError{name, "", err}
	}
	return a, nil
}

// budget is how many bytes may be in an archive of a size.
func budget(size int64) int64 {
	if size > MaxBytes/Ratio {
		return MaxBytes
	}
	return max(MinBytes, size*Ratio)
}

// kept reports whether a file of this path is part of what is unpacked. A path that can't be on disk is an error.
func kept(path string) (bool, error) {
	for segment := range strings.SplitSeq(path, "/") {
		if segment != materialise.Modules && portable.Droppings(segment) {
			return false, nil
		}
	}
	return true, materialise.CheckPackages([]string{path})
}

// A Shelf has the files of several archives.
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

// Visit implements cas.Visitor: each archive is read once.
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
		err := a.from.each(func(f *File, open func() (io.Reader, error)) error {
			d, known := digests[f.Path]
			i, want := wanted[d]
			if !known || !want || ctx.Err() != nil {
				return context.Cause(ctx)
			}
			delete(wanted, d)
			r, err := open()
			if err != nil {
				return err
			}
			return visit(i, cas.Object{Info: cas.Info{ID: ids[i], Size: f.Size}, ReadCloser: io.NopCloser(r)})
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

var errNotRegular = errors.New("is no regular file, and nothing else is taken from a package")
