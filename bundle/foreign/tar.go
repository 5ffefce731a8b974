package foreign

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
)

type tarArchive struct{ b []byte }

// disputed reports whether readers can disagree about a file's name or bytes.
func disputed(h *tar.Header) bool {
	for record := range h.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") || h.Typeflag == tar.TypeXGlobalHeader &&
			slices.Contains([]string{"path", "linkpath", "size"}, record) {
			return true
		}
	}
	return false
}

// each calls visit for each file of the archive. It refuses data after the archive's end.
func (s *tarArchive) each(ctx context.Context, visit func(h *tar.Header, p string, r io.Reader) error) error {
	in := bytes.NewReader(s.b)
	reader, err := gzip.NewReader(in)
	if err != nil {
		return badArchive("is no valid tar.gz: %v", err)
	}
	reader.Multistream(false)
	stream := cas.Until(ctx, io.LimitReader(reader, MaxTotal+1))
	files := tar.NewReader(stream)
	names := 0
	for n := 0; ; n++ {
		header, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return badTar(ctx, err)
		}
		if n > MaxEntries {
			return refused("files", "the archive", "has more than %d files", MaxEntries)
		}
		if names += len(header.Name); names > MaxNames {
			return longNames()
		}
		if disputed(header) {
			return refused("archive", header.Name,
				"is sparse or gets its name or size from a header for all files, where readers disagree")
		}
		p, err := place(header.Name)
		if err == nil {
			err = visit(header, p, files)
		}
		if err != nil {
			return err
		}
	}
	for rest := make([]byte, 32<<10); ; {
		n, err := stream.Read(rest)
		if len(bytes.Trim(rest[:n], "\x00")) > 0 {
			return badArchive("has bytes behind its end")
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return badTar(ctx, err)
		}
	}
	if n, _ := reader.Read(make([]byte, 1)); n > 0 {
		return refused("size", "the archive", "unpacks to more than %d bytes", MaxTotal)
	}
	if in.Len() > 0 {
		return badArchive("has bytes behind its end")
	}
	return nil
}

// badTar returns the error for a stream that ends in err: the archive is invalid, or the caller has cancelled.
func badTar(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return badArchive("is no valid tar.gz: %v", err)
}

// List implements Archive.
func (s *tarArchive) List(ctx context.Context) (all []Entry, err error) {
	seen, total := map[string]bool{}, int64(0)
	err = s.each(ctx, func(header *tar.Header, path string, _ io.Reader) error {
		entry, ok := entryOf(header, path)
		if !ok {
			return nil
		}
		if seen[path] {
			return refused("duplicate", header.Name, "is twice in the archive")
		}
		seen[path] = true
		if total += header.Size; header.Size > MaxTotal || total > budget(s.b) {
			return tooMuch(header.Name, s.b)
		}
		all = append(all, entry)
		return nil
	})
	return all, err
}

// entryOf returns the entry of a header; false for one that isn't listed.
func entryOf(header *tar.Header, path string) (Entry, bool) {
	entry := Entry{path, header.Size, Special}
	switch header.Typeflag {
	case tar.TypeXGlobalHeader, tar.TypeDir:
		return entry, false
	case tar.TypeReg:
		entry.Kind = Plain
		if strings.HasSuffix(header.Name, "/") {
			entry.Kind = Special // a directory for some readers
		} else if header.Mode&0o100 != 0 {
			entry.Kind = Executable
		}
	case tar.TypeSymlink:
		entry.Kind = Link
	case tar.TypeLink:
		entry.Kind = HardLink
	}
	return entry, true
}

// Read implements Archive.
func (s *tarArchive) Read(ctx context.Context, wanted func(i int) bool, take func(i int, r io.Reader) error) error {
	next := 0
	return s.each(ctx, func(header *tar.Header, path string, r io.Reader) error {
		entry, ok := entryOf(header, path)
		if !ok {
			return nil
		}
		i, size := next, entry.Size
		if next++; !wanted(i) {
			return nil
		}
		if entry.Kind == Link {
			r, size = strings.NewReader(header.Linkname), int64(len(header.Linkname))
		}
		return whole(ctx, path, r, size, func(r io.Reader) error { return take(i, r) })
	})
}
