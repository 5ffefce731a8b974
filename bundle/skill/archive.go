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
	"github.com/rye-build/rye/cas/portable"
)

// ReadArchive reads the skills in a zip or a tar.gz.
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

func longNames() *fault.Error {
	return refused("files", "the archive", "has names of more than %d MiB", MaxNames>>20)
}

// place returns the path of an entry. It refuses every path that leads out of the archive's directory, in a skill or
// not.
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

type zipSource struct {
	b     []byte
	files []*zip.File
}

const (
	endSize       = 22 // the end of the directory, without its comment
	headerSize    = 30 // the header before a file, without name and extra fields
	directorySize = 46 // of a file's entry in the directory, without name, extra fields and comment
	locatorSize   = 20 // the zip64 locator before the end

	encrypted = 1 << 0 // flags
	described = 1 << 3 // sum and sizes follow the file
)

var le = binary.LittleEndian

func (s *zipSource) list() ([]entry, error) {
	// The directory's end must be the end of the file, so that every reader finds the same one.
	i := bytes.LastIndex(s.b, []byte("PK\x05\x06"))
	if i < 0 || len(s.b)-i < endSize || i+endSize+int(le.Uint16(s.b[i+20:])) != len(s.b) {
		return nil, badArchive("is cut off, or has bytes behind its end")
	}
	// The directory must be where its end says. Its entries are counted before zip.NewReader, which makes 300 bytes
	// of each 46.
	at, size := int64(le.Uint32(s.b[i+16:])), int64(le.Uint32(s.b[i+12:]))
	if at+size != int64(i) || bytes.HasPrefix(s.b[max(i-locatorSize, 0):], []byte("PK\x06\x07")) {
		return nil, badArchive("has bytes between its files and its end that belong to neither")
	}
	switch n := entries(s.b[at:i]); {
	case n > MaxEntries:
		return nil, refused("files", "the archive", "has more than %d files", MaxEntries)
	case size-int64(n)*directorySize > MaxNames:
		return nil, longNames()
	}
	r, err := zip.NewReader(bytes.NewReader(s.b), int64(len(s.b)))
	if err != nil {
		return nil, badArchive("is no valid zip: %v", err)
	}
	if err := s.checkHeaders(r.File, int64(i)); err != nil {
		return nil, err
	}
	var all []entry
	seen, total := map[string]bool{}, uint64(0)
	for _, file := range r.File {
		path, err := place(file.Name)
		if err != nil {
			return nil, err
		}
		if seen[path] {
			return nil, refused("duplicate", file.Name, "is twice in the archive")
		}
		seen[path] = true
		if total += file.UncompressedSize64; file.UncompressedSize64 > MaxTotal || total > MaxTotal {
			return nil, refused("size", file.Name, "is too much: an archive unpacks to at most %d bytes", MaxTotal)
		}
		if strings.HasSuffix(file.Name, "/") {
			if file.UncompressedSize64 > 0 {
				return nil, refused("archive", file.Name, "is a directory with content")
			}
			continue
		}
		all, s.files = append(all, entry{path: path, size: int64(file.UncompressedSize64), kind: kindOf(file)}),
			append(s.files, file)
	}
	return all, nil
}

// entries counts the entries of a directory.
func entries(b []byte) (n int) {
	for ; len(b) >= directorySize; n++ {
		b = b[min(directorySize+int(le.Uint16(b[28:]))+int(le.Uint16(b[30:]))+int(le.Uint16(b[32:])), len(b)):]
	}
	return n
}

// kindOf uses the Unix mode whatever system made the archive, because unpacking programs do so too.
func kindOf(f *zip.File) kind {
	switch t := f.ExternalAttrs >> 28; {
	case t == 0o12:
		return link
	case t != 0 && t != 0o10:
		return special
	case f.Mode().Perm()&0o100 != 0:
		return executable
	}
	return plain
}

// checkHeaders refuses a zip about which readers can disagree: some use the directory, which ends at endAt, others
// the headers before the files. Headers must equal the directory's entries, and files must follow each other without
// gaps, from the first byte to the directory.
func (s *zipSource) checkHeaders(files []*zip.File, endAt int64) error {
	files = slices.Clone(files)
	for _, f := range files {
		switch at, err := f.DataOffset(); {
		case f.Flags&encrypted != 0:
			return refused("archive", f.Name, "is encrypted")
		case f.Method != zip.Store && f.Method != zip.Deflate:
			return refused("archive", f.Name, "is compressed by an unknown method")
		case err != nil || f.CompressedSize64 > uint64(len(s.b)) || at+int64(f.CompressedSize64) > endAt:
			return refused("archive", f.Name, "is cut off")
		}
	}
	offset := func(f *zip.File) int64 { at, _ := f.DataOffset(); return at }
	slices.SortStableFunc(files, func(a, b *zip.File) int { return cmp.Compare(offset(a), offset(b)) })
	at, directory := int64(0), int64(0)
	for _, f := range files {
		n := s.header(at, f)
		if n < 0 {
			return refused("archive", f.Name,
				"has another name, size or place in front of its bytes than in the directory")
		}
		at = offset(f) + int64(f.CompressedSize64) + n
		directory += directorySize + int64(len(f.Name)+len(f.Extra)+len(f.Comment))
	}
	if at+directory != endAt || int64(le.Uint32(s.b[endAt+16:])) != at {
		return badArchive("has bytes between its files and its end that belong to neither")
	}
	return nil
}

