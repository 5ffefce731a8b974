package packages

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/rye-build/rye/cas"
)

// Tarball reads an npm tarball with this file name.
func Tarball(ctx context.Context, name string, r io.ReaderAt, size int64) (*Archive, error) {
	t := &tarball{name: name, file: r, size: size}
	a, err := read(ctx, name, t, budget(size), nil)
	if err != nil {
		return nil, err
	}
	for i := range a.Files {
		if a.Files[i].Path == "package.json" {
			return a, nil
		}
	}
	return nil, invalid(name, "", errors.New("package.json is missing"))
}

type tarball struct {
	name string
	file io.ReaderAt
	size int64
}

// An unzipped is the tar archive inside a tarball.
type unzipped struct {
	*tar.Reader
	packed *bufio.Reader
	zip    *gzip.Reader
	plain  *io.LimitedReader // limits the bytes; N reaches 0 at the first byte too many
	files  int
	top    string
}

func (t *tarball) start() (*unzipped, error) {
	u := &unzipped{packed: bufio.NewReaderSize(io.NewSectionReader(t.file, 0, t.size), 64<<10)}
	var err error
	if u.zip, err = gzip.NewReader(u.packed); err != nil {
		return nil, t.bad("", err)
	}
	u.zip.Multistream(false)
	// The budget excludes headers and padding.
	u.plain = &io.LimitedReader{R: u.zip, N: budget(t.size) + MaxFiles*512 + 1}
	u.Reader = tar.NewReader(u.plain)
	return u, nil
}

func (t *tarball) bad(path string, err error) error { return invalid(t.name, path, err) }

// next returns the next file to unpack, or io.EOF.
func (t *tarball) next(unzipped *unzipped) (*File, error) {
	for {
		header, err := unzipped.Next()
		if unzipped.plain.N <= 0 {
			return nil, tooMuch(t.name, "bytes", budget(t.size))
		}
		if err == io.EOF {
			return nil, t.end(unzipped)
		}
		if err != nil {
			return nil, t.bad("", err)
		}
		if unzipped.files++; unzipped.files > MaxFiles {
			return nil, tooMuch(t.name, "files", MaxFiles)
		}
		f, err := t.fileOf(unzipped, header)
		if err != nil {
			return nil, t.bad(header.Name, err)
		}
		if f != nil {
			return f, nil
		}
	}
}

// fileOf returns the file of a header; nil if the header has none or it is left out.
func (t *tarball) fileOf(unzipped *unzipped, header *tar.Header) (*File, error) {
	switch header.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil, nil // metadata of the archive, such as a commit
	case tar.TypeReg, tar.TypeDir:
	default:
		return nil, errNotRegular
	}
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return nil, errNotRegular
		}
	}
	top, rest, below := strings.Cut(strings.TrimSuffix(header.Name, "/"), "/")
	switch {
	case top == "" || top == "." || top == "..":
		return nil, errors.New("is not in a directory of the archive")
	case unzipped.top == "":
		unzipped.top = top
	case unzipped.top != top:
		return nil, fmt.Errorf("is not in the top directory %+q", unzipped.top)
	}
	if header.Typeflag == tar.TypeDir {
		return nil, nil
	}
	if !below || strings.HasSuffix(header.Name, "/") {
		return nil, errors.New("is not in the package's directory")
	}
	keep, err := kept(rest)
	if !keep || err != nil {
		return nil, err
	}
	f := &File{Path: rest, Mode: cas.File, Size: header.Size, entry: header.Name}
	if header.Mode&0o111 != 0 {
		f.Mode = cas.Exec
	}
	return f, nil
}

// end returns io.EOF, or an error if anything follows the archive.
func (t *tarball) end(unzipped *unzipped) error {
	var block [4096]byte
	for {
		n, err := unzipped.plain.Read(block[:])
		if unzipped.plain.N <= 0 {
			return tooMuch(t.name, "bytes", budget(t.size))
		}
		for _, b := range block[:n] {
			if b != 0 {
				return t.bad("", errors.New("trailing bytes after the end of the archive"))
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return t.bad("", err)
		}
	}
	if _, err := unzipped.packed.ReadByte(); err != io.EOF {
		return t.bad("", errors.New("trailing bytes after the end of the archive"))
	}
	return io.EOF
}

// each implements reader.
func (t *tarball) each(visit func(*File, func() (io.Reader, error)) error) error {
	unzipped, err := t.start()
	if err != nil {
		return err
	}
	for {
		f, err := t.next(unzipped)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(f, func() (io.Reader, error) { return &contents{t, f.Path, unzipped}, nil }); err != nil {
			return err
		}
	}
}

// contents reads one file, with errors that name it.
type contents struct {
	t    *tarball
	path string
	u    *unzipped
}

func (c *contents) Read(p []byte) (int, error) {
	n, err := c.u.Read(p)
	if err != nil && err != io.EOF {
		if c.u.plain.N <= 0 {
			return n, tooMuch(c.t.name, "bytes", budget(c.t.size))
		}
		err = c.t.bad(c.path, err)
	}
	return n, err
}

// open implements reader.
func (t *tarball) open(path string) (io.ReadCloser, error) {
	u, err := t.start()
	for err == nil {
		var f *File
		if f, err = t.next(u); err == nil && f.Path == path {
			return io.NopCloser(&contents{t, path, u}), nil
		}
	}
	if err == io.EOF {
		err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return nil, err
}
