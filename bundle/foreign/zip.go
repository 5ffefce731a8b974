package foreign

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"slices"
	"strings"
)

type zipArchive struct {
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

// List implements Archive.
func (s *zipArchive) List(context.Context) ([]Entry, error) {
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
	var all []Entry
	s.files = nil
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
		if total += file.UncompressedSize64; file.UncompressedSize64 > MaxTotal || total > uint64(budget(s.b)) {
			return nil, tooMuch(file.Name, s.b)
		}
		if strings.HasSuffix(file.Name, "/") {
			if file.UncompressedSize64 > 0 {
				return nil, refused("archive", file.Name, "is a directory with content")
			}
			continue
		}
		all, s.files = append(all, Entry{path, int64(file.UncompressedSize64), kindOf(file)}),
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
func kindOf(f *zip.File) Kind {
	switch t := f.ExternalAttrs >> 28; {
	case t == 0o12:
		return Link
	case t != 0 && t != 0o10:
		return Special
	case f.Mode().Perm()&0o100 != 0:
		return Executable
	}
	return Plain
}

// checkHeaders refuses a zip about which readers can disagree: some use the directory, which ends at endAt, others
// the headers before the files. Headers must equal the directory's entries, and files must follow each other without
// gaps, from the first byte to the directory.
func (s *zipArchive) checkHeaders(files []*zip.File, endAt int64) error {
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
func (s *zipArchive) header(at int64, file *zip.File) int64 {
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

// Read implements Archive.
func (s *zipArchive) Read(ctx context.Context, wanted func(i int) bool, take func(i int, r io.Reader) error) error {
	for i, file := range s.files {
		if !wanted(i) {
			continue
		}
		r, err := file.Open()
		if err != nil {
			return damaged(file.Name, err)
		}
		err = whole(ctx, file.Name, r, int64(file.UncompressedSize64), func(r io.Reader) error { return take(i, r) })
		r.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
