package skill

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
)

// ReadArchive reads the skills in an archive, which is a zip or a tar.gz.
func ReadArchive(b []byte) ([]*Skill, error) {
	switch {
	case len(b) > MaxArchive:
		return nil, tooLarge("the archive", int64(len(b)), MaxArchive)
	case bytes.HasPrefix(b, []byte("PK")):
		return find(&zipSource{b: b}, true)
	case bytes.HasPrefix(b, []byte{0x1f, 0x8b}):
		return find(&tarSource{b}, true)
	}
	return nil, badArchive("is neither a zip nor a tar.gz")
}

func badArchive(format string, args ...any) *fault.Error {
	return refused("archive", "the archive", format, args...)
}

// place returns the path of an entry, and refuses one that leads out of where it is unpacked, in a skill or not.
func place(name string) (string, error) {
	p := strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	switch {
	case strings.ContainsAny(p, "\x00\\"):
		return "", refused("path", name, "has a NUL or a backslash in its name")
	case !utf8.ValidString(p):
		return "", refused("utf8", name, "is not UTF-8")
	case p == "" || p == ".":
		return ".", nil
	case !fs.ValidPath(p):
		return "", refused("path", name, "leads out of the archive, or is not a plain path")
	}
	return p, nil
}

type zipSource struct {
	b     []byte
	files []*zip.File
}

const (
	endSize    = 22 // of the end of the directory, without comment
	headerSize = 30 // of the header in front of a file, without name and extra field
)

func (s *zipSource) list() ([]entry, error) {
	// The end of the directory is the end of the file, so that no reader finds another one.
	i := bytes.LastIndex(s.b, []byte("PK\x05\x06"))
	if i < 0 || len(s.b)-i < endSize || i+endSize+int(binary.LittleEndian.Uint16(s.b[i+20:])) != len(s.b) {
		return nil, badArchive("is cut off, or has bytes behind its end")
	}
	r, err := zip.NewReader(bytes.NewReader(s.b), int64(len(s.b)))
	if err != nil {
		return nil, badArchive("is no valid zip: %v", err)
	}
	if len(r.File) > MaxEntries {
		return nil, refused("files", "the archive", "has more than %d files", MaxEntries)
	}
	if err := s.checkHeaders(r.File); err != nil {
		return nil, err
	}
	var all []entry
	seen, total := map[string]bool{}, uint64(0)
	for _, f := range r.File {
		p, err := place(f.Name)
		if err != nil {
			return nil, err
		}
		if seen[p] {
			return nil, refused("duplicate", f.Name, "is twice in the archive")
		}
		seen[p] = true
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		if total += f.UncompressedSize64; f.UncompressedSize64 > MaxTotal || total > MaxTotal {
			return nil, refused("size", f.Name, "is too much: an archive unpacks to at most %d bytes", MaxTotal)
		}
		e := entry{path: p, size: int64(f.UncompressedSize64), kind: plain}
		switch m := f.Mode(); {
		case m&fs.ModeSymlink != 0:
			e.kind = link
		case !m.IsRegular():
			e.kind = special
		case m.Perm()&0o100 != 0:
			e.kind = executable
		}
		all, s.files = append(all, e), append(s.files, f)
	}
	return all, nil
}

// checkHeaders refuses a zip that readers can disagree about: those that go by the directory, and those that go by the
// headers in front of the files. Files follow each other, from the first byte on, each with the name that the directory has.
func (s *zipSource) checkHeaders(files []*zip.File) error {
	type span struct {
		at, end int64
		f       *zip.File
	}
	all := make([]span, 0, len(files))
	for _, f := range files {
		switch {
		case f.Flags&1 != 0:
			return refused("archive", f.Name, "is encrypted")
		case f.Method != zip.Store && f.Method != zip.Deflate:
			return refused("archive", f.Name, "is compressed by an unknown method")
		}
		at, err := f.DataOffset()
		if err != nil || at < 0 || f.CompressedSize64 > uint64(len(s.b)) || at+int64(f.CompressedSize64) > int64(len(s.b)) {
			return refused("archive", f.Name, "is cut off")
		}
		all = append(all, span{at, at + int64(f.CompressedSize64), f})
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.at, b.at) })
	end := int64(0)
	for i, x := range all {
		gap := headerOf(s.b, end, x.at, x.f)
		if gap < 0 || i == 0 && gap > 0 || gap > 24 { // 24 bytes is a description behind the data of the one before
			return refused("archive", x.f.Name, "has another name or place in front of its bytes than in the directory")
		}
		end = x.end
	}
	return nil
}