// header checks the header of a file at an offset, which is followed by the file's bytes. It returns the length of
// the description after those; -1 if the file differs from the directory's entry.
func (s *zipSource) header(at int64, file *zip.File) int64 {
	data, _ := file.DataOffset()
	if data-at < headerSize {
		return -1
	}
	raw := s.b[at:data]
	n, extra := int(le.Uint16(raw[26:])), int(le.Uint16(raw[28:]))
	if string(raw[:4]) != "PK\x03\x04" || headerSize+n+extra != len(raw) ||
		string(raw[headerSize:headerSize+n]) != file.Name ||
		otherName(raw[headerSize+n:], file.Name) || otherName(file.Extra, file.Name) ||
		(le.Uint16(raw[6:])^file.Flags)&(encrypted|described) != 0 || le.Uint16(raw[8:]) != file.Method {
		return -1
	}
	// sum, packed size, size
	local := [3]uint64{uint64(le.Uint32(raw[14:])), uint64(le.Uint32(raw[18:])), uint64(le.Uint32(raw[22:]))}
	want := [3]uint64{uint64(file.CRC32), file.CompressedSize64, file.UncompressedSize64}
	if large := field(raw[headerSize+n:], 1); len(large) >= 16 && local[1] == 1<<32-1 && local[2] == 1<<32-1 {
		local[1], local[2] = le.Uint64(large[8:]), le.Uint64(large)
	}
	if file.Flags&described == 0 {
		if local != want {
			return -1
		}
		return 0
	}
	for i := range local {
		if local[i] != 0 && local[i] != want[i] {
			return -1
		}
	}
	return description(s.b[data+int64(file.CompressedSize64):], want)
}

// description returns the length of the data descriptor at the beginning of b, if it equals the directory's entry;
// otherwise -1. It may begin with a signature, and its sizes have 4 or 8 bytes.
func description(b []byte, want [3]uint64) int64 {
	short := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, uint32(want[0])), uint32(want[1])), uint32(want[2]))
	long := le.AppendUint64(le.AppendUint64(le.AppendUint32(nil, uint32(want[0])), want[1]), want[2])
	for _, d := range []string{"PK\x07\x08" + string(long), "PK\x07\x08" + string(short), string(long),
		string(short)} {
		if bytes.HasPrefix(b, []byte(d)) {
			return int64(len(d))
		}
	}
	return -1
}

// field returns the extra field with an id, or nil.
func field(extra []byte, id uint16) []byte {
	for len(extra) >= 4 {
		n := int(le.Uint16(extra[2:]))
		if 4+n > len(extra) {
			return nil
		}
		if le.Uint16(extra) == id {
			return extra[4 : 4+n]
		}
		extra = extra[4+n:]
	}
	return nil
}

// otherName reports whether extra fields give a file another name, which some readers use.
func otherName(extra []byte, name string) bool {
	b := field(extra, 0x7075)
	return len(b) >= 5 && string(b[5:]) != name
}

func (s *zipSource) read(all []entry) error {
	for i := range all {
		if !all[i].wanted {
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

// readAll reads size bytes and the end after them, where readers check checksums.
func readAll(r io.Reader, size int64) ([]byte, error) {
	var b bytes.Buffer // grows with the data, not with the claimed size
	n, err := b.ReadFrom(io.LimitReader(r, size+1))
	if err == nil && n != size {
		err = errSize
	}
	return b.Bytes(), err
}

type tarSource struct{ b []byte }

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
func (s *tarSource) each(visit func(h *tar.Header, p string, r io.Reader) error) error {
	in := bytes.NewReader(s.b)
	reader, err := gzip.NewReader(in)
	if err != nil {
		return badArchive("is no valid tar.gz: %v", err)
	}
	reader.Multistream(false)
	whole := io.LimitReader(reader, MaxTotal+1)
	files := tar.NewReader(whole)
	names := 0
	for n := 0; ; n++ {
		header, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return badArchive("is no valid tar.gz: %v", err)
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
	if n, _ := reader.Read(make([]byte, 1)); n > 0 {
		return refused("size", "the archive", "unpacks to more than %d bytes", MaxTotal)
	}
	if in.Len() > 0 {
		return badArchive("has bytes behind its end")
	}
	return nil
}

func (s *tarSource) list() (all []entry, err error) {
	seen, total := map[string]bool{}, int64(0)
	err = s.each(func(header *tar.Header, path string, _ io.Reader) error {
		entry := entry{path: path, size: header.Size, kind: special}
		switch header.Typeflag {
		case tar.TypeXGlobalHeader, tar.TypeDir:
			return nil
		case tar.TypeReg:
			entry.kind = plain
			if strings.HasSuffix(header.Name, "/") {
				entry.kind = special // a directory for some readers
			} else if header.Mode&0o100 != 0 {
				entry.kind = executable
			}
		case tar.TypeSymlink, tar.TypeLink:
			entry.kind = link
		}
		if seen[path] {
			return refused("duplicate", header.Name, "is twice in the archive")
		}
		seen[path] = true
		if total += header.Size; header.Size > MaxTotal || total > MaxTotal {
			return refused("size", header.Name, "is too much: an archive unpacks to at most %d bytes", MaxTotal)
		}
		all = append(all, entry)
		return nil
	})
	return all, err
}

func (s *tarSource) read(all []entry) error {
	at := map[string]int{}
	for i := range all {
		if all[i].wanted {
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
