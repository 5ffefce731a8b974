// Package foreign reads archives that other programs make: zip and tar.gz, in a form on which all readers agree.
//
// An archive has no bytes before, between or after its files, no encryption, and in a zip the same names, sizes and
// places in front of the files as in the directory. A name is in it once, and leads to no place outside of the
// archive's directory. An archive is bounded in bytes, packed and unpacked, in the ratio of the two, in files and in
// the length of their names.
//
// # How an archive goes through here
//
// Open recognizes the format. Archive.List checks the headers and lists the entries; Archive.Read unpacks those that
// the caller wants. What an entry's kind and path mean is up to the caller: links and special files are listed too.
package foreign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// The limits of an archive.
const (
	MaxEntries = 100_000
	MaxNames   = 16 << 20  // bytes of all names
	MaxArchive = 64 << 20  // packed
	MaxTotal   = 512 << 20 // unpacked
	MinTotal   = 16 << 20  // what even the smallest archive may unpack to
	Ratio      = 200       // how many times its bytes any other may unpack to
)

// A Kind is what an entry is.
type Kind byte

// The kinds of entries. Directories aren't listed.
const (
	Plain Kind = iota
	Executable
	Link     // a symbolic link, whose content is its target
	HardLink // another name of an entry's file, in a tar
	Special
)

// An Entry is a file of an archive.
type Entry struct {
	Path string // relative, with "/"
	Size int64
	Kind Kind
}

// An Archive is one file with others in it.
type Archive interface {
	// List returns the entries. It must be called before Read.
	List(context.Context) ([]Entry, error)
	// Read unpacks the wanted entries, by their indexes in the list. The bytes count once take and then Read have
	// returned no error.
	Read(ctx context.Context, wanted func(i int) bool, take func(i int, r io.Reader) error) error
}

const (
	zipMagic  = "PK"
	gzipMagic = "\x1f\x8b"
)

// MagicSize is how many bytes Is needs.
const MagicSize = 2

// Is reports whether a file with these first bytes can be an archive.
func Is(first []byte) bool {
	return bytes.HasPrefix(first, []byte(zipMagic)) || bytes.HasPrefix(first, []byte(gzipMagic))
}

// Open returns the archive in a file's bytes.
func Open(b []byte) (Archive, error) {
	switch {
	case len(b) > MaxArchive:
		return nil, refused("size", "the archive", "has %d bytes, more than the limit of %d", len(b), MaxArchive)
	case bytes.HasPrefix(b, []byte(zipMagic)):
		return &zipArchive{b: b}, nil
	case bytes.HasPrefix(b, []byte(gzipMagic)):
		return &tarArchive{b}, nil
	}
	return nil, badArchive("is neither a zip nor a tar.gz")
}

// refused returns the error for an archive or a file in it.
func refused(reason, file, format string, args ...any) *fault.Error {
	file = fault.Clip(file, 1000)
	return fault.New(fault.Validation, "%q %s", file, fmt.Sprintf(format, args...)).On("reason", reason).
		On("file", file).Because("nothing was written")
}

func badArchive(format string, args ...any) *fault.Error {
	return refused("archive", "the archive", format, args...)
}

func longNames() *fault.Error {
	return refused("files", "the archive", "has names of more than %d MiB", MaxNames>>20)
}

// tooMuch refuses an entry with which the files of an archive have more bytes than it may unpack to.
func tooMuch(name string, archive []byte) *fault.Error {
	return refused("size", name, "is too much: an archive of %d bytes unpacks to at most %d", len(archive),
		budget(archive))
}

// budget returns how many bytes the files of an archive may have.
func budget(archive []byte) int64 { return min(MaxTotal, max(MinTotal, int64(len(archive))*Ratio)) }

func damaged(name string, err error) *fault.Error {
	return refused("archive", name, "can't be unpacked: %v", err)
}

// place returns the path of an entry. It refuses every path that leads out of the archive's directory, whether or not
// the caller wants the entry.
func place(name string) (string, error) {
	path := strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	switch {
	case len(path) > portable.MaxPath:
		return "", refused("path-length", fault.Clip(path, 100), "has a name of more than %d bytes", portable.MaxPath)
	case strings.ContainsAny(path, "\x00\\"):
		return "", refused("path", name, "has a NUL or a backslash in its name")
	case !utf8.ValidString(path):
		return "", refused("utf8", name, "is not UTF-8")
	case path == "" || path == ".":
		return ".", nil
	case !fs.ValidPath(path):
		return "", refused("path", name, "leads out of the archive, or is not a plain path")
	}
	return path, nil
}

var errSize = errors.New("it has another size than the archive says")

// whole gives the bytes of an entry to take, and reads to their end, where readers check checksums. An entry that
// can't be read is refused; other errors are take's.
func whole(ctx context.Context, name string, r io.Reader, size int64, take func(io.Reader) error) error {
	source := &unpacking{r: r, left: size}
	err := take(source)
	if err == nil {
		_, err = io.Copy(io.Discard, source)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case source.err != nil:
		return damaged(name, source.err)
	}
	return err
}

// An unpacking reads exactly so many bytes, and keeps its error.
type unpacking struct {
	r    io.Reader
	left int64
	err  error
}

// Read implements io.Reader.
func (u *unpacking) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	n, err := u.r.Read(p)
	switch u.left -= int64(n); {
	case u.left < 0, err == io.EOF && u.left > 0:
		u.err = errSize
	case err != nil && err != io.EOF:
		u.err = err
	}
	if u.err != nil {
		return 0, u.err
	}
	return n, err
}