// headerOf finds the header of a file between two places, and returns how far behind the first it is; -1 if it isn't there.
func headerOf(b []byte, from, to int64, f *zip.File) int64 {
	for at := from; at+headerSize <= to && at <= from+24; at++ {
		h := b[at:to]
		n, extra := int64(binary.LittleEndian.Uint16(h[26:])), int64(binary.LittleEndian.Uint16(h[28:]))
		if string(h[:4]) == "PK\x03\x04" && at+headerSize+n+extra == to && string(h[headerSize:headerSize+n]) == f.Name {
			return at - from
		}
	}
	return -1
}

func (s *zipSource) read(all []entry, want []bool) error {
	for i := range all {
		if !want[i] {
			continue
		}
		r, err := s.files[i].Open()
		if err == nil {
			all[i].b, err = readAll(r, all[i].size)
		}
		if err != nil {
			return refused("archive", all[i].path, "can't be unpacked: %v", err)
		}
	}
	return nil
}

var errSize = errors.New("it has another size than the archive says")

// readAll reads what has a size, to the end, where checksums are checked.
func readAll(r io.Reader, size int64) ([]byte, error) {
	var b bytes.Buffer // grows with what is there, not with what is promised
	n, err := b.ReadFrom(io.LimitReader(r, size+1))
	if err == nil && n != size {
		err = errSize
	}
	return b.Bytes(), err
}

type tarSource struct{ b []byte }

// each calls f for each file of the archive. What follows its end is refused.
func (s *tarSource) each(f func(h *tar.Header, p string, r io.Reader) error) error {
	in := bytes.NewReader(s.b)
	z, err := gzip.NewReader(in)
	if err != nil {
		return badArchive("is no valid tar.gz: %v", err)
	}
	z.Multistream(false)
	whole := io.LimitReader(z, MaxTotal+1)
	r := tar.NewReader(whole)
	for n := 0; ; n++ {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return badArchive("is no valid tar.gz: %v", err)
		}
		if n > MaxEntries {
			return refused("files", "the archive", "has more than %d files", MaxEntries)
		}
		p, err := place(h.Name)
		if err == nil {
			err = f(h, p, r)
		}
		if err != nil {
			return err
		}
	}
	for rest := make([]byte, 32<<10); ; {
		n, err := whole.Read(rest)
		if len(bytes.Trim(rest[:n], "\x00")) > 0 {
			return badArchive("has bytes behind its end")
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return badArchive("is no valid tar.gz: %v", err)
		}
	}
	if n, _ := z.Read(make([]byte, 1)); n > 0 {
		return refused("size", "the archive", "unpacks to more than %d bytes", MaxTotal)
	}
	if in.Len() > 0 {
		return badArchive("has bytes behind its end")
	}
	return nil
}

func (s *tarSource) list() (all []entry, err error) {
	seen, total := map[string]bool{}, int64(0)
	err = s.each(func(h *tar.Header, p string, _ io.Reader) error {
		e := entry{path: p, size: h.Size, kind: special}
		switch h.Typeflag {
		case tar.TypeXGlobalHeader, tar.TypeDir:
			return nil
		case tar.TypeReg:
			e.kind = plain
			if h.Mode&0o100 != 0 {
				e.kind = executable
			}
		case tar.TypeSymlink, tar.TypeLink:
			e.kind = link
		}
		if seen[p] {
			return refused("duplicate", h.Name, "is twice in the archive")
		}
		seen[p] = true
		if total += h.Size; h.Size > MaxTotal || total > MaxTotal {
			return refused("size", h.Name, "is too much: an archive unpacks to at most %d bytes", MaxTotal)
		}
		all = append(all, e)
		return nil
	})
	return all, err
}

func (s *tarSource) read(all []entry, want []bool) error {
	at := map[string]int{}
	for i := range all {
		if want[i] {
			at[all[i].path] = i
		}
	}
	return s.each(func(h *tar.Header, p string, r io.Reader) (err error) {
		if i, ok := at[p]; ok && h.Typeflag == tar.TypeReg {
			if all[i].b, err = readAll(r, all[i].size); err != nil {
				return refused("archive", p, "can't be unpacked: %v", err)
			}
		}
		return nil
	})
}
